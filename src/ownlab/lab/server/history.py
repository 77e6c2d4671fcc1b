"""The routes of the page's history panel."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from msgspec import Struct
from tornado import web

from ownlab.errors import InputError, OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.notebooks.history.deleted import deleted_notebooks, find_deleted
from ownlab.lab.notebooks.history.recorder import version_store
from ownlab.lab.notebooks.history.records import (
    DeletedNotebooks,
    NotebookHistory,
    Version,
    VersionContent,
)
from ownlab.lab.notebooks.history.version_store import VersionStore
from ownlab.lab.notebooks.identity import find_identity, make_identity
from ownlab.lab.server.edit_handlers import EditHandler
from ownlab.lab.server.page_errors import PageError
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.lab.server.contents import OwnlabContents

__all__ = ["history_handlers"]


class VersionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/history/restore."""

    notebook: str
    version: str


class NameRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/history/name. Without a version the notebook gets a new one as it is now."""

    notebook: str
    name: str | None
    version: str | None = None


class PurgeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/history/purge. Without a version all are removed."""

    notebook: str
    version: str | None = None


class DeletedRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of POST …/deleted."""

    id: str


class HistoryBase(EditHandler):
    """Base of the routes of the history."""

    def store(self, notebook: str) -> tuple[OwnlabContents, str, VersionStore]:
        """Return the contents manager, the file and the history of a notebook."""
        contents, _, os_path = self.edits.resolve(notebook)
        identity = find_identity(os_path)
        if identity is None and not os.path.isfile(os_path):
            raise PageError(404, text("There is no notebook {notebook}.", notebook=notebook))
        return contents, os_path, version_store(identity.id if identity else make_identity(os_path).id)

    async def answer_record(self, work: Awaitable[Any]) -> None:
        """Send a record, or the error."""
        try:
            record = await work
        except OwnlabError as exc:
            self.set_status(404 if isinstance(exc, InputError) else 409)
            self.finish(self.encode(exc))
        except OSError as exc:
            self.set_status(500)
            reason = exc.strerror or str(exc)
            self.finish(self.encode(OwnlabError(text("The history cannot be changed: {reason}.", reason=reason))))
        else:
            self.finish(encode_json(record, translate=self.translate))

    async def listing(self, notebook: str) -> NotebookHistory:
        """Return all versions of a notebook."""
        _, _, store = await asyncio.to_thread(self.store, notebook)
        versions = await asyncio.to_thread(store.versions)
        return NotebookHistory(notebook, tuple(reversed(versions)), await asyncio.to_thread(store.size))


class HistoryHandler(HistoryBase):
    """GET /ownlab/api/notebooks/history."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the versions of a notebook, or one of them with its content."""
        notebook, version = self.get_query_argument("notebook"), self.get_query_argument("version", "")
        await self.answer_record(self._version(notebook, version) if version else self.listing(notebook))

    async def _version(self, notebook: str, name: str) -> VersionContent:
        _, _, store = await asyncio.to_thread(self.store, notebook)
        version = await asyncio.to_thread(store.find, name)
        return VersionContent(version, await asyncio.to_thread(store.load, version))


class RestoreHandler(HistoryBase):
    """POST /ownlab/api/notebooks/history/restore."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Put a version in place of the notebook. The present one stays in the history."""
        request = self.parse(VersionRequest)
        await self.answer_record(self._restore(request))

    async def _restore(self, request: VersionRequest) -> NotebookHistory:
        contents, os_path, store = await asyncio.to_thread(self.store, request.notebook)
        version = await asyncio.to_thread(store.find, request.version)
        content = await asyncio.to_thread(store.load, version)
        await contents.restore_version(os_path, content)
        return await self.listing(request.notebook)


class NameHandler(HistoryBase):
    """POST /ownlab/api/notebooks/history/name."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Name a version, or the notebook as it is now."""
        await self.answer_record(self._name(self.parse(NameRequest)))

    async def _name(self, request: NameRequest) -> Version | None:
        contents, os_path, store = await asyncio.to_thread(self.store, request.notebook)
        name = (request.name or "").strip()[:200] or None
        if request.version is not None:
            version = await asyncio.to_thread(store.find, request.version)
            return await asyncio.to_thread(store.rename, version, name)
        notebook = await contents.current_notebook(os_path)
        return await asyncio.to_thread(lambda: store.record(notebook, "named", name=name))


class PurgeHandler(HistoryBase):
    """POST /ownlab/api/notebooks/history/purge."""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Remove a version, or all versions."""
        await self.answer_record(self._purge(self.parse(PurgeRequest)))

    async def _purge(self, request: PurgeRequest) -> NotebookHistory:
        _, _, store = await asyncio.to_thread(self.store, request.notebook)
        version = await asyncio.to_thread(store.find, request.version) if request.version is not None else None
        await asyncio.to_thread(store.purge, version)
        return await self.listing(request.notebook)


class DeletedHandler(HistoryBase):
    """/ownlab/api/notebooks/deleted."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Return the notebooks of this lab that were deleted and can be restored."""
        await self.answer_record(asyncio.to_thread(self._deleted))

    def _deleted(self) -> DeletedNotebooks:
        root = os.path.join(os.path.realpath(self.contents_manager.root_dir), "")
        gone = deleted_notebooks(root)
        return DeletedNotebooks(
            tuple(msgspec.structs.replace(each, path=each.path.removeprefix(root)) for each in gone)
        )

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Restore a deleted notebook, and return its model without its content."""
        await self.answer_record(self._restore(self.parse(DeletedRequest).id))

    async def _restore(self, name: str) -> Any:
        contents = self.edits.resolve("any.ipynb")[0]
        root = os.path.join(os.path.realpath(contents.root_dir), "")
        deleted = await asyncio.to_thread(find_deleted, name)
        if deleted is None or not deleted.path.startswith(root):
            raise InputError(text("There is no such deleted notebook in this lab."))
        os_path = await contents.restore_deleted(deleted)
        path = os_path.removeprefix(root).replace(os.sep, "/")
        return await ensure_async(contents.get(path, content=False, type="notebook"))


def history_handlers() -> list[tuple[str, type[web.RequestHandler]]]:
    """Return pairs of route (below the server's base URL) and handler."""
    return [
        (r"/ownlab/api/notebooks/history", HistoryHandler),
        (r"/ownlab/api/notebooks/history/restore", RestoreHandler),
        (r"/ownlab/api/notebooks/history/name", NameHandler),
        (r"/ownlab/api/notebooks/history/purge", PurgeHandler),
        (r"/ownlab/api/notebooks/deleted", DeletedHandler),
    ]
