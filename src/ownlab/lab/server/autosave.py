"""Autosave of outputs: writes what kernels sent into notebook files, also while no page is open.

It also removes journals and /content folders that are no longer needed.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from logging import Logger, LoggerAdapter
from pathlib import Path
from typing import Any

from tornado.web import HTTPError

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import OwnlabError
from ownlab.lab.journal.storage import (
    JournalInfo,
    all_journals,
    journal_folder,
    read_journal_info,
    read_saved_position,
    remove_journal,
)
from ownlab.lab.notebooks.history.deleted import remove_expired
from ownlab.lab.runtimes.content_files import remove_old_content
from ownlab.lab.runtimes.state import may_continue
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.kernels import OwnlabKernelManager

__all__ = ["Autosave"]

QUIET_SECONDS = 1.0  # of idleness before a file is written: another cell may follow
BUSY_INTERVAL = 120.0  # seconds between writes while a cell runs
FIRST_DELAY = 3.0  # seconds after the server started: until then the first page has the machine to itself
CLEANUP_INTERVAL = 6 * 3600.0
_DAY = 86400.0


class Autosave:
    """The autosave of one server.

    It watches a runtime from its first message until its notebook file contains everything.
    """

    def __init__(
        self,
        contents: OwnlabContents,
        kernels: OwnlabKernelManager,
        lab: str,
        log: Logger | LoggerAdapter[Any],
    ) -> None:
        self._contents, self._kernels, self._lab, self._log = contents, kernels, lab, log
        self._unsaved: dict[str, float] = {}  # runtime -> time of its last change
        self._written_at: dict[str, float] = {}  # when a busy runtime's notebook was last written
        self._has_unsaved = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Called once the server listens. Also saves what kernels did while no server was running."""
        self._tasks = [asyncio.create_task(self._write_all()), asyncio.create_task(self._remove_old())]

    async def close(self) -> None:
        """Called when the server stops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def on_kernel_change(self, runtime: str, busy: bool = True) -> None:
        """Called when a kernel becomes busy or idle, or ends."""
        self._unsaved[runtime] = time.monotonic()
        self._has_unsaved.set()

    # -- writing

    async def _write_all(self) -> None:
        await asyncio.sleep(FIRST_DELAY)
        try:
            for runtime in await asyncio.to_thread(_unsaved_runtimes, self._lab):
                self._unsaved.setdefault(runtime, 0.0)
        except (OwnlabError, OSError) as exc:
            self._log.warning("Cannot save the outputs from the time without a server: %s", exc)
        while True:
            if not self._unsaved:
                self._has_unsaved.clear()
                await self._has_unsaved.wait()
            await asyncio.sleep(QUIET_SECONDS)
            for runtime, changed_at in list(self._unsaved.items()):
                now = time.monotonic()
                # A client such as VS Code saves its notebook itself, and would find that the file has changed.
                if now - changed_at < QUIET_SECONDS or self._kernels.has_other_clients(runtime):
                    continue
                if await self._is_idle(runtime):
                    if self._unsaved.get(runtime) == changed_at:
                        del self._unsaved[runtime]
                        self._written_at.pop(runtime, None)
                    await self._write(runtime)
                elif now - self._written_at.setdefault(runtime, now) >= BUSY_INTERVAL:
                    await self._write(runtime)
                    self._written_at[runtime] = time.monotonic()

    async def _is_idle(self, runtime: str) -> bool:
        """Return whether a runtime is idle, or has ended."""
        if runtime in self._kernels:
            return self._kernels.activity.busy(runtime) is False
        return not await asyncio.to_thread(may_continue, runtime)

    async def _write(self, runtime: str) -> None:
        journal = await asyncio.to_thread(_journal_info, runtime)
        if journal is None or not journal.notebook.endswith(".ipynb"):
            return
        try:
            await self._contents.update_file(journal.notebook)
        except (HTTPError, OwnlabError, OSError) as exc:
            # The journal is kept, and its outputs are shown whenever the notebook is opened.
            self._log.warning("Cannot save the outputs of %s: %s", journal.notebook, exc)
        except Exception:  # noqa: BLE001  # go on with the other notebooks
            self._log.exception("Cannot save the outputs of %s.", journal.notebook)

    # -- removing what is no longer needed

    async def _remove_old(self) -> None:
        await asyncio.sleep(2 * FIRST_DELAY)
        while True:
            try:
                for journal in await asyncio.to_thread(_old_journals):
                    if await self._is_saved(journal):
                        self._log.info(
                            "Removing the journal of runtime %s: its notebook file contains everything.",
                            journal.runtime,
                        )
                        await asyncio.to_thread(remove_journal, journal.runtime)
                for runtime in await asyncio.to_thread(remove_old_content, resolve_lab_options().content_keep_days):
                    self._log.info("Removed /content of runtime %s, which ended long ago.", runtime)
                for notebook in await asyncio.to_thread(remove_expired):
                    self._log.info("Removed the history of %s, which was deleted long ago.", notebook)
            except (OwnlabError, OSError) as exc:
                self._log.warning("Cannot remove old journals: %s", exc)
            await asyncio.sleep(CLEANUP_INTERVAL)

    async def _is_saved(self, journal: JournalInfo) -> bool:
        if not journal.notebook.endswith(".ipynb"):  # of a console, or of a deleted notebook
            return True
        if not os.path.exists(journal.notebook):  # perhaps on a disk that is not mounted at the moment
            return False
        saved_position = await asyncio.to_thread(read_saved_position, journal_folder(journal.runtime))
        return await self._contents.journals.query(journal.runtime, lambda state: state.changed_at <= saved_position)


def _journal_info(runtime: str) -> JournalInfo | None:
    return read_journal_info(journal_folder(runtime))


def _old_journals() -> list[JournalInfo]:
    """Return the journals of runtimes that ended more than `keep_days` ago."""
    before = time.time() - resolve_lab_options().keep_days * _DAY
    return [
        journal
        for journal in all_journals()
        if _changed_at(journal_folder(journal.runtime)) < before and not may_continue(journal.runtime)
    ]


def _unsaved_runtimes(lab: str) -> list[str]:
    """Return the runtimes of a lab whose journals are newer than their notebooks' saved positions."""
    return [
        journal.runtime
        for journal in all_journals()
        if journal.lab == lab and _newest(journal_folder(journal.runtime), _is_log) > _saved_at(journal.runtime)
    ]


def _changed_at(folder: Path) -> float:
    return _newest(folder, lambda name: _is_log(name) or name == "about.json")


def _saved_at(runtime: str) -> float:
    return _newest(journal_folder(runtime), lambda name: name == "held.json")


def _is_log(name: str) -> bool:
    return name.endswith(".log")


def _newest(folder: Path, wanted: Callable[[str], bool]) -> float:
    """Return the modification time of the newest of these files; 0 if there is none."""
    newest = 0.0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if wanted(entry.name):
                    newest = max(newest, entry.stat().st_mtime)
    except FileNotFoundError:  # the folder was just removed
        return newest
    return newest
