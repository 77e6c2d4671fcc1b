"""What runtimes said, as this server knows it: journals on disk, folded, and kept up to date while somebody asks."""

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
from ownlab.lab.journal.reader import Tail
from ownlab.lab.journal.state import Fold
from ownlab.lab.journal.storage import journal_folder, of_notebook, read_held, write_held
from ownlab.lab.runtimes.state import is_runtime_alive

__all__ = ["Journal", "Journals"]

T = TypeVar("T")

# Seconds for which a journal that nobody asks for is kept in memory.
KEPT = 60.0
_CUT = "The runtime ended here, and could not say why: it was killed, or the machine went down."


class Journal:
    """One runtime's. All of it blocks, and is for any thread."""

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime
        self.folder: Path = journal_folder(runtime)
        self.alive = True  # as it was at the last look
        self.used_at = time.monotonic()
        self._cell_bytes = _cell_bytes()
        self._lock = threading.Lock()
        self._begin()

    @contextmanager
    def current(self) -> Iterator[Fold]:
        """What it says up to now. Nobody else changes it before the block is left."""
        with self._lock:
            self.used_at = time.monotonic()
            self._catch_up()
            yield self._fold

    @property
    def held(self) -> int:
        """Up to which number the notebook's file holds it."""
        return read_held(self.folder)

    def hold(self, position: int) -> None:
        """The file holds it up to this number now."""
        if self.folder.exists():  # it may have been removed by hand
            write_held(self.folder, position)

    def _begin(self) -> None:
        self._fold, self._tail, self._was_cut = Fold(self._cell_bytes), Tail(self.folder), False

    def _catch_up(self) -> None:
        # Looked at before reading: of one that was dead already, everything is there to be read.
        self.alive = is_runtime_alive(self.runtime)
        if self._was_cut and self.alive:  # a supervisor was put in the place of one that was killed
            self._begin()
        records = self._tail.read()
        if self._tail.reset:  # it was compacted meanwhile, and is told from its beginning
            self._fold, self._was_cut = Fold(self._cell_bytes), False
        for record in records:
            self._fold.add(record)
        if not self.alive and not self._was_cut and self._fold.ended is None:
            self._fold.cut(_CUT)
            self._was_cut = True


class Journals:
    """All that a server has looked at lately."""

    def __init__(self) -> None:
        self._known: dict[str, Journal] = {}
        self._lock = threading.Lock()
        self._sweeping: asyncio.TimerHandle | None = None

    async def fold(self, runtime: str) -> Fold:
        """What a runtime said up to now. It changes when anybody asks again: `ask` where that matters."""
        return await self.ask(runtime, lambda fold: fold)

    async def ask(self, runtime: str, question: Callable[[Fold], T]) -> T:
        """The answer to a question about what a runtime said, found in a thread. LabError where it has no journal."""

        def answer() -> T:
            with self.journal(runtime).current() as fold:
                return question(fold)

        return await self.work(answer)

    async def work(self, do: Callable[[], T]) -> T:
        """Do in a thread what looks at journals; what was not asked for lately is forgotten afterwards."""
        try:
            return await asyncio.to_thread(do)
        finally:
            if self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().call_later(KEPT, self._sweep)

    # -- these block

    def journal(self, runtime: str) -> Journal:
        """A runtime's own; LabError where there is none."""
        if not journal_folder(runtime).is_dir():
            raise LabError(f"runtime {runtime} has no journal")
        with self._lock:
            if runtime not in self._known:
                self._known[runtime] = Journal(runtime)
            return self._known[runtime]

    def of(self, path: str) -> list[Journal]:
        """Those of the runtimes that a notebook has had, by their start."""
        found = []
        for about in of_notebook(path):
            with suppress(LabError):  # it was removed in this moment
                found.append(self.journal(about.runtime))
        return found

    def _sweep(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._known = {name: one for name, one in self._known.items() if now - one.used_at < KEPT}
            again = bool(self._known)
        self._sweeping = asyncio.get_running_loop().call_later(KEPT, self._sweep) if again else None

    def close(self) -> None:
        """Called when the server ends."""
        if self._sweeping is not None:
            self._sweeping.cancel()


def _cell_bytes() -> int:
    try:
        return resolve_lab_options().cell_mb << 20
    except OwnlabError:  # a notebook must open, whatever is wrong with the configuration
        return LabOptions().cell_mb << 20
