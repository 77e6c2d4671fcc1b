"""Widgets and renderers whose page part is installed in an environment of the user's, and not in ownlab's own.

`pip install plotly bqplot` puts JavaScript into share/jupyter/labextensions of the environment in which notebooks run.
JupyterLab looks only in its own. Here the page gets from the other environments what shows outputs: modules of widgets and
renderers of MIME types. Nothing else: an extension of another environment must not change the page, so settings,
`disabledExtensions`, and packages that JupyterLab or ownlab provide themselves are ignored. The user added these environments,
and runs their code in every kernel.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.config.paths import kernels_folder
from ownlab.json_encoding import decode_json
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.server.routes import RouteHandler

__all__ = ["PageExtension", "add_to_page", "extension_handlers", "find_extensions", "link_extensions"]

_NAME = re.compile(r"(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*")
# Of JupyterLab and ownlab. The manager of widgets is ours as well: a page can have only one.
_OWN = re.compile(r"(@?ownlab\b.*)|(@jupyterlab/.*)|(@jupyter/.*)|(@jupyter-widgets/.*)")
_WIDGETS = b"@jupyter-widgets/base"  # the module that each module of widgets requires from the page
# A lab serves ports by its own route, see port_proxy.py, and has no entries for jupyter-server-proxy's launcher.
_WITHOUT_SERVER = ("@jupyterhub/jupyter-server-proxy",)
_MAX_ENTRY_BYTES = 4 << 20


class _Build(Struct, frozen=True):
    """The result of a build, in package.json."""

    load: str
    extension: str | None = None
    mime: str | None = msgspec.field(name="mimeExtension", default=None)
    style: str | None = None


class _Metadata(Struct, frozen=True):
    build: _Build = msgspec.field(name="_build")


class _Package(Struct, frozen=True):
    """What is read of package.json."""

    name: str
    version: str
    jupyterlab: _Metadata


class PageExtension(NamedTuple):
    """An extension that the page may load."""

    name: str
    version: str
    folder: Path  # its own, in an environment
    entry: Mapping[str, str]  # for JupyterLab's list `federated_extensions`


class ExtensionName(Struct, frozen=True):
    """One extension of an environment."""

    name: str
    version: str


class ExtensionNames(Struct, frozen=True):
    """The answer to GET /ownlab/api/page-extensions: what a page that is loaded now would have."""

    extensions: tuple[ExtensionName, ...]


def find_extensions(pythons: Iterable[str]) -> dict[str, PageExtension]:
    """Return the widgets and renderers in the environments of these interpreters. The newest version of each is taken."""
    found: dict[str, PageExtension] = {}
    for prefix in dict.fromkeys(os.path.dirname(os.path.dirname(python)) for python in pythons):
        for extension in _in_folder(Path(prefix, "share", "jupyter", "labextensions")):
            other = found.get(extension.name)
            if other is None or _comparable(extension.version) > _comparable(other.version):
                found[extension.name] = extension
    return found


def _in_folder(folder: Path) -> Iterator[PageExtension]:
    for path in sorted([*folder.glob("[!@]*/package.json"), *folder.glob("@*/*/package.json")]):
        with contextlib.suppress(
            OSError, msgspec.DecodeError
        ):  # it is just being installed, or not one for JupyterLab 4
            extension = _read(path)
            if extension is not None:
                yield extension


def _read(path: Path) -> PageExtension | None:
    package = decode_json(path.read_bytes(), _Package)
    build = package.jupyterlab.build
    if not _NAME.fullmatch(package.name) or _OWN.fullmatch(package.name) or not _is_inside(path.parent, build.load):
        return None
    entry = {"name": package.name, "load": build.load}
    if build.mime:
        entry["mimeExtension"] = build.mime
    if build.extension and _requires_widgets(path.parent / build.load):
        entry["extension"] = build.extension
    if len(entry) == 2:
        return None  # it does something else in the page
    if build.style:
        entry["style"] = build.style
    return PageExtension(package.name, package.version, path.parent, entry)


def _is_inside(folder: Path, load: str) -> bool:
    """Whether the file to load is in `static`, the only folder that is served."""
    parts = os.path.normpath(load).split(os.sep)
    return parts[0] == "static" and len(parts) > 1 and (folder / load).is_file()


def _requires_widgets(file: Path) -> bool:
    with file.open("rb") as opened:
        return _WIDGETS in opened.read(_MAX_ENTRY_BYTES)


def _comparable(version: str) -> list[tuple[int, str]]:
    """1.10.0 is newer than 1.9.2."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"[.+-]", version)]


def link_extensions(extensions: Mapping[str, PageExtension], folder: Path) -> None:
    """Let the server find their files in a folder. Only links to `static`: JupyterLab would use a package.json as it is."""
    wanted = {folder / each.name / "static": each.folder / "static" for each in extensions.values()}
    for link, target in wanted.items():
        if not link.is_symlink() or os.readlink(link) != str(target):
            link.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                link.unlink()
            link.symlink_to(target)
    for link in [*folder.glob("[!@]*/static"), *folder.glob("@*/*/static")]:
        if link not in wanted:
            shutil.rmtree(link.parent, ignore_errors=True)


def add_to_page(page_config: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Add the extensions of all environments to the configuration of a page that is being loaded.

    Extensions whose server part a lab does not load are left out: they would ask for routes that do not exist.
    """
    found: list[dict[str, Any]] = page_config.get("federated_extensions", [])
    loaded = page_config["federated_extensions"] = [each for each in found if each.get("name") not in _WITHOUT_SERVER]
    names = {each.get("name") for each in loaded}
    extensions = {name: each for name, each in _current().items() if name not in names}
    with contextlib.suppress(OSError):  # a full disk: the page works without them
        link_extensions(extensions, folder)
        loaded.extend(dict(each.entry) for each in extensions.values())
    return page_config


def _current() -> dict[str, PageExtension]:
    return find_extensions(kind.python for kind in read_specs(kernels_folder()))


class PageExtensionsHandler(RouteHandler):
    """GET /ownlab/api/page-extensions."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return what a page would have if it were loaded now: an open page cannot load more."""
        await self.answer(asyncio.to_thread(_names))


def _names() -> ExtensionNames:
    return ExtensionNames(tuple(ExtensionName(each.name, each.version) for each in _current().values()))


def extension_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    return [(r"/ownlab/api/page-extensions", PageExtensionsHandler)]
