"""Numbers every message and writes it to the journal before it is forwarded."""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Sequence

from ownlab.lab.journal.death import Death
from ownlab.lab.journal.records import EVENT, Record, encode, event, json_object
from ownlab.lab.journal.storage import JournalInfo, read_journal_info, write_journal_info, write_trouble
from ownlab.lab.journal.writer import JournalWriter
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.supervisor.state_writer import log
from ownlab.text import text

__all__ = ["JournalRecorder"]

_INSPECT = 10.0  # seconds between looks at the file
_RETRY = 5.0  # seconds between attempts while the journal cannot be written and no message arrives
_LOWEST = 19  # nice value of a compaction: it is not urgent


class JournalRecorder:
    """The journal of a runtime: one sequence of numbers for all channels and both directions.

    A full disk never ends a kernel: it is reported, and writing is retried.
    """

    def __init__(self, plan: Plan, *, after_death: bool = False) -> None:
        """`after_death`: the caller records the death of the supervisor that wrote before."""
        self.folder, self._cell_mb = plan.journal, plan.cell_mb
        self._writer = JournalWriter(plan.journal)
        self.position = self._writer.last
        self.launch, self._kernel_ended = _read_earlier(plan.journal) if self.position else (0, True)
        self._batch: list[Record] = []
        self._last_death = 0  # the number of its record
        self._reported = ""
        self._info_due = False
        self._retry_at: float | None = None
        self.inspect_at = time.monotonic() + _INSPECT  # when `notice_loss` should be called, even if nothing happens
        self.compaction = 0  # pid of a running compaction
        earlier = read_journal_info(plan.journal)
        started_at = earlier.started_at if earlier else time.time()
        self._info = JournalInfo(plan.runtime, plan.notebook, plan.lab or "", plan.type, started_at)
        if after_death and earlier:
            self._info = earlier  # the notebook may have been renamed
        self._write_info()
        self._write_trouble("")
        if not self._kernel_ended and not after_death:  # the same runtime was restarted after everything was killed
            self.record_death(text("its supervisor died"), Death("runtime"))

    @property
    def trouble(self) -> str:
        """Why the journal cannot be written now; "" if it can."""
        return self._writer.trouble

    def add(self, channel: str, to_kernel: bool, parts: Sequence[bytes]) -> None:
        """Number a message. It may be forwarded after `write`."""
        self.position += 1
        self._batch.append(Record(self.position, channel, to_kernel, time.time(), tuple(parts)))

    def add_event(self, what: str, **more: object) -> None:
        """Number an event, which is not a message."""
        self.position += 1
        if "death" in more:
            self._last_death = self.position
        self._batch.append(event(self.position, time.time(), what, **more))

    def came_too_late(self, parts: Sequence[bytes]) -> bool:
        """Whether a page sends code to a kernel that has died, which it does not know yet.

        The next kernel must not run it: what the code needs is gone. Pages say how far they had read when it was run.
        """
        if not self._last_death or b'"ownlab_position"' not in parts[2]:
            return False
        position = json_object(parts[2]).get("ownlab_position")
        return isinstance(position, int) and position < self._last_death

    def add_launch(self) -> None:
        """Record the launch of another kernel."""
        self.launch += 1
        self.add_event("kernel", launch=self.launch)

    def record_death(self, why: str, death: Death) -> None:
        """Record that the supervisor which wrote before has died, and the kernel with it."""
        if not self._kernel_ended:
            self.add_event("kernel-ended", why=why, death=death.dump())
            self._kernel_ended = True
            self.write()

    def write(self) -> list[Record]:
        """Write everything added since the last call, and return it."""
        batch, self._batch = self._batch, []
        if batch:
            try:
                self._writer.write(batch)
            except struct.error:  # more than 4 GiB, or 65,535 buffers
                self._writer.write([_as_recordable(record) for record in batch])
            self._report_trouble()
        return batch

    def rename(self, notebook: str) -> None:
        """Record that the notebook has a new path."""
        self._info = self._info._replace(notebook=notebook)
        self._write_info()

    def due(self) -> float | None:
        """When `check` must be called; None if there is nothing to retry."""
        return self._retry_at

    def notice_loss(self) -> bool:
        """Whether the end of the journal was cut off from outside. Then add any event: readers notice what is missing before it."""
        self.inspect_at = time.monotonic() + _INSPECT
        lost = self._writer.notice_loss()
        if lost:
            log("the end of the journal was cut off by another program")
        return lost

    def check(self, now: float) -> None:
        """Retry what could not be written."""
        if self._retry_at is None or now < self._retry_at:
            return
        self._retry_at = None
        self._writer.write(())
        self._report_trouble()
        if self._info_due:
            self._write_info()

    def close(self) -> None:
        """Close the journal: no more records will come."""
        self._writer.close()
        # The server may have changed the notebook's path there.
        self._info = (read_journal_info(self.folder) or self._info)._replace(last=self.position)
        self._write_info()

    def _write_info(self) -> None:
        try:
            write_journal_info(self.folder, self._info)
            self._info_due = False
        except OSError as exc:
            log(f"the journal's about.json will be written later: {exc.strerror}")
            self._info_due = True
            self._retry_at = time.monotonic() + _RETRY

    def _write_trouble(self, words: str) -> None:
        try:
            write_trouble(self.folder, words)
        except OSError as exc:  # the folder does not even exist: the log has the reason
            log(f"the journal's problem cannot be reported: {exc.strerror}")

    def _report_trouble(self) -> None:
        trouble = self._writer.trouble
        if trouble != self._reported:
            log(trouble or "the journal can be written again")
            self._reported = trouble
            self._write_trouble(trouble)
        if trouble and self._retry_at is None:
            self._retry_at = time.monotonic() + _RETRY

    # -- compaction

    def compact(self) -> None:
        """Start a compaction in its own process if the journal has grown enough. At most one runs."""
        if self.compaction or not self._writer.wants_compaction():
            return
        argv = [sys.executable, "-m", "ownlab.lab.journal.compaction", self.folder, str(self._cell_mb)]
        try:
            nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)  # our stdin is the starter's pipe
            self.compaction = os.posix_spawn(argv[0], argv, dict(os.environ), file_actions=[nothing], setsigmask=())
            os.setpriority(os.PRIO_PROCESS, self.compaction, _LOWEST)
        except OSError as exc:
            log(f"the journal cannot be compacted: {exc.strerror}")

    def compaction_ended(self, code: int) -> None:
        """The compaction has exited."""
        self.compaction = 0
        if code:
            log(f"the journal was not compacted: exit code {code}")


def _as_recordable(record: Record) -> Record:
    try:
        encode([record])
    except struct.error:
        return event(record.number, record.at, "lost", count=1, why=text("the message is too large for the journal"))
    return record


def _read_earlier(folder: str) -> tuple[int, bool]:
    """Return the last launch number of an existing journal, and whether it records that kernel's end.

    Launch numbers continue, so that a page which missed the kernel's end learns that this is another kernel.
    """
    from pathlib import Path

    from ownlab.lab.journal.reader import records_after

    launch, ended = 0, False
    for record in records_after(Path(folder), 0):
        if record.channel == EVENT:
            content = json_object(record.parts[0])
            ended = content.get("event") in ("kernel-ended", "ended") or content.get("_kernel_there") is False
            launch = max(launch, int(content.get("launch") or 0))
    return launch, ended
