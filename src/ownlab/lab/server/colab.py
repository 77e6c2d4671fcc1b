"""The routes that the page needs to serve google.colab: uploads, downloads, grants of secrets, and the kernel's mode."""

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
from ownlab.lab.server.page_errors import PageError
from ownlab.lab.server.routes import RouteHandler
from ownlab.text import text

__all__ = ["colab_handlers"]

_BYTES = "application/octet-stream"
_CHUNK_BYTES = 1 << 20  # of a download in memory


class UploadedPart(Struct, frozen=True):
    """The answer to PUT …/uploads: the part of the file that has arrived."""

    path: str
    size: int


class DownloadableFile(Struct, frozen=True):
    """The answer to GET …/files: a file that can be downloaded."""

    name: str
    size: int
    contents: str | None  # its JupyterLab path, if it is in the lab's folder


class SecretAccess(Struct, frozen=True):
    """Whether a secret exists, and whether it is granted to the runtime's notebook."""

    name: str
    there: bool
    granted: bool


class Grant(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/secrets. If there is a value, the secret is set before it is granted."""

    key: str
    value: str | None = None

    def __repr__(self) -> str:
        return f"Grant({self.key!r})"


class Mode(Struct, frozen=True):
    """The answer to GET …/colab."""

    colab: bool


class ColabHandler(RouteHandler):
    """Base of these routes."""

    def folders(self, runtime: str) -> list[str]:
        """Return the folders from which files may be downloaded. The last one is the lab's own."""
        return download_folders(runtime, os.path.expanduser(self.settings["server_root_dir"]))

    def number(self, name: str) -> int:
        """Return a number in the query."""
        value = self.get_query_argument(name)
        if not value.isascii() or not value.isdigit() or len(value) > 15:
            raise PageError(400, text("The query parameter {name} is not a number.", name=name))
        return int(value)

    async def work(self, call: Callable[[], Struct]) -> None:
        """Answer with the result of a call in a thread."""
        await self.answer(asyncio.to_thread(call))


class UploadsHandler(ColabHandler):
    """PUT /ownlab/api/runtimes/ID/uploads?folder=…&number=N&offset=N."""

    @web.authenticated
    @authorized
    async def put(self, runtime: str) -> None:
        """Receive a part of a file for files.upload."""
        folder = self.get_query_argument("folder", strip=False)
        number, offset, data = self.number("number"), self.number("offset"), self.request.body
        await self.work(lambda: UploadedPart(*write_chunk(runtime, folder, number, offset, data)))


class FilesHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/files?path=…."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Return whether a file can be downloaded, and its JupyterLab path."""
        path = self.get_query_argument("path", strip=False)
        await self.work(lambda: _find_file(path, self.folders(runtime)))


class DownloadHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/download?path=…."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Send the file as a download."""
        self.check_xsrf_cookie()  # like Jupyter's own downloads: a link on another site must not download anything
        path = self.get_query_argument("path", strip=False)
        try:
            opened = await asyncio.to_thread(lambda: open_download(path, self.folders(runtime)))
        except OwnlabError as exc:
            self.set_status(exc.http_status)
            self.finish(self.encode(exc))
            return
        name = os.path.basename(path)
        self.set_header("Content-Type", _BYTES)
        self.set_header("Content-Length", str(opened.size))
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name.encode(), safe='')}")
        self.set_header("Cache-Control", "no-store")
        await self._send(opened)

    async def _send(self, opened: OpenFile) -> None:
        left = opened.size  # even if the file grows meanwhile
        with open(opened.descriptor, "rb", buffering=0) as file:
            while left and (data := await asyncio.to_thread(file.read, min(left, _CHUNK_BYTES))):
                left -= len(data)
                self.write(data)
                try:
                    await self.flush()
                except StreamClosedError:
                    return  # the user cancelled the download
        self.finish(set_content_type=_BYTES)


class SecretsHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/secrets?key=…, POST /ownlab/api/runtimes/ID/secrets."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Return whether a secret exists and is granted, never its value."""
        key = self.get_query_argument("key", strip=False)
        await self.work(lambda: _access(key, _notebook(runtime)))

    @web.authenticated
    @authorized
    async def post(self, runtime: str) -> None:
        """Grant a secret to the notebook of a runtime.

        The server knows which notebook that is; the request cannot name one.
        """
        body = self.request.body
        await self.work(lambda: _grant(body, _notebook(runtime)))


class ModeHandler(ColabHandler):
    """GET /ownlab/api/runtimes/ID/colab."""

    @web.authenticated
    @authorized
    async def get(self, runtime: str) -> None:
        """Return whether the kernel is in Colab mode."""
        await self.work(lambda: Mode(is_in_colab_mode(runtime)))


def colab_handlers(runtime: str) -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler. `runtime`: the pattern of a runtime's URL."""
    return [
        (rf"{runtime}/uploads", UploadsHandler),
        (rf"{runtime}/files", FilesHandler),
        (rf"{runtime}/download", DownloadHandler),
        (rf"{runtime}/secrets", SecretsHandler),
        (rf"{runtime}/colab", ModeHandler),
    ]


def _find_file(path: str, folders: list[str]) -> DownloadableFile:
    opened = open_download(path, folders)
    os.close(opened.descriptor)
    lab = os.path.join(os.path.realpath(folders[-1]), "")
    contents = opened.path[len(lab) :] if opened.path.startswith(lab) else None
    return DownloadableFile(os.path.basename(path), opened.size, contents)


def _notebook(runtime: str) -> str:
    notebook = notebook_of(runtime)
    if not notebook:
        raise LabError(text("This runtime does not belong to a notebook."))
    return notebook


def _access(key: str, notebook: str) -> SecretAccess:
    secret = next((each for each in list_secrets() if each.name == key), None)
    granted = secret is not None and os.path.realpath(notebook) in secret.notebooks
    return SecretAccess(key, secret is not None, granted)


def _grant(body: bytes, notebook: str) -> SecretAccess:
    try:
        request = msgspec.json.decode(body, type=Grant)
    except (msgspec.DecodeError, RecursionError):  # without its message, which may quote a value
        raise UsageError(text("The request body is invalid.")) from None
    check_name(request.key)
    if request.value is not None:
        set_secret(request.key, request.value)
    grant(request.key, notebook)
    return _access(request.key, notebook)
