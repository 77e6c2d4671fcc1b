"""The journal here of a runtime on a node: the node's records, with the numbers that it gave them."""

from __future__ import annotations

from ownlab.lab.journal.death import Death
from ownlab.lab.journal.records import EVENT, Record, json_object
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.supervisor.journal_recorder import JournalRecorder

__all__ = ["Mirror"]


class Mirror(JournalRecorder):
    """Continues a journal that an earlier relay has begun. Its own records come only after the last one of the node."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, after_death=True)
        self.has_ended = False  # "ended" is recorded

    @property
    def kernel_ended(self) -> bool:
        """Whether the last kernel has ended, as far as is recorded here; also before the first one."""
        return self._kernel_ended

    def append(self, record: Record) -> None:
        """Add the next record of the node. It may be passed on after `write`."""
        self.position = record.number
        self._batch.append(record)
        self.note(record)

    def note(self, record: Record) -> None:
        """Note what a record says of the kernel's life."""
        if record.channel == EVENT:
            content = json_object(record.parts[0])
            what = content.get("event")
            if what == "kernel":
                self.launch, self._kernel_ended = int(content.get("launch") or self.launch), False
            elif what in ("kernel-ended", "ended"):
                self._kernel_ended = True
                self.has_ended = what == "ended"
            if "death" in content:
                self._last_death = record.number

    def add_end(self, why: str, death: Death | None) -> None:
        """Record the end of a runtime whose node cannot do so any more."""
        if not self._kernel_ended or (death and not self.launch):
            self.add_event("kernel-ended", why=why, **({"death": death.dump()} if death else {}))
            self._kernel_ended = True
        if not self.has_ended:
            self.add_event("ended", why=why)
            self.has_ended = True
