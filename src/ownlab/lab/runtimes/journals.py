"""The journals of runtimes as a server reads them: replayed into JournalStates, which are cached and kept current."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import LabError, OwnlabError
from ownlab.lab.journal.death import Death
from ownlab.lab.journal.reader import Tail
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import (
    journal_folder,
    journals_of_notebook,
    read_journal_info,
    read_saved_position,
    write_saved_position,
)
from ownlab.lab.runtimes.state import may_continue
from ownlab.text import text

__all__ = ["Journal", "Journals"]

T = TypeVar("T")

# Seconds for which an unused journal stays in memory.
CACHE_SECONDS = 60.0


class NoJournalError(LabError):
    """There is no such runtime, or it is a kernel that ownlab does not run: pages then save its outputs themselves."""

    http_status = 404


class Journal:
    """The journal of one runtime. All methods block and may be called from any thread."""

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime
        self.folder: Path = journal_folder(runtime)
        self.alive = True  # at the last check
        self.used_at = time.monotonic()
        self._cell_bytes = _cell_bytes()
        self._lock = threading.Lock()
        self._reset()

    @contextmanager
    def current(self) -> Iterator[JournalState]:
        """Yield its current state. Nobody else changes it inside the block."""
        with self._lock:
            self.used_at = time.monotonic()
            self._update()
            yield self._state

    @property
    def saved_position(self) -> int:
        """The number of the last record that the notebook's file holds."""
        return read_saved_position(self.folder)

    def mark_saved(self, position: int) -> None:
        """Record that the notebook's file holds everything up to this number."""
        if self.folder.exists():  # it may have been removed by the user
            with suppress(OSError):  # a full disk: a position that is too low does no harm
                write_saved_position(self.folder, position)

    def _reset(self) -> None:
        self._state, self._tail = JournalState(self._cell_bytes), Tail(self.folder)
        self._is_complete = False  # its end was seen, and checked

    def _update(self) -> None:
        # Checked before reading: if the runtime was dead by then, its journal is complete.
        self.alive = may_continue(self.runtime)
        if self._is_complete and self.alive:  # the supervisor was killed and restarted
            self._reset()
        records = self._tail.read(final=not self.alive)
        if self._tail.reset:  # it was compacted meanwhile and is read from its beginning
            self._state, self._is_complete = JournalState(self._cell_bytes), False
        for record in records:
            self._state.add(record)
        if not self.alive and not self._is_complete:
            self._check_end()
            self._is_complete = True

    def _check_end(self) -> None:
        info, state = read_journal_info(self.folder), self._state
        missing = max(0, info.last - state.position) if info else 0
        if missing or (self._tail.unread_bytes and state.ended is None):
            state.gaps.add_at_end(missing or 1, self._tail.unread_bytes)
        if state.ended is None:
            booted_at = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
            state.cut(Death("machine" if state.last_at < booted_at else "runtime"))


class Journals:
    """A server's cache of journals."""

    def __init__(self) -> None:
        self._known: dict[str, Journal] = {}
        self._lock = threading.Lock()
        self._cleanup_timer: asyncio.TimerHandle | None = None

    async def state(self, runtime: str) -> JournalState:
        """Return the current state of a journal. It may change with the next request: use `query` if that matters."""
        return await self.query(runtime, lambda state: state)

    async def query(self, runtime: str, question: Callable[[JournalState], T]) -> T:
        """Compute something from the state of a journal in a thread. LabError if the runtime has no journal."""

        def answer() -> T:
            with self.journal(runtime).current() as state:
                return question(state)

        return await self.run_in_thread(answer)

    async def run_in_thread(self, do: Callable[[], T]) -> T:
        """Run a function that reads journals in a thread. Unused journals are dropped afterwards."""
        try:
            return await asyncio.to_thread(do)
        finally:
            if self._cleanup_timer is None:
                self._cleanup_timer = asyncio.get_running_loop().call_later(CACHE_SECONDS, self._drop_unused)

    # -- blocking methods

    def journal(self, runtime: str) -> Journal:
        """The journal of a runtime. LabError if there is none."""
        if not journal_folder(runtime).is_dir():
            raise NoJournalError(text("Runtime {id} has no journal.", id=runtime))
        with self._lock:
            if runtime not in self._known:
                self._known[runtime] = Journal(runtime)
            return self._known[runtime]

    def of_notebook(self, path: str) -> list[Journal]:
        """The journals of a notebook's runtimes, oldest first."""
        journals = []
        for info in journals_of_notebook(path):
            with suppress(LabError):  # it was removed at this moment
                journals.append(self.journal(info.runtime))
        return journals

    def _drop_unused(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._known = {
                name: journal for name, journal in self._known.items() if now - journal.used_at < CACHE_SECONDS
            }
            again = bool(self._known)
        self._cleanup_timer = asyncio.get_running_loop().call_later(CACHE_SECONDS, self._drop_unused) if again else None

    def close(self) -> None:
        """Cancel the clean-up timer. Called when the server stops."""
        if self._cleanup_timer is not None:
            self._cleanup_timer.cancel()


def _cell_bytes() -> int:
    try:
        return resolve_lab_options().cell_mb << 20
    except OwnlabError:  # a notebook must open even if the configuration is invalid
        return LabOptions().cell_mb << 20
