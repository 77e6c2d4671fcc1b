"""Notebooks as pages open and save them: with everything that their runtimes said, whoever was there to hear it."""

# mypy: disable-error-code="no-untyped-call,misc,override"
# (jupyter_server says that it is typed; most of its methods are not.)

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
from ownlab.lab.server.recent_writes import Version, Written, stamp
from ownlab.lab.server.sessions import OwnlabSessionManager

__all__ = ["Exchange", "OwnlabContents", "exchange"]


class Exchange:
    """What a request's headers say beside its body: for this, Jupyter's methods have no arguments."""

    def __init__(self, seen: SeenPosition | None = None) -> None:
        self.seen = seen  # told by the page that saves
        self.position: tuple[str, int] | None = None  # told to the page that opens


exchange: ContextVar[Exchange] = ContextVar("exchange")


class _Read(NamedTuple):
    """A notebook's file, and what journals add to it."""

    data: bytes
    stamp: tuple[int, int] | None
    notebook: NotebookNode
    signature: str
    invalid: ValidationError | None
    merged: Merged


class OwnlabContents(AsyncLargeFileManager):
    """Jupyter's own; notebooks are brought up to date when they are opened, and when they are saved."""

    written_file = Unicode("", help="Where it is kept which files the scribe wrote.").tag(config=True)

    def __init__(self, beside: OwnlabContents | None = None, **kwargs: Any) -> None:
        """`beside`: the lab's own, where this one is another folder's, and the same file may be in both."""
        super().__init__(**kwargs)
        self.journals: Journals = beside.journals if beside else Journals()
        self.elsewhere: Callable[[str], Awaitable[bool]] | None = None  # catches up with what is not in this folder
        self._written: Written = beside._written if beside else Written(self.written_file)
        # A lock is there as long as somebody holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = beside._locks if beside else WeakValueDictionary()

    # -- opening

    async def _notebook_model(self, path: str, content: bool = True, require_hash: bool = False) -> dict[str, Any]:
        """Called by `get`."""
        os_path = self._get_os_path(path)
        if not content:
            known = self._known(os_path)
            model: dict[str, Any] = await super()._notebook_model(path, False, require_hash and known is None)
        else:
            await self._look_for_runs()
            async with self._locked(os_path):
                known = self._known(os_path)
                model = self._base_model(path)
                found = await self._read(os_path)
            await self._trust(found, os_path)
            model.update(type="notebook", format="json", content=found.notebook)
            self.validate_notebook_model(model, {"ValidationError": found.invalid})
            if (asked := exchange.get(None)) is not None:
                asked.position = self._position(found.merged)
            if require_hash and known is None:
                model.update(await asyncio.to_thread(self._get_hash, found.data))
        if known is not None:
            model["last_modified"] = datetime.fromtimestamp(known.modified, timezone.utc)
            if require_hash:
                model.update(hash=known.hash, hash_algorithm=known.algorithm)
        return model

    async def _look_for_runs(self) -> None:
        """A notebook that is run without a page is followed from what is read here."""
        sessions = getattr(self.parent, "session_manager", None)
        if isinstance(sessions, OwnlabSessionManager):
            await sessions.runs.look()

    async def _read(self, os_path: str) -> _Read:
        """One hop to a thread: reading, understanding and merging."""
        # Made where it is first asked for: its database serves the thread that made it alone.
        assert self.notary is not None
        try:
            return await self.journals.run_in_thread(partial(self._read_now, os_path))
        except HTTPError:
            raise
        except Exception:  # noqa: BLE001  # whatever is wrong with the file
            # Jupyter's own has words for it; or mends it, where a write of its own was interrupted.
            await self._read_notebook(os_path)
        return await self.journals.run_in_thread(partial(self._read_now, os_path))

    def _read_now(self, os_path: str) -> _Read:
        before = stamp(os_path)
        with self.open(os_path, "rb") as file:
            data = file.read()
        notebook = parse_with_nbformat(data)
        try:
            signature = self.notary.compute_signature(notebook)  # of the file as it is
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
        return _Read(data, before, notebook, signature, invalid, merged)

    async def _trust(self, found: _Read, os_path: str) -> None:
        """As Jupyter's own `mark_trusted_cells`; what came from journals, or is in one of them, was run here."""
        signature = (found.signature, self.notary.algorithm)
        trusted = self.notary.store.check_signature(*signature)
        self.notary.mark_cells(found.notebook, trusted)
        mark_trusted(found.notebook, found.merged.cells)
        if trusted:
            return
        here = await self.journals.run_in_thread(
            lambda: executed_here(found.notebook, self.journals.of_notebook(os_path), self.log)
        )
        mark_trusted(found.notebook, here)
        if not all(cell.metadata.trusted for cell in found.notebook.cells if cell.cell_type == "code"):
            self.log.warning("Notebook %s is not trusted", os_path)
        elif not found.merged.changed:  # journals are not kept for ever
            self.notary.store.store_signature(*signature)

    def _position(self, merged: Merged) -> tuple[str, int] | None:
        """The runtime that the page will follow, and from where: the newest that is alive, and this server's."""
        kernels = self.parent.kernel_manager if self.parent is not None else ()
        living = [(one.runtime, number) for one, number in merged.positions if one.alive and one.runtime in kernels]
        return living[-1] if living else None

    # -- saving

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Called by REST. Large files come in pieces, and are no notebooks to us then."""
        if model.get("type") != "notebook" or model.get("chunk") is not None or not _is_notebook(model.get("content")):
            saved: dict[str, Any] = await super().save(model, path)
            return saved
        os_path = self._get_os_path(path.strip("/"))
        asked = exchange.get(None)
        async with self._locked(os_path):
            merge = partial(self._merge, os_path, model["content"], asked.seen if asked else None)
            merged = await self.journals.run_in_thread(merge)
            saved = await self._save_whole(model, path)
            self._written.forget(os_path)
            await asyncio.to_thread(merged.mark_saved)
        return saved

    async def _save_whole(self, model: dict[str, Any], path: str) -> dict[str, Any]:
        """A notebook, also one that has printed half a character."""
        try:
            saved: dict[str, Any] = await super().save(model, path)
        except HTTPError as exc:
            if not isinstance(exc.__cause__, UnicodeEncodeError):
                raise
            saved = await super().save({**model, "content": replace_lone_surrogates(model["content"])}, path)
        return saved

    async def _save_notebook(self, os_path: str, nb: Any, capture_validation_error: Any = None) -> None:
        """Called by `save`. Jupyter's own writes into the file that is there: a server that is killed leaves half of it."""
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

    async def catch_up(self, notebook: str) -> bool:
        """Called by the scribe: write into a notebook's file what its runtimes said. True: the file holds it all now.

        A file that is gone, is none of this lab's, or cannot be understood, stays as it is.
        """
        path = self._api_path(notebook)
        if path is None:
            return self.elsewhere is not None and await self.elsewhere(notebook)
        os_path = self._get_os_path(path)
        async with self._locked(os_path):
            if not os.path.isfile(os_path):
                return False
            found = await self._read(os_path)
            if found.merged.changed:
                if stamp(os_path) != found.stamp:  # somebody else is writing it
                    return False
                before = await asyncio.to_thread(self._version, os_path, found.data)
                await self._trust(found, os_path)
                with self._written.writing(os_path, before):
                    await self._save_whole({"type": "notebook", "format": "json", "content": found.notebook}, path)
            await asyncio.to_thread(found.merged.mark_saved)
        return True

    async def get_kernel_path(self, path: str, model: dict[str, Any] | None = None) -> str:
        """Called for the folder of a notebook that gets a kernel; of one in the drive the kernel manager finds it."""
        return path if is_drive_path(path) else str(await super().get_kernel_path(path, model))

    # -- files that move

    async def rename(self, old_path: str, new_path: str) -> None:
        """Called by REST, for notebooks and for folders."""
        old, new = self._get_os_path(old_path.strip("/")), self._get_os_path(new_path.strip("/"))
        async with self._locked(*self._below(old), new):
            await super().rename(old_path, new_path)
            # At once: what is opened under its new name finds its journal.
            await asyncio.to_thread(storage.rename_notebook, old, new)
            self._written.rename(old, new)

    async def delete(self, path: str) -> None:
        """Called by REST, for notebooks and for folders."""
        os_path = self._get_os_path(path.strip("/"))
        async with self._locked(*self._below(os_path)):
            await super().delete(path)
            # Another notebook of that name has no past.
            await asyncio.to_thread(storage.forget_notebook, os_path)
            self._written.forget(os_path)

    async def restore_checkpoint(self, checkpoint_id: str, path: str) -> None:
        """Called by REST: a person wants the notebook as it was, and nothing that came since."""
        os_path = self._get_os_path(path.strip("/"))
        async with self._locked(os_path):
            await super().restore_checkpoint(checkpoint_id, path)
            self._written.forget(os_path)
            await self.journals.run_in_thread(partial(self._hold_all, os_path))

    def _hold_all(self, os_path: str) -> None:
        for journal in self.journals.of_notebook(os_path):
            with journal.current() as fold:
                journal.mark_saved(fold.position)

    # -- one at a time

    @asynccontextmanager
    async def _locked(self, *os_paths: str) -> AsyncIterator[None]:
        """Nobody else opens, writes, moves or removes these files."""
        async with AsyncExitStack() as held:
            for name in sorted(
                {os.path.realpath(path) for path in os_paths}
            ):  # in order: two cannot wait for each other
                lock = self._locks.get(name)
                if lock is None:
                    lock = self._locks[name] = asyncio.Lock()
                await held.enter_async_context(lock)
            yield

    def _below(self, os_path: str) -> Iterable[str]:
        """A file; or a folder, and those of its files that somebody is at."""
        real = os.path.realpath(os_path)
        return [real, *(name for name in list(self._locks) if name.startswith(real + os.sep))]

    # -- what pages know

    def _known(self, os_path: str) -> Version | None:
        known = self._written.known(os_path)
        return known if known is not None and known.algorithm == self.hash_algorithm else None

    def _version(self, os_path: str, data: bytes) -> Version:
        known = self._known(os_path)
        if known is not None:
            return known
        return Version(os.lstat(os_path).st_mtime, self.hash_algorithm, self._get_hash(data)["hash"])

    def _api_path(self, notebook: str) -> str | None:
        """The path in addresses of a notebook's file; None where it is outside this lab's folder."""
        root = os.path.abspath(self.root_dir)
        path = os.path.relpath(os.path.abspath(notebook), root)
        if path == os.pardir or path.startswith(os.pardir + os.sep):
            return None
        return path.replace(os.sep, "/")


def _is_notebook(content: object) -> bool:
    return isinstance(content, dict) and isinstance(content.get("cells"), list)
