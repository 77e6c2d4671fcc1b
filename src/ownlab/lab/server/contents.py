"""Notebooks as pages open and save them: merged with the outputs that kernels produced while no page was open."""

# mypy: disable-error-code="no-untyped-call,misc,override"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat import NotebookNode, ValidationError
from tornado.web import HTTPError
from traitlets import Unicode

from ownlab.lab.journal import storage
from ownlab.lab.notebooks.files import replace_notebook
from ownlab.lab.notebooks.merging import Merged, SeenPosition, merge_journals
from ownlab.lab.notebooks.parsing import assign_cell_ids, parse_with_nbformat, replace_lone_surrogates
from ownlab.lab.notebooks.trust import executed_here, mark_trusted
from ownlab.lab.runtimes.drive import is_drive_path
from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.server.recent_writes import RecentWrites, Version, stamp
from ownlab.lab.server.sessions import OwnlabSessionManager

__all__ = ["OwnlabContents", "RequestPositions", "request_positions"]


class RequestPositions:
    """The positions in a request's headers. Jupyter's contents methods have no arguments for them."""

    def __init__(self, seen: SeenPosition | None = None) -> None:
        self.seen = seen  # sent by the page that saves
        self.position: tuple[str, int] | None = None  # returned to the page that opens


request_positions: ContextVar[RequestPositions] = ContextVar("request_positions")


class _LoadedNotebook(NamedTuple):
    """A notebook file, merged with its journals."""

    data: bytes
    stamp: tuple[int, int] | None
    notebook: NotebookNode
    signature: str
    invalid: ValidationError | None
    merged: Merged


class OwnlabContents(AsyncLargeFileManager):
    """Jupyter's file manager; notebooks are merged with their journals when they are opened and saved."""

    written_file = Unicode("", help="File that lists the notebooks written by autosave.").tag(config=True)

    def __init__(self, lab_contents: OwnlabContents | None = None, **kwargs: Any) -> None:
        """`lab_contents`: the manager of the lab's folder, if this one serves another folder.

        The same file may be in both.
        """
        super().__init__(**kwargs)
        self.journals: Journals = lab_contents.journals if lab_contents else Journals()
        # Updates notebooks outside this folder.
        self.update_elsewhere: Callable[[str], Awaitable[bool]] | None = None
        self._recent_writes: RecentWrites = (
            lab_contents._recent_writes if lab_contents else RecentWrites(self.written_file)
        )
        # A lock exists as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        if lab_contents is not None:
            self._locks = lab_contents._locks

    # -- opening

    async def _notebook_model(self, path: str, content: bool = True, require_hash: bool = False) -> dict[str, Any]:
        """Called by `get`."""
        os_path = self._get_os_path(path)
        if not content:
            published = self._published_version(os_path)
            model: dict[str, Any] = await super()._notebook_model(path, False, require_hash and published is None)
        else:
            await self._adopt_runs()
            async with self._locked(os_path):
                published = self._published_version(os_path)
                model = self._base_model(path)
                loaded = await self._load(os_path)
            await self._mark_trust(loaded, os_path)
            model.update(type="notebook", format="json", content=loaded.notebook)
            self.validate_notebook_model(model, {"ValidationError": loaded.invalid})
            if (positions := request_positions.get(None)) is not None:
                positions.position = self._live_position(loaded.merged)
            if require_hash and published is None:
                model.update(await asyncio.to_thread(self._get_hash, loaded.data))
        if published is not None:
            model["last_modified"] = datetime.fromtimestamp(published.modified, timezone.utc)
            if require_hash:
                model.update(hash=published.hash, hash_algorithm=published.algorithm)
        return model

    async def _adopt_runs(self) -> None:
        """Adopt notebooks that run without a page, so that a page that opens one can follow it."""
        sessions = getattr(self.parent, "session_manager", None)
        if isinstance(sessions, OwnlabSessionManager):
            await sessions.adopter.adopt_new()

    async def _load(self, os_path: str) -> _LoadedNotebook:
        """Read, parse and merge a notebook in a thread."""
        # The notary is created on first access, and its database can be used only in the thread that created it.
        assert self.notary is not None
        try:
            return await self.journals.run_in_thread(partial(self._load_sync, os_path))
        except HTTPError:
            raise
        except Exception:  # noqa: BLE001  # anything may be wrong with the file
            # Jupyter's own reader raises a proper error, or repairs the file if one of its own writes was interrupted.
            await self._read_notebook(os_path)
        return await self.journals.run_in_thread(partial(self._load_sync, os_path))

    def _load_sync(self, os_path: str) -> _LoadedNotebook:
        before = stamp(os_path)
        with self.open(os_path, "rb") as file:
            data = file.read()
        notebook = parse_with_nbformat(data)
        try:
            signature = self.notary.compute_signature(notebook)  # of the unmerged file
        except UnicodeEncodeError:
            notebook = replace_lone_surrogates(notebook)
            signature = self.notary.compute_signature(notebook)
        assign_cell_ids(notebook)
        invalid = None
        try:
            nbformat.validate(notebook)
        except ValidationError as exc:
            invalid = exc
        merged = merge_journals(notebook, self.journals.of_notebook(os_path), self.log)
        return _LoadedNotebook(data, before, notebook, signature, invalid, merged)

    async def _mark_trust(self, loaded: _LoadedNotebook, os_path: str) -> None:
        """Like Jupyter's `mark_trusted_cells`, but also trusts outputs that are in a journal: they were made here."""
        signature = (loaded.signature, self.notary.algorithm)
        trusted = self.notary.store.check_signature(*signature)
        self.notary.mark_cells(loaded.notebook, trusted)
        mark_trusted(loaded.notebook, loaded.merged.cells)
        if trusted:
            return
        here = await self.journals.run_in_thread(
            lambda: executed_here(loaded.notebook, self.journals.of_notebook(os_path), self.log)
        )
        mark_trusted(loaded.notebook, here)
        if not all(cell.metadata.trusted for cell in loaded.notebook.cells if cell.cell_type == "code"):
            self.log.warning("Notebook %s is not trusted", os_path)
        elif not loaded.merged.changed:  # store it: journals are not kept forever
            self.notary.store.store_signature(*signature)

    def _live_position(self, merged: Merged) -> tuple[str, int] | None:
        """Return the runtime that the page will follow (the newest running one of this server), and its position."""
        kernels = self.parent.kernel_manager if self.parent is not None else ()
        running = [(one.runtime, number) for one, number in merged.positions if one.alive and one.runtime in kernels]
        return running[-1] if running else None

    # -- saving

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Called by the REST API. Large files arrive in chunks and are not treated as notebooks."""
        if model.get("type") != "notebook" or model.get("chunk") is not None or not _is_notebook(model.get("content")):
            saved: dict[str, Any] = await super().save(model, path)
            return saved
        os_path = self._get_os_path(path.strip("/"))
        positions = request_positions.get(None)
        async with self._locked(os_path):
            merge = partial(self._merge, os_path, model["content"], positions.seen if positions else None)
            merged = await self.journals.run_in_thread(merge)
            saved = await self._save_model(model, path)
            self._recent_writes.forget(os_path)
            await asyncio.to_thread(merged.mark_saved)
        return saved

    async def _save_model(self, model: dict[str, Any], path: str) -> dict[str, Any]:
        """Save a notebook, even if its outputs contain lone surrogates, which UTF-8 cannot encode."""
        try:
            saved: dict[str, Any] = await super().save(model, path)
        except HTTPError as exc:
            if not isinstance(exc.__cause__, UnicodeEncodeError):
                raise
            saved = await super().save({**model, "content": replace_lone_surrogates(model["content"])}, path)
        return saved

    async def _save_notebook(self, os_path: str, nb: Any, capture_validation_error: Any = None) -> None:
        """Called by `save`.

        Jupyter's own method overwrites the file in place: a killed server would leave half of it.
        """
        write = partial(
            nbformat.write, nb, version=nbformat.NO_CONVERT, capture_validation_error=capture_validation_error
        )
        if not self.use_atomic_writing or not await asyncio.to_thread(replace_notebook, os_path, write):
            await super()._save_notebook(os_path, nb, capture_validation_error)

    def _merge(self, os_path: str, notebook: dict[str, Any], seen: SeenPosition | None) -> Merged:
        journals = self.journals.of_notebook(os_path)
        if journals:
            assign_cell_ids(notebook)
        merged = merge_journals(notebook, journals, self.log, seen)
        mark_trusted(notebook, merged.cells)
        return merged

    async def update_file(self, notebook: str) -> bool:
        """Write the outputs of its runtimes into a notebook file. Called by autosave. Return whether it is complete now.

        A file that is missing, outside this lab, or unreadable is left unchanged.
        """
        path = self._api_path(notebook)
        if path is None:
            return self.update_elsewhere is not None and await self.update_elsewhere(notebook)
        os_path = self._get_os_path(path)
        async with self._locked(os_path):
            if not os.path.isfile(os_path):
                return False
            loaded = await self._load(os_path)
            if loaded.merged.changed:
                if stamp(os_path) != loaded.stamp:  # another program is writing it
                    return False
                before = await asyncio.to_thread(self._version, os_path, loaded.data)
                await self._mark_trust(loaded, os_path)
                with self._recent_writes.record_write(os_path, before):
                    await self._save_model({"type": "notebook", "format": "json", "content": loaded.notebook}, path)
            await asyncio.to_thread(loaded.merged.mark_saved)
        return True

    async def get_kernel_path(self, path: str, model: dict[str, Any] | None = None) -> str:
        """Called for the folder of a notebook that gets a kernel. The kernel manager resolves paths in the drive."""
        return path if is_drive_path(path) else str(await super().get_kernel_path(path, model))

    # -- renaming, deleting, restoring

    async def rename(self, old_path: str, new_path: str) -> None:
        """Called by the REST API, for notebooks and folders."""
        old, new = self._get_os_path(old_path.strip("/")), self._get_os_path(new_path.strip("/"))
        async with self._locked(*self._locked_paths(old), new):
            await super().rename(old_path, new_path)
            # Immediately, so that a notebook opened under its new name finds its journal.
            await asyncio.to_thread(storage.rename_notebook, old, new)
            self._recent_writes.rename(old, new)

    async def delete(self, path: str) -> None:
        """Called by the REST API, for notebooks and folders."""
        os_path = self._get_os_path(path.strip("/"))
        async with self._locked(*self._locked_paths(os_path)):
            await super().delete(path)
            # A new notebook of the same name must not inherit the journal.
            await asyncio.to_thread(storage.forget_notebook, os_path)
            self._recent_writes.forget(os_path)

    async def restore_checkpoint(self, checkpoint_id: str, path: str) -> None:
        """Called by the REST API. The user wants the notebook as it was then, without any later outputs."""
        os_path = self._get_os_path(path.strip("/"))
        async with self._locked(os_path):
            await super().restore_checkpoint(checkpoint_id, path)
            self._recent_writes.forget(os_path)
            await self.journals.run_in_thread(partial(self._mark_all_saved, os_path))

    def _mark_all_saved(self, os_path: str) -> None:
        for journal in self.journals.of_notebook(os_path):
            with journal.current() as state:
                journal.mark_saved(state.position)

    # -- locking

    @asynccontextmanager
    async def _locked(self, *os_paths: str) -> AsyncIterator[None]:
        """Lock files against other requests that open, write, rename or delete them."""
        async with AsyncExitStack() as stack:
            # Always in the same order, to avoid a deadlock.
            for name in sorted({os.path.realpath(path) for path in os_paths}):
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await stack.enter_async_context(lock)
            yield

    def _locked_paths(self, os_path: str) -> Iterable[str]:
        """Return a path and, if it is a folder, those of its files that are currently locked."""
        real = os.path.realpath(os_path)
        return [real, *(name for name in list(self._locks) if name.startswith(real + os.sep))]

    # -- versions as pages know them

    def _published_version(self, os_path: str) -> Version | None:
        version = self._recent_writes.published_version(os_path)
        return version if version is not None and version.algorithm == self.hash_algorithm else None

    def _version(self, os_path: str, data: bytes) -> Version:
        published = self._published_version(os_path)
        if published is not None:
            return published
        return Version(os.lstat(os_path).st_mtime, self.hash_algorithm, self._get_hash(data)["hash"])

    def _api_path(self, notebook: str) -> str | None:
        """Return the API path of a notebook file; None if it is outside this folder."""
        root = os.path.abspath(self.root_dir)
        path = os.path.relpath(os.path.abspath(notebook), root)
        if path == os.pardir or path.startswith(os.pardir + os.sep):
            return None
        return path.replace(os.sep, "/")


def _is_notebook(content: object) -> bool:
    return isinstance(content, dict) and isinstance(content.get("cells"), list)
