"""Writes into notebooks' files what kernels said while nobody was there to save it; and lets go of what is old."""

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
from ownlab.lab.runtimes.content_files import remove_old_content
from ownlab.lab.runtimes.state import is_runtime_alive
from ownlab.lab.server.contents import OwnlabContents
from ownlab.lab.server.kernels import OwnlabKernelManager

__all__ = ["Scribe"]

SETTLED = 1.0  # seconds of quiet before a file is written: one cell may follow the other
FIRST = 3.0  # seconds after the server listens: the first page has it for itself until then
RETIRE_EVERY = 6 * 3600.0
_DAY = 86400.0


class Scribe:
    """One for a server. It looks at a kernel from its first word on until its notebook's file holds everything."""

    def __init__(
        self,
        contents: OwnlabContents,
        kernels: OwnlabKernelManager,
        lab: str,
        log: Logger | LoggerAdapter[Any],
    ) -> None:
        self._contents, self._kernels, self._lab, self._log = contents, kernels, lab, log
        self._unwritten: dict[str, float] = {}  # runtime -> when it was heard of last
        self._something = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Called once the server listens: what was said while there was no server is written too."""
        self._tasks = [asyncio.create_task(self._write_all()), asyncio.create_task(self._retire_all())]

    async def close(self) -> None:
        """Called when the server ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def note(self, runtime: str, busy: bool = True) -> None:
        """A kernel begins or ends to work, or is gone."""
        self._unwritten[runtime] = time.monotonic()
        self._something.set()

    # -- writing

    async def _write_all(self) -> None:
        await asyncio.sleep(FIRST)
        try:
            for runtime in await asyncio.to_thread(_unfinished, self._lab):
                self._unwritten.setdefault(runtime, 0.0)
        except (OwnlabError, OSError) as exc:
            self._log.warning("What was said while the server was away is not written: %s", exc)
        while True:
            if not self._unwritten:
                self._something.clear()
                await self._something.wait()
            await asyncio.sleep(SETTLED)
            for runtime, heard_at in list(self._unwritten.items()):
                if time.monotonic() - heard_at >= SETTLED and await self._is_quiet(runtime):
                    if self._unwritten.get(runtime) == heard_at:
                        del self._unwritten[runtime]
                    await self._write(runtime)

    async def _is_quiet(self, runtime: str) -> bool:
        """Whether nothing comes from it for now, and no page is there to save it."""
        if runtime in self._kernels:
            return self._kernels.activity.busy(runtime) is False and not self._kernels.pages(runtime)
        return not await asyncio.to_thread(is_runtime_alive, runtime)

    async def _write(self, runtime: str) -> None:
        about = await asyncio.to_thread(_about, runtime)
        if about is None or not about.notebook.endswith(".ipynb"):
            return
        try:
            await self._contents.catch_up(about.notebook)
        except (HTTPError, OwnlabError, OSError) as exc:
            # The journal stays: what it says is shown at each opening.
            self._log.warning("%s cannot be brought up to date: %s", about.notebook, exc)
        except Exception:  # noqa: BLE001  # the other notebooks are written all the same
            self._log.exception("%s cannot be brought up to date.", about.notebook)

    # -- what nobody needs any more

    async def _retire_all(self) -> None:
        await asyncio.sleep(2 * FIRST)
        while True:
            try:
                for about in await asyncio.to_thread(_old):
                    if await self._is_held(about):
                        self._log.info("The journal of runtime %s is removed: its notebook holds it.", about.runtime)
                        await asyncio.to_thread(remove_journal, about.runtime)
                for runtime in await asyncio.to_thread(remove_old_content, resolve_lab_options().content_keep_days):
                    self._log.info("The /content of runtime %s is removed: it has ended long ago.", runtime)
            except (OwnlabError, OSError) as exc:
                self._log.warning("Old journals cannot be removed: %s", exc)
            await asyncio.sleep(RETIRE_EVERY)

    async def _is_held(self, about: JournalInfo) -> bool:
        if not about.notebook.endswith(".ipynb"):  # a console's, or of a notebook that was deleted
            return True
        if not os.path.exists(about.notebook):  # on a disk that is not there just now, perhaps
            return False
        held = await asyncio.to_thread(read_saved_position, journal_folder(about.runtime))
        return await self._contents.journals.query(about.runtime, lambda fold: fold.changed_at <= held)


def _about(runtime: str) -> JournalInfo | None:
    return read_journal_info(journal_folder(runtime))


def _old() -> list[JournalInfo]:
    """The journals of runtimes that ended so long ago that only what no file holds is a reason to keep them."""
    before = time.time() - resolve_lab_options().keep_days * _DAY
    return [
        about
        for about in all_journals()
        if _changed_at(journal_folder(about.runtime)) < before and not is_runtime_alive(about.runtime)
    ]


def _unfinished(lab: str) -> list[str]:
    """The runtimes of a lab whose journals were written to after their notebooks' files were."""
    return [
        about.runtime
        for about in all_journals()
        if about.lab == lab and _newest(journal_folder(about.runtime), _is_log) > _held_at(about.runtime)
    ]


def _changed_at(folder: Path) -> float:
    return _newest(folder, lambda name: _is_log(name) or name == "about.json")


def _held_at(runtime: str) -> float:
    return _newest(journal_folder(runtime), lambda name: name == "held.json")


def _is_log(name: str) -> bool:
    return name.endswith(".log")


def _newest(folder: Path, wanted: Callable[[str], bool]) -> float:
    """When the newest of these files was changed; 0 where there is none."""
    found = 0.0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if wanted(entry.name):
                    found = max(found, entry.stat().st_mtime)
    except FileNotFoundError:  # removed in this moment
        return found
    return found
