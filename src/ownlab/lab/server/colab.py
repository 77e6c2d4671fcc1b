"""What the page needs to answer google.colab: files in and out of a runtime, grants of secrets, the kernel's mode."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from urllib.parse import quote

import msgspec
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web
from tornado.iostream import StreamClosedError

from ownlab.errors import LabError, OwnlabError, UsageError
from ownlab.lab.runtimes.content_files import (
    OpenFile,
    download_folders,
    is_in_colab_mode,
    notebook_of,
    open_download,
    write_chunk,
)
from ownlab.lab.secrets.store import check_name, grant, list_secrets, set_secret
from ownlab.lab.server.routes import RouteHandler
from ownlab.lab.server.snapshot_stream import document_of

__all__ = ["colab_handlers"]

_BYTES = "application/octet-stream"
_AT_ONCE = 1 << 20  # bytes of a download that are in memory


class Piece(Struct, frozen=True):
    """The answer to PUT …/uploads: what there is of the file so far."""

    path: str
    size: int


class Place(Struct, frozen=True):
    """GET …/files: a file that can be downloaded."""

    name: str
    size: int
    contents: str | None  # its path for JupyterLab, where it is in the lab's folder


class Access(Struct, frozen=True):
    """Whether there is a secret, and the runtime's notebook may have it."""

    name: str
    there: bool
    granted: bool


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/secrets. With a value the secret is set before it is granted."""

    key: str
    value: str | None = None

    def __repr__(self) -> str:
        return f"Grant({self.key!r})"


class Mode(Struct, frozen=True):
    """GET …/colab."""

    colab: bool


class ColabHandler(RouteHandler):
    """What these routes have in common."""

    def folders(self, runtime: str) -> list[str]:
        """From where files may go out; the lab's own is the last."""
        return download_folders(runtime, os.path.expanduser(self.settings["server_root_dir"]))

    def number(self, name: str) -> int:
        """A number in the address."""
        given = self.get_query_argument(name)
        if not given.isascii() or not given.isdigit() or len(given) > 15:
            raise web.HTTPError(400, f"{name} is no number")
        return int(given)

    async def work(self, do: Callable[[], Struct]) -> None:
        """Answer with what a thread finds out."""
        await self.answer(asyncio.to_thread(do))


class UploadsHandler(ColabHandler):
    """PUT /ownlab/api/runtimes/ID/uploads?folder=…&number=N&offset=N."""

    @web.authenticated
    @authorized
    async def put(self, runtime: str) -> None:
        """Take a part of a file for files.upload."""
        folder = self.get_query_argument("folder", strip=False)
        number, offset, data = self.number("number"), self.number("offset"), self.request.body
        await self.work(lambda: Piece(*write_chunk(runtime, folder, number, offset, data)))


class FilesHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/files?path=…."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Whether a file can be had, and what it is to JupyterLab."""
        path = self.get_query_argument("path", strip=False)
        await self.work(lambda: _place(path, self.folders(runtime)))


class DownloadHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/download?path=…."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """The file itself, as a download."""
        self.check_xsrf_cookie()  # as Jupyter's own downloads: another site's link fetches nothing
        path = self.get_query_argument("path", strip=False)
        try:
            opened = await asyncio.to_thread(lambda: open_download(path, self.folders(runtime)))
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            self.finish(document_of(exc))
            return
        name = os.path.basename(path)
        self.set_header("Content-Type", _BYTES)
        self.set_header("Content-Length", str(opened.size))
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name.encode(), safe='')}")
        self.set_header("Cache-Control", "no-store")
        await self._send(opened)

    async def _send(self, opened: OpenFile) -> None:
        left = opened.size  # a file that grows meanwhile is given as it was
        with open(opened.descriptor, "rb", buffering=0) as file:
            while left and (data := await asyncio.to_thread(file.read, min(left, _AT_ONCE))):
                left -= len(data)
                self.write(data)
                try:
                    await self.flush()
                except StreamClosedError:
                    return  # the person does not want it any more
        self.finish(set_content_type=_BYTES)


class SecretsHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/secrets?key=…, POST /ownlab/api/runtimes/ID/secrets."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """What there is to be granted. Values are never told."""
        key = self.get_query_argument("key", strip=False)
        await self.work(lambda: _access(key, _notebook(runtime)))

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Grant a secret to the notebook of a runtime, which is the server's to know and not the asker's to say."""
        body = self.request.body
        await self.work(lambda: _grant(body, _notebook(runtime)))


class ModeHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/colab."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Whether its kernel is like Colab's."""
        await self.work(lambda: Mode(is_in_colab_mode(runtime)))


def colab_handlers(runtime: str) -> list[tuple[str, type[web.RequestHandler]]]:
    """Address below the server's base address -> handler. `runtime`: the address of one, as a pattern."""
    return [
        (rf"{runtime}/uploads", UploadsHandler),
        (rf"{runtime}/files", FilesHandler),
        (rf"{runtime}/download", DownloadHandler),
        (rf"{runtime}/secrets", SecretsHandler),
        (rf"{runtime}/colab", ModeHandler),
    ]


def _place(path: str, folders: list[str]) -> Place:
    opened = open_download(path, folders)
    os.close(opened.descriptor)
    lab = os.path.join(os.path.realpath(folders[-1]), "")
    contents = opened.path[len(lab) :] if opened.path.startswith(lab) else None
    return Place(os.path.basename(path), opened.size, contents)


def _notebook(runtime: str) -> str:
    found = notebook_of(runtime)
    if not found:
        raise LabError("this runtime belongs to no notebook")
    return found


def _access(key: str, notebook: str) -> Access:
    found = next((each for each in list_secrets() if each.name == key), None)
    return Access(key, found is not None, found is not None and os.path.realpath(notebook) in found.notebooks)


def _grant(body: bytes, notebook: str) -> Access:
    try:
        given = msgspec.json.decode(body, type=Grant)
    except msgspec.DecodeError:  # its words are not told, for what they quote may be a value
        raise UsageError("the body of the request cannot be used") from None
    check_name(given.key)
    if given.value is not None:
        set_secret(given.key, given.value)
    grant(given.key, notebook)
    return _access(given.key, notebook)
