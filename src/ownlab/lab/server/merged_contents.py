"""Notebooks as pages open and save them: merged with the outputs that kernels produced while no page was open."""

# mypy: disable-error-code="no-untyped-call,misc,override"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from functools import partial
from typing import Any

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from nbformat import ValidationError
from tornado.web import HTTPError
from traitlets import Unicode, default

from ownlab.lab.notebooks.damage import describe_damage
from ownlab.lab.notebooks.edits.edit_log import EditLog
from ownlab.lab.notebooks.edits.records import Changes, Patch
from ownlab.lab.notebooks.executed_code import recover_code, without_outdated_outputs
from ownlab.lab.notebooks.files import FileChangedError, replace_notebook
from ownlab.lab.notebooks.history.recorder import HistoryRecorder
from ownlab.lab.notebooks.identity import (
    note_file,
)
from ownlab.lab.notebooks.merging import Merged, SeenPosition, merge_journals
from ownlab.lab.notebooks.parsing import assign_cell_ids, parse_with_nbformat, replace_lone_surrogates
from ownlab.lab.notebooks.trust import executed_here, mark_trusted
from ownlab.lab.runtimes.drive import is_drive_path
from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.server.edits import EditLogs
from ownlab.lab.server.full_disk import reported_full_disk
from ownlab.lab.server.loaded_notebook import FileContent, LoadedNotebook, request_positions
from ownlab.lab.server.page_errors import PageError
from ownlab.lab.server.path_locks import PathLocks, run_to_end
from ownlab.lab.server.recent_writes import GuardedWrite, RecentWrites, Version, stamp
from ownlab.lab.server.sessions import OwnlabSessionManager

__all__ = ["UNREADABLE", "MergedContents"]

# The status of the answer about a notebook file that is damaged, with what is wrong with it.
UNREADABLE = 422
# Another program may change a file while it is being written; more often than that in a row it hardly does.
_TRIES = 3


class MergedContents(AsyncLargeFileManager):
    """Jupyter's file manager; notebooks are merged with edits and journals when they are opened and saved."""

    written_file = Unicode("", help="File that lists the notebooks written by autosave.").tag(config=True)
    lab = Unicode("", help="Id of the lab whose edit logs are used.").tag(config=True)

    def __init__(self, lab_contents: MergedContents | None = None, **kwargs: Any) -> None:
        """`lab_contents`: the manager of the lab's folder, if this one serves another folder.

        The same file may be in both.
        """
        super().__init__(**kwargs)
        self.journals: Journals = lab_contents.journals if lab_contents else Journals()
        self.edits: EditLogs = lab_contents.edits if lab_contents else EditLogs(self.lab)
        # Called when a notebook that was read has a new version: its file was changed, or code was recovered.
        self.on_new_version: Callable[[str, int], None] | None = None
        # Called with the old and the new path of what a client has renamed, as pages know them.
        self.on_renamed: Callable[[str, str], None] | None = None
        # Updates notebooks outside this folder.
        self.update_elsewhere: Callable[[str], Awaitable[bool]] | None = None
        self.refresh_elsewhere: Callable[[str], Awaitable[None]] | None = None
        self._recent_writes: RecentWrites = (
            lab_contents._recent_writes if lab_contents else RecentWrites(self.written_file)
        )
        self._locks: PathLocks = lab_contents._locks if lab_contents else PathLocks()
        self._history = HistoryRecorder(self.log)
        self._guarded: dict[str, GuardedWrite] = {}  # files that are being updated

    @default("files_handler_class")
    def _own_files_handler(self) -> type[Any]:
        from ownlab.lab.server.contents_handlers import CurrentFileHandler  # imports this module

        return CurrentFileHandler

    # -- opening

    async def _notebook_model(self, path: str, content: bool = True, require_hash: bool = False) -> dict[str, Any]:
        """Called by `get`."""
        os_path = self._get_os_path(path)
        if not content:
            published = self._published_version(os_path)
            model: dict[str, Any] = await super()._notebook_model(path, False, require_hash and published is None)
        else:
            await self._adopt_runs()
            async with self._locks.locked(os_path):
                published = self._published_version(os_path)
                model = self._base_model(path)
                loaded = await self._load(os_path)
            await self._mark_trust(loaded, os_path)
            model.update(type="notebook", format="json", content=loaded.notebook)
            self.validate_notebook_model(model, {"ValidationError": loaded.invalid})
            if (positions := request_positions.get(None)) is not None:
                positions.position = self._live_position(loaded.merged)
                positions.version = min(loaded.version, loaded.edits.state.version_for_new_pages)
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

    async def _load(self, os_path: str) -> LoadedNotebook:
        """Read, parse and merge a notebook in a thread."""
        # The notary is created on first access, and its database can be used only in the thread that created it.
        assert self.notary is not None
        try:
            return await self.journals.run_in_thread(partial(self._load_sync, os_path))
        except HTTPError:
            raise
        except Exception:  # noqa: BLE001  # anything may be wrong with the file
            try:
                await self._read_notebook(os_path)  # repairs the file if one of Jupyter's own writes was interrupted
            except HTTPError as exc:
                raise await asyncio.to_thread(self._unreadable, os_path, exc) from exc
        return await self.journals.run_in_thread(partial(self._load_sync, os_path))

    def _unreadable(self, os_path: str, error: HTTPError) -> HTTPError:
        """Return the error that says what is wrong with a notebook file; the given one if it cannot be read at all."""
        try:
            with self.open(os_path, "rb") as file:
                data = file.read()
        except OSError:
            return error
        return PageError(UNREADABLE, describe_damage(data, os.path.basename(os_path)))

    def _load_sync(self, os_path: str) -> LoadedNotebook:
        before = stamp(os_path)
        with self.open(os_path, "rb") as file:
            data = file.read()
        notebook = parse_with_nbformat(data) if data.strip() else self._empty_notebook(os_path, before)
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
        return self._merge_all(os_path, FileContent(data, before, notebook, signature, invalid))

    def _empty_notebook(self, os_path: str, file_stamp: tuple[int, int] | None) -> nbformat.NotebookNode:
        """Return what an empty file is opened as: a new notebook, which is written when it is first edited.

        ValueError if the notebook had cells: another program has cut the file, or is just writing it.
        """
        log = self.edits.find(os_path)
        if log is not None and log.state.order and log.state.base.stamp != file_stamp:
            raise ValueError(os_path)
        notebook: nbformat.NotebookNode = nbformat.v4.new_notebook()
        return notebook

    def _merge_all(self, os_path: str, content: FileContent) -> LoadedNotebook:
        """Merge edits and outputs into a notebook that was read from its file."""
        known = self.edits.find(os_path)
        known_version = known.state.version if known else None
        log = self.edits.open(os_path, content.notebook, content.stamp)
        known_version = log.state.version if known_version is None else known_version
        journals = self.journals.of_notebook(os_path)
        if recover_code(log, journals, lambda: self.edits.prepare(os_path, log), self.log):
            self.log.warning("%s was older than the code that ran: its cells show the code that ran.", os_path)
        state = log.state
        edited = state.apply_to(content.notebook)
        if edited:
            content.notebook.cells = [nbformat.from_dict(cell) for cell in content.notebook.cells]
            content.notebook.metadata = nbformat.from_dict(content.notebook.metadata)
        merged = merge_journals(content.notebook, journals, self.log, outputs_before=state.outputs_before())
        self._record_other_texts(os_path, log)
        if known_version != state.version and self.on_new_version is not None:
            self.on_new_version(os_path, state.version)
        return LoadedNotebook(*content, merged, log, state.version, edited)

    async def _mark_trust(self, loaded: LoadedNotebook, os_path: str) -> None:
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
        elif not loaded.merged.changed and not loaded.edited:  # store it: journals are not kept forever
            self.notary.store.store_signature(*signature)

    def _live_position(self, merged: Merged) -> tuple[str, int] | None:
        """Return the runtime that the page will follow (the newest running one of this server), and its position."""
        kernels = self.parent.kernel_manager if self.parent is not None else ()
        running = [
            (journal.runtime, number)
            for journal, number in merged.positions
            if journal.alive and journal.runtime in kernels
        ]
        return running[-1] if running else None

    # -- saving

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Called by the REST API. Large files arrive in chunks and are not treated as notebooks."""
        if model.get("type") != "notebook" or model.get("chunk") is not None or not _is_notebook(model.get("content")):
            with reported_full_disk(path):
                saved: dict[str, Any] = await super().save(model, path)
            return saved
        os_path = self._get_os_path(path.strip("/"))
        positions = request_positions.get(None)
        async with self._locks.locked(os_path):
            merge = partial(self._merge, os_path, model["content"], positions.seen if positions else None)
            merged = await self.journals.run_in_thread(merge)
            with reported_full_disk(path):
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
        check = self._guarded[os_path].check if os_path in self._guarded else None
        if not self.use_atomic_writing or not await asyncio.to_thread(replace_notebook, os_path, write, check):
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
        return await run_to_end(self._update_file(path, self._get_os_path(path)))

    async def _update_file(self, path: str, os_path: str) -> bool:
        async with self._locks.locked(os_path):
            for _ in range(_TRIES):
                if os.path.isfile(os_path):
                    loaded = await self._load(os_path)
                elif (again := await self.journals.run_in_thread(partial(self._rebuild, os_path))) is not None:
                    loaded = again
                else:
                    return False
                if not (loaded.merged.changed or loaded.edited) or await self._write_if_current(loaded, os_path, path):
                    await asyncio.to_thread(loaded.merged.mark_saved)
                    return True
        return False

    async def _write_if_current(self, loaded: LoadedNotebook, os_path: str, path: str) -> bool:
        """Write a notebook. False if another program has changed its file since it was read: that must be merged first."""
        await self._mark_trust(loaded, os_path)
        self._guarded[os_path] = GuardedWrite(os_path, loaded.stamp)
        try:
            await self._write_loaded(loaded, os_path, path)
        except HTTPError as exc:
            if isinstance(exc.__cause__, FileChangedError):
                return False
            raise
        finally:
            del self._guarded[os_path]
        return True

    def _record_other_texts(self, os_path: str, log: EditLog) -> None:
        """Record the texts of cells that were replaced: the notebook does not show them.

        An earlier server may have been killed before it did.
        """
        for reason, texts in log.state.take_replaced_texts():
            self._history.record_texts(os_path, log.state, texts, reason)

    def _rebuild(self, os_path: str) -> LoadedNotebook | None:
        """Make a notebook anew whose file another program removed while it was being edited."""
        log = self.edits.find(os_path)
        if log is None or not log.state.unsaved or not os.path.isdir(os.path.dirname(os_path)):
            return None
        notebook = nbformat.v4.new_notebook()
        log.state.apply_to(notebook)
        notebook = nbformat.from_dict(notebook)
        merged = merge_journals(notebook, self.journals.of_notebook(os_path), self.log, from_start=True)
        return LoadedNotebook(b"", None, notebook, "", None, merged, log, log.state.version, True)

    async def _write_loaded(self, loaded: LoadedNotebook, os_path: str, path: str) -> None:
        model = {"type": "notebook", "format": "json", "content": loaded.notebook}
        if loaded.edited or loaded.stamp is None:
            # Programs that know only the file must notice that its code has changed.
            await self._save_model(model, path)
            self._recent_writes.forget(os_path)
        else:
            before = await asyncio.to_thread(self._version, os_path, loaded.data)
            with self._recent_writes.record_write(os_path, before):
                await self._save_model(model, path)
        written = self._guarded[os_path].written or stamp(os_path)
        try:
            await asyncio.to_thread(self.edits.save, loaded.edits, loaded.notebook, written, loaded.version)
            await asyncio.to_thread(note_file, os_path)
        except OSError as exc:  # the disk of the state folder is full, say; the notebook's file has everything
            self.log.warning("%s was written, but what is known about it was not: %s", os_path, exc)
        if loaded.edited:
            await asyncio.to_thread(self._history.record, os_path, loaded.notebook, "edited")

    async def write_unsaved(self, path: str) -> None:
        """Write the edits of a notebook into its file, which is about to be read by something else."""
        os_path = self._get_os_path(path.strip("/"))
        log = await asyncio.to_thread(self.edits.find, os_path)
        if log is not None and log.state.unsaved:
            await self.update_file(os_path)

    async def refresh(self, notebook: str) -> None:
        """Read a notebook that another program has changed: its edits are merged with that."""
        path = self._api_path(notebook)
        if path is None:
            if self.refresh_elsewhere is not None:
                await self.refresh_elsewhere(notebook)
            return
        await run_to_end(self._refresh(self._get_os_path(path)))

    async def _refresh(self, os_path: str) -> None:
        async with self._locks.locked(os_path):
            await self._load(os_path)

    # -- editing

    async def apply_patch(self, os_path: str, patch: Patch) -> Changes:
        """Apply the edits of a page. They are on disk when this returns."""
        async with self._locks.locked(os_path):
            log = await self._edit_log(os_path)
            return await self.journals.run_in_thread(partial(self._apply_patch, os_path, log, patch))

    def _apply_patch(self, os_path: str, log: EditLog, patch: Patch) -> Changes:
        if not log.on_disk and os.path.isfile(os_path):  # the first edit: keep the notebook as it was before
            with self.open(os_path, "rb") as file:
                data = file.read()
            if data.strip():
                original = parse_with_nbformat(data)
                assign_cell_ids(original)
                self._history.record(os_path, original, "opened")
        self.edits.prepare(os_path, log)
        changes = log.apply(patch)
        self._record_other_texts(os_path, log)
        return without_outdated_outputs(changes, log.state, self.journals.of_notebook(os_path), self.log)

    async def changes_since(self, os_path: str, version: int) -> Changes:
        """Return what changed in a notebook after a version."""
        async with self._locks.locked(os_path):
            log = await self._edit_log(os_path)
            changes = log.state.changes_since(version)
            return await self.journals.run_in_thread(
                lambda: without_outdated_outputs(changes, log.state, self.journals.of_notebook(os_path), self.log)
            )

    async def dismiss_recovered(self, os_path: str, cell: str) -> Changes:
        """A person has seen that a cell was recovered."""
        async with self._locks.locked(os_path):
            log = await self._edit_log(os_path)
            await asyncio.to_thread(log.dismiss_recovered, cell)
            return log.state.changes_since(log.state.version)

    async def _edit_log(self, os_path: str) -> EditLog:
        """Return the log of a notebook, merged with its file if that has changed."""
        log = self.edits.find(os_path)
        now = stamp(os_path)
        if log is not None and (now is None or log.state.base.stamp == now):
            return log
        return (await self._load(os_path)).edits

    async def get_kernel_path(self, path: str, model: dict[str, Any] | None = None) -> str:
        """Called for the folder of a notebook that gets a kernel. The kernel manager resolves paths in the drive."""
        return path if is_drive_path(path) else str(await super().get_kernel_path(path, model))

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
