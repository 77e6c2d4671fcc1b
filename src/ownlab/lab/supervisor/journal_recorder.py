"""Gives everything that passes its number, and writes it down before anybody hears of it."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Sequence

from ownlab.lab.journal.records import EVENT, Record, as_object, encode, event
from ownlab.lab.journal.storage import About, read_about, write_about, write_trouble
from ownlab.lab.journal.writer import Writer
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.supervisor.state_writer import say

__all__ = ["Recording"]

_RETRY = 5.0  # seconds between attempts while nothing can be written, and nothing is said
_LOWEST = 19  # priority of a compaction: it has time


class Recording:
    """The journal of a runtime of a lab: one order for all channels and both directions.

    Nothing here ends a kernel: where the disk is full that is told, and tried again.
    """

    def __init__(self, plan: Plan) -> None:
        self._folder, self._cell_mb = plan.journal, plan.cell_mb
        self._writer = Writer(plan.journal)
        self.position = self._writer.last
        self.launch, ended = _read_earlier(plan.journal) if self.position else (0, True)
        self._batch: list[Record] = []
        self._told = ""
        self._about_due = False
        self._retry_at: float | None = None
        self.compaction = 0  # its process, while one runs
        earlier = read_about(plan.journal)
        started_at = earlier.started_at if earlier else time.time()
        self._about = About(plan.runtime, plan.notebook, plan.lab or "", plan.type, started_at)
        self._write_about()
        self._write_trouble("")
        if not ended:  # the same runtime was started anew, because its supervisor was killed
            self.add_event("kernel-ended", why="its supervisor died")
            self.write()

    @property
    def trouble(self) -> str:
        """Why nothing can be written now, or ""."""
        return self._writer.trouble

    def add(self, channel: str, to_kernel: bool, parts: Sequence[bytes]) -> None:
        """A message is the next one. It may be passed on after `write`."""
        self.position += 1
        self._batch.append(Record(self.position, channel, to_kernel, time.time(), tuple(parts)))

    def add_event(self, what: str, **more: object) -> None:
        """Something that is no message is the next."""
        self.position += 1
        self._batch.append(event(self.position, time.time(), what, **more))

    def add_launch(self) -> None:
        """Another kernel begins."""
        self.launch += 1
        self.add_event("kernel", launch=self.launch)

    def write(self) -> list[Record]:
        """Write what was added since the last time, at once; what it was."""
        batch, self._batch = self._batch, []
        if batch:
            try:
                self._writer.write(batch)
            except struct.error:  # more than 4 GiB, or 65,535 buffers
                self._writer.write([_as_kept(record) for record in batch])
            self._tell()
        return batch

    def rename(self, notebook: str) -> None:
        """The notebook has another name."""
        self._about = self._about._replace(notebook=notebook)
        self._write_about()

    def due(self) -> float | None:
        """When `check` should be called; None while all is well."""
        return self._retry_at

    def check(self, now: float) -> None:
        """Try again what could not be written."""
        if self._retry_at is None or now < self._retry_at:
            return
        self._retry_at = None
        self._writer.write(())
        self._tell()
        if self._about_due:
            self._write_about()

    def close(self) -> None:
        """No more will come."""
        self._writer.close()

    def _write_about(self) -> None:
        try:
            write_about(self._folder, self._about)
            self._about_due = False
        except OSError as exc:
            say(f"whose journal this is, is written later: {exc.strerror}")
            self._about_due = True
            self._retry_at = time.monotonic() + _RETRY

    def _write_trouble(self, words: str) -> None:
        try:
            write_trouble(self._folder, words)
        except OSError as exc:  # no folder even: the log has it
            say(f"nobody is told of it: {exc.strerror}")

    def _tell(self) -> None:
        trouble = self._writer.trouble
        if trouble != self._told:
            say(trouble or "what it says is kept again")
            self._told = trouble
            self._write_trouble(trouble)
        if trouble and self._retry_at is None:
            self._retry_at = time.monotonic() + _RETRY

    # -- compaction

    def compact(self) -> None:
        """Start one in a process of its own, where the journal has grown enough; never two."""
        if self.compaction or not self._writer.wants_compaction():
            return
        argv = [sys.executable, "-m", "ownlab.lab.journal.compaction", self._folder, str(self._cell_mb)]
        try:
            nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)  # our stdin ends with whoever started us
            self.compaction = os.posix_spawn(argv[0], argv, dict(os.environ), file_actions=[nothing], setsigmask=())
            os.setpriority(os.PRIO_PROCESS, self.compaction, _LOWEST)
        except OSError as exc:
            say(f"the journal is not compacted: {exc.strerror}")

    def compacted(self, code: int) -> None:
        """It has ended."""
        self.compaction = 0
        if code:
            say(f"the journal was not compacted: exit code {code}")


def _as_kept(record: Record) -> Record:
    try:
        encode([record])
    except struct.error:
        return event(record.number, record.at, "lost", count=1, why="it is too large to be kept")
    return record


def _read_earlier(folder: str) -> tuple[int, bool]:
    """The last launch in a journal that was here before, and whether that kernel's end is told.

    Launches go on: a page that missed the end of that kernel must hear that this is another.
    """
    from pathlib import Path

    from ownlab.lab.journal.reader import records_after

    launch, ended = 0, False
    for record in records_after(Path(folder), 0):
        if record.channel == EVENT:
            said = as_object(record.parts[0])
            ended = said.get("event") in ("kernel-ended", "ended")
            launch = max(launch, int(said.get("launch") or 0))
    return launch, ended
