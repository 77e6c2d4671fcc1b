"""The routes for edits: pages send patches, get the changes of others, and are notified of new ones."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import errno
import json
import os
from logging import Logger, LoggerAdapter
from typing import Any, TypeVar

import msgspec
from jupyter_core.paths import is_hidden
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web
from tornado.websocket import WebSocketClosedError

from ownlab.errors import LabError, OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.notebooks.edits.records import Changes, Patch
from ownlab.lab.notebooks.parsing import replace_lone_surrogates
from ownlab.lab.runtimes.drive import is_drive_path
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.drive import Drive
from ownlab.lab.server.edits import EditSaver
from ownlab.lab.server.page_errors import PageError
from ownlab.lab.server.page_socket import PageSocket
from ownlab.lab.server.routes import RouteHandler
from ownlab.text import text

__all__ = ["EditService", "edit_handlers"]

T = TypeVar("T", bound=Struct)
_NOT_FOUND = 404
_CONFLICT = 409
_NO_SPACE = 507
_MAX_RENAMED = 200


class NotebookRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/write."""

    notebook: str


class RecoveredRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/recovered."""

    notebook: str
    cell: str


class NewVersion(Struct, frozen=True):
    """A message to all pages: a notebook has changed."""

    notebook: str
    version: int


class Renamed(Struct, frozen=True):
    """A message to all pages: a notebook or folder was renamed, perhaps by another client."""

    renamed: str
    path: str


class EditService:
    """The edits of one server's notebooks."""

    def __init__(self, contents: OwnlabContents, drive: Drive, log: Logger | LoggerAdapter[Any]) -> None:
        self._contents, self._drive = contents, drive
        self.saver = EditSaver(contents, log)
        self._loop: asyncio.AbstractEventLoop | None = None
        # The paths by which pages know a notebook, by its file without links.
        self._names: dict[str, set[str]] = {}
        self._pages: set[ChangesHandler] = set()
        # Old path -> new path, of the last ones: a page may have been offline.
        self._renamed: dict[str, str] = {}

    def start(self) -> None:
        """Called once the server listens."""
        self._loop = asyncio.get_running_loop()
        self._contents.on_new_version = self._on_new_version
        self._contents.on_renamed = self._on_renamed
        self.saver.listeners.append(self._announce)
        self.saver.has_pages = lambda: bool(self._pages)
        self.saver.start()

    async def close(self) -> None:
        """Called when the server stops: writes everything that is unsaved."""
        await self.saver.close()

    def resolve(self, notebook: str) -> tuple[OwnlabContents, str, str]:
        """Return the contents manager of a notebook, its path there and its file. HTTPError if there is no such notebook."""
        contents = self._drive.contents() if is_drive_path(notebook) else self._contents
        path = notebook.strip("/")
        os_path: str = contents._get_os_path(path)
        if not path.endswith(".ipynb") or (is_hidden(os_path, contents.root_dir) and not contents.allow_hidden):
            raise PageError(_NOT_FOUND, text("{notebook} is not a notebook.", notebook=notebook))
        self._names.setdefault(os.path.realpath(os_path), set()).add(notebook)
        return contents, path, os_path

    async def apply(self, patch: Patch) -> Changes:
        """Apply a patch, and tell other pages."""
        contents, _, os_path = self.resolve(patch.notebook)
        self._check_writable(os_path, patch.notebook)
        before = contents.edits.find(os_path)
        version = before.state.version if before is not None else 0
        changes = await contents.apply_patch(os_path, patch)
        if changes.version != version:
            self.saver.on_edit(os_path, changes.version)
        return changes

    def _check_writable(self, os_path: str, notebook: str) -> None:
        if os.path.isfile(os_path):
            if not os.access(os_path, os.W_OK):
                raise LabError(
                    text("{notebook} is read-only, so it cannot be saved.", notebook=os.path.basename(notebook)),
                    hint=text("Save a copy, or change its permissions."),
                )
        elif self._contents.edits.find(os_path) is None:
            raise PageError(_NOT_FOUND, text("{notebook} was moved or deleted.", notebook=os.path.basename(notebook)))

    def _on_new_version(self, os_path: str, version: int) -> None:
        """Called in any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.saver.on_edit, os_path, version)

    def _announce(self, os_path: str, version: int) -> None:
        for name in self._names.get(os.path.realpath(os_path), ()):
            for page in list(self._pages):
                page.send(NewVersion(name, version))

    def _on_renamed(self, old: str, new: str) -> None:
        """Called when a client has renamed a notebook or folder."""
        self._renamed.pop(old, None)
        self._renamed[old] = new
        if len(self._renamed) > _MAX_RENAMED:
            del self._renamed[next(iter(self._renamed))]
        for page in list(self._pages):
            page.send(Renamed(old, new))

    def add_page(self, page: ChangesHandler) -> None:
        """A page listens from now on."""
        self._pages.add(page)
        for old, new in self._renamed.items():
            if not self._exists(old):
                page.send(Renamed(old, new))

    def _exists(self, path: str) -> bool:
        try:
            contents = self._drive.contents() if is_drive_path(path) else self._contents
            return os.path.exists(contents._get_os_path(path))
        except (web.HTTPError, LabError):
            return False

    def remove_page(self, page: ChangesHandler) -> None:
        """A page has closed its websocket."""
        self._pages.discard(page)


class EditHandler(RouteHandler):
    """Base of the routes for edits."""

    auth_resource = "contents"

    @property
    def edits(self) -> EditService:
        """The edits of this server."""
        service: EditService = self.settings["ownlab_edits"]
        return service

    def parse(self, kind: type[T]) -> T:
        """Parse the body of the request."""
        try:
            return parse_page_json(self.request.body, kind)
        except (ValueError, RecursionError) as exc:  # msgspec's errors are ValueErrors
            raise PageError(400, text("The request body is invalid: {reason}.", reason=str(exc))) from exc

    async def answer_changes(self, work: Any) -> None:
        """Send changes, or the error."""
        try:
            changes: Changes = await work
        except OSError as exc:
            if exc.errno in (errno.ENOSPC, errno.EDQUOT):
                self.set_status(_NO_SPACE)
                self.finish(self.encode(LabError(text("The edits cannot be saved: the disk is full."))))
                return
            self.set_status(500)
            reason = exc.strerror or str(exc)
            self.finish(self.encode(LabError(text("The edits cannot be saved: {reason}.", reason=reason))))
        except OwnlabError as exc:
            self.set_status(_CONFLICT)
            self.finish(self.encode(exc))
        else:
            self.finish(encode_json(changes))


class EditsHandler(EditHandler):
    """/ownlab/api/notebooks/edits."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return what changed in a notebook after a version."""
        version = self.get_query_argument("version", "0")
        contents, _, os_path = self.edits.resolve(self.get_query_argument("notebook"))
        if not os.path.isfile(os_path) and contents.edits.find(os_path) is None:
            raise PageError(_NOT_FOUND, text("There is no such notebook."))
        if not version.isdecimal():
            raise PageError(400, text("{version} is not a version.", version=version[:100]))
        await self.answer_changes(contents.changes_since(os_path, int(version)))

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Apply a patch."""
        await self.answer_changes(self.edits.apply(self.parse(Patch)))


class WriteHandler(EditHandler):
    """POST /ownlab/api/notebooks/write."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Write a notebook's file now, and return its model without its content."""
        contents, path, os_path = self.edits.resolve(self.parse(NotebookRequest).notebook)
        if not await contents.update_file(os_path):
            raise PageError(_CONFLICT, text("{path} cannot be written now.", path=path))
        model = await ensure_async(contents.get(path, content=False, type="notebook"))
        self.finish(encode_json(model))


class RecoveredHandler(EditHandler):
    """POST /ownlab/api/notebooks/recovered."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Forget that a cell was recovered."""
        request = self.parse(RecoveredRequest)
        contents, _, os_path = self.edits.resolve(request.notebook)
        await self.answer_changes(contents.dismiss_recovered(os_path, request.cell))


class ChangesHandler(PageSocket):
    """GET /ownlab/api/notebooks/changes: a websocket that notifies a page of new versions of notebooks."""

    auth_resource = "contents"

    @property
    def edits(self) -> EditService:
        """The edits of this server."""
        service: EditService = self.settings["ownlab_edits"]
        return service

    def open(self, *args: str, **kwargs: str) -> None:
        """Called by tornado when the websocket is open."""
        super().open(*args, **kwargs)
        self.edits.add_page(self)

    def on_message(self, message: str | bytes) -> None:
        """Called by tornado. Pages send nothing here."""

    def on_close(self) -> None:
        """Called by tornado."""
        self.edits.remove_page(self)

    def send(self, message: NewVersion | Renamed) -> None:
        """Send a message; a page that has gone is removed by `on_close`."""
        try:
            sent = self.write_message(encode_json(message).decode())
        except WebSocketClosedError:
            self.edits.remove_page(self)
        else:
            sent.add_done_callback(lambda future: future.cancelled() or future.exception())


def parse_page_json(body: bytes, kind: type[T]) -> T:
    """Return what a page has sent. Halves of surrogate pairs, for which JavaScript sends escape sequences, are replaced."""
    try:
        return msgspec.json.decode(body, type=kind)
    except UnicodeDecodeError:
        raise
    except (msgspec.DecodeError, RecursionError):
        return msgspec.convert(replace_lone_surrogates(json.loads(body)), kind)


def edit_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    return [
        (r"/ownlab/api/notebooks/edits", EditsHandler),
        (r"/ownlab/api/notebooks/write", WriteHandler),
        (r"/ownlab/api/notebooks/recovered", RecoveredHandler),
        (r"/ownlab/api/notebooks/changes", ChangesHandler),
    ]
