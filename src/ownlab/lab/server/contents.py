"""The notebooks of a lab: renaming, deleting and restoring them, with their journals, edits and history."""

# mypy: disable-error-code="no-untyped-call,misc,override"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import Any

import nbformat
from tornado.web import HTTPError

from ownlab.errors import LabError
from ownlab.lab.journal import storage
from ownlab.lab.notebooks.damage import set_damaged_aside
from ownlab.lab.notebooks.history.deleted import restore_deleted
from ownlab.lab.notebooks.identity import NotebookIdentity, forget_identities, rename_identities
from ownlab.lab.notebooks.parsing import assign_cell_ids, parse_with_nbformat
from ownlab.lab.server.merged_contents import UNREADABLE, MergedContents
from ownlab.text import text

__all__ = ["OwnlabContents"]

# Of the notebooks in a deleted folder.
_MAX_DELETED = 500


class OwnlabContents(MergedContents):
    """The contents manager of a lab."""

    async def rename(self, old_path: str, new_path: str) -> None:
        """Called by the REST API, for notebooks and folders."""
        old, new = self._get_os_path(old_path.strip("/")), self._get_os_path(new_path.strip("/"))
        real = os.path.realpath(old)
        async with self._locks.locked(*self._locks.inside(old), new):
            await super().rename(old_path, new_path)
            # Immediately, so that a notebook opened under its new name finds its journal.
            await asyncio.to_thread(storage.rename_notebook, old, new)
            await asyncio.to_thread(rename_identities, real, os.path.realpath(new))
            self.edits.rename(real, os.path.realpath(new))
            self._recent_writes.rename(old, new)
        if self.on_renamed is not None:
            self.on_renamed(old_path.strip("/"), new_path.strip("/"))

    async def delete(self, path: str) -> None:
        """Called by the REST API, for notebooks and folders."""
        os_path = self._get_os_path(path.strip("/"))
        real = os.path.realpath(os_path)
        async with self._locks.locked(*self._locks.inside(os_path)):
            await self._record_deleted(os_path)
            await super().delete(path)
            await asyncio.to_thread(forget_identities, real)
            self.edits.forget(real)
            # A new notebook of the same name must not inherit the journal.
            await asyncio.to_thread(storage.forget_notebook, os_path)
            self._recent_writes.forget(os_path)

    async def _record_deleted(self, os_path: str) -> None:
        """Record notebooks that are about to be deleted."""
        for notebook in await asyncio.to_thread(_notebooks_below, os_path):
            with suppress(HTTPError, OSError):  # not readable: there is nothing to keep
                loaded = await self._load(notebook)
                await asyncio.to_thread(self._history.record, notebook, loaded.notebook, "deleted")

    async def restore_deleted(self, deleted: NotebookIdentity) -> str:
        """Write the last version of a deleted notebook to its old place, or next to it. Return its file."""
        return await asyncio.to_thread(restore_deleted, deleted)

    async def current_notebook(self, os_path: str) -> dict[str, Any]:
        """Return a notebook with all edits and outputs."""
        async with self._locks.locked(os_path):
            return (await self._load(os_path)).notebook

    async def restore_version(self, os_path: str, notebook: dict[str, Any]) -> None:
        """Put a version of the history in place of a notebook. The present one is recorded first."""
        path = self._api_path(os_path)
        if path is None:
            raise LabError(text("{path} is outside this lab.", path=os_path))
        async with self._locks.locked(os_path):
            if os.path.isfile(os_path):
                await self._keep_before_restoring(os_path)
            content = nbformat.from_dict(notebook)
            self.notary.mark_cells(content, True)  # its outputs were made or trusted here
            await self._save_model({"type": "notebook", "format": "json", "content": content}, path)
            self._recent_writes.forget(os_path)
            await self.journals.run_in_thread(partial(self._mark_all_saved, os_path))
            await self._replace_edits(os_path)
            await asyncio.to_thread(self._history.record, os_path, content, "restored")

    async def _keep_before_restoring(self, os_path: str) -> None:
        """Record the present notebook; a damaged file, which no version can hold, is kept beside it."""
        try:
            loaded = await self._load(os_path)
        except HTTPError as exc:
            if exc.status_code != UNREADABLE:
                raise
            await asyncio.to_thread(set_damaged_aside, os_path)
        else:
            await asyncio.to_thread(self._history.record, os_path, loaded.notebook, "before-restore")

    async def restore_checkpoint(self, checkpoint_id: str, path: str) -> None:
        """Called by the REST API. The user wants the notebook as it was then, without any later outputs."""
        os_path = self._get_os_path(path.strip("/"))
        async with self._locks.locked(os_path):
            await super().restore_checkpoint(checkpoint_id, path)
            self._recent_writes.forget(os_path)
            await self.journals.run_in_thread(partial(self._mark_all_saved, os_path))
            await self._replace_edits(os_path)

    async def _replace_edits(self, os_path: str) -> None:
        """The file is what the user wants: forget edits that are not in it."""
        log = self.edits.find(os_path)
        if log is None:
            return

        def replace() -> None:
            with self.open(os_path, "rb") as file:
                notebook = parse_with_nbformat(file.read())
            assign_cell_ids(notebook)
            self.edits.replace(os_path, log, notebook)

        await asyncio.to_thread(replace)
        if self.on_new_version is not None:
            self.on_new_version(os_path, log.state.version)

    def _mark_all_saved(self, os_path: str) -> None:
        for journal in self.journals.of_notebook(os_path):
            with journal.current() as state:
                journal.mark_saved(state.position)


def _notebooks_below(os_path: str) -> list[str]:
    """Return a notebook, or the notebooks in a folder; not those in hidden folders, and not too many."""
    if not os.path.isdir(os_path):
        return [os_path] if os_path.endswith(".ipynb") and os.path.isfile(os_path) else []
    found: list[str] = []
    for folder, folders, files in os.walk(os_path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [os.path.join(folder, name) for name in files if name.endswith(".ipynb")]
    return found[:_MAX_DELETED]
