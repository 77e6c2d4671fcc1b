"""One execution of a cell: its request, its progress, and its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from ownlab.lab.journal.json_parts import parse_object
from ownlab.lab.journal.outputs import Content, Outputs
from ownlab.lab.journal.records import Record

__all__ = ["Execution", "format_time"]

_PLAIN = [
    "asked_at",
    "state",
    "launch",
    "live",
    "gap",
    "execution_count",
    "outputs_at",
    "counted_at",
    "queued_at",
    "started_at",
    "ended_at",
    "input_count",
    "idle",
]
# Added later: compacted journals of the past do not have them.
_LATER = ["gap_note", "recovered"]


class Execution:
    """Times are seconds since 1970 on the supervisor's clock; `outputs_at` and `counted_at` are record numbers."""

    def __init__(self, number: int, at: float, request: tuple[Content, Content, Content], limit: int) -> None:
        header, metadata, content = self.request = request
        self.msg_id: str = header["msg_id"]
        cell = metadata.get("cellId")
        # Code that runs silently does not run the cell.
        self.cell: str | None = cell if isinstance(cell, str) and cell and content.get("silent") is not True else None
        self.records_timing = metadata.get("recordTiming") is True
        self.asked_at = self.outputs_at = self.counted_at = number
        self.state = "queued"  # running, done, aborted, cut
        self.queued_at, self.started_at, self.ended_at = at, None, None
        self.launch = 0
        # Whether a page still follows it: the cell was not executed again, and the kernel is the same.
        self.live = True
        # Whether records from the time in which it ran are missing.
        self.gap = False
        # The note about them, until the execution is known to have run.
        self.gap_note = ""
        # Whether its request is among them: the cell is not known, and the code only if the kernel repeated it.
        self.recovered = False
        self.idle = False
        self.execution_count: int | None = None
        # The count in execute_input; a cell shows its count only when it is done.
        self.input_count: int | None = None
        self.outputs = Outputs(limit)
        # As in a cell's metadata.execution, but always kept.
        self.timing: dict[str, str] = {}
        self.pending_input: Record | None = None
        self.reply: Record | None = None

    started_at: float | None
    ended_at: float | None

    @property
    def unfinished(self) -> bool:
        """Whether it is queued or running."""
        return self.state in ("queued", "running")

    @property
    def was_done(self) -> bool:
        """Whether the kernel has said that it has ended; perhaps only the reply or the idle status was lost when it died."""
        return self.idle or self.reply is not None

    @property
    def refused(self) -> bool:
        """Whether no kernel has run it, and none will."""
        return self.state == "cut" and self.started_at is None

    @property
    def code(self) -> str:
        """The code that was to be executed."""
        code = self.request[2].get("code")
        return code if isinstance(code, str) else ""

    @property
    def display_ids(self) -> list[str]:
        """The ids of the displays that it shows."""
        return self.outputs.display_ids

    def time(self, label: str, value: str, number: int) -> None:
        """Record when something happened."""
        self.timing[label] = value
        if self.records_timing:
            self.counted_at = number

    def end(self, state: str, at: float) -> None:
        """Record its end."""
        self.state, self.ended_at, self.pending_input = state, at, None

    def cut(self, record_at: float, number: int) -> None:
        """Record that its kernel is gone: its outputs stay, and it has no count."""
        self.end("cut", record_at)
        if self.live:
            self.time("execution_failed", format_time(record_at), number)

    def place_gap_note(self) -> bool:
        """Show the note about a gap before it began; return whether there is one."""
        note, self.gap_note = self.gap_note, ""
        if note:
            self.outputs.note(note)
        return bool(note)

    def dump(self) -> tuple[Content, list[bytes]]:
        """Return the state as JSON, and the parts of its records."""
        state: Content = {name: getattr(self, name) for name in [*_PLAIN, *_LATER]}
        state["request"], state["timing"], state["outputs"] = self.request, self.timing, self.outputs.dump()
        parts: list[bytes] = []
        for name in ("pending_input", "reply"):
            record: Record | None = getattr(self, name)
            state[name] = record and [*record[:4], len(record.parts)]
            parts += record.parts if record else ()
        return state, parts

    @classmethod
    def load(cls, state: Content, parts: Sequence[bytes], limit: int) -> Execution:
        """Restore an execution from `dump`."""
        header, metadata, content = state["request"]
        execution = cls(state["asked_at"], state["queued_at"], (header, metadata, content), limit)
        for name in _PLAIN:
            setattr(execution, name, state[name])
        for name in _LATER:
            setattr(execution, name, state.get(name, getattr(execution, name)))
        execution.timing = state["timing"]
        execution.outputs.load(state["outputs"])
        for name in ("pending_input", "reply"):
            if state[name]:
                number, channel, to_kernel, at, count = state[name]
                setattr(execution, name, Record(number, channel, to_kernel, at, tuple(parts[:count])))
                parts = parts[count:]
        return execution

    def reply_content(self) -> Content:
        """The content of its reply; empty before there is one."""
        return parse_object(self.reply.parts[3]) if self.reply else {}


def format_time(at: float) -> str:
    """Format a time as Jupyter does."""
    return datetime.fromtimestamp(at, timezone.utc).isoformat().replace("+00:00", "Z")


def as_count(value: Any) -> int | None:
    """A count as in nbformat: an integer or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
