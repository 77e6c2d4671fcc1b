"""Gaps in a journal, and what they mean for executions: some have lost output, some their request, some their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ownlab.lab.journal.execution import Execution
from ownlab.lab.journal.gap_notes import note_after_cell, note_before_cell, note_in_cell
from ownlab.lab.journal.json_parts import Header, parse_object
from ownlab.lab.journal.outputs import OUTPUT_TYPES, Content
from ownlab.lab.journal.records import Record

if TYPE_CHECKING:
    from ownlab.lab.journal.state import JournalState

__all__ = ["Gaps"]

_BEGIN = OUTPUT_TYPES | {"clear_output", "execute_input"}
# Message ids of earlier executions that are remembered: their threads may still print.
_IGNORED = 1000


class Gaps:
    """The gaps of a JournalState."""

    def __init__(self, state: JournalState) -> None:
        self._state = state
        self._last: Content | None = None
        # Notes for which there is no cell yet.
        self.unplaced_notes: list[str] = []
        self._ignored: dict[str, None] = {}
        # A compacted journal is being read, whose last record is still to come; executions of which only the cell is known.
        self.loading = False
        self._unreadable: list[Execution] = []

    @property
    def any(self) -> bool:
        """Whether there were any so far."""
        return self._last is not None

    def add(self, gap: Content) -> None:
        """Records are missing here. The cells that they concern say so; if that is unknown, the last one that ran."""
        self._last = gap
        if self.loading:
            self._restore_cells()
        note = note_in_cell(gap)
        running = [each for each in self._state.running if each.live]
        for execution in running:
            execution.gap = True
            if execution.state == "running":
                execution.outputs.note(note)
                self._state.mark_changed(execution)
            else:
                execution.gap_note = execution.gap_note or note
        for execution in self._unreadable:
            execution.outputs.note(note)
        if not self._unreadable and not any(each.state == "running" for each in running):
            self._add_note_nearby(gap)
        self._unreadable.clear()

    def add_at_end(self, count: int, size: int) -> None:
        """The end of the journal is missing or cannot be read, and nothing will follow."""
        self._state.position += 1  # newer than anything that a page has saved
        self.add({"count": count, "bytes": size})

    def place_notes(self, execution: Execution) -> None:
        """Called with a new execution of a cell."""
        for note in self.unplaced_notes:
            execution.outputs.note(note)
            self._state.mark_changed(execution)
        self.unplaced_notes.clear()

    def ignore(self, request: str) -> None:
        """Called when an execution is forgotten on purpose: what it still prints is not the rest of a lost one."""
        self._ignored[request] = None
        if len(self._ignored) > _IGNORED:
            del self._ignored[next(iter(self._ignored))]

    def recover(self, record: Record, kind: str, parent: Header) -> None:
        """Called with each message of the kernel after a gap: its execution may be unknown, or may have begun unnoticed."""
        execution = self._state.executions.get(parent.msg_id)
        if execution is None:
            execution = self._recovered(record, kind, parent)
        if execution is not None and execution.gap and execution.state == "queued" and kind in _BEGIN:
            execution.state, execution.started_at = "running", record.at
            if execution.place_gap_note():
                self._state.mark_changed(execution)
            self.begin(execution, record)

    def begin(self, begun: Execution, record: Record) -> None:
        """Called when an execution begins. A kernel runs one at a time: earlier ones, whose end may be missing, are over."""
        if not begun.recovered:
            begun.gap_note = ""  # its beginning is there, so nothing of its output was before it
        elif begun.place_gap_note():
            self._state.mark_changed(begun)
        for execution in self._state.running:
            if execution.gap and execution is not begun and execution.asked_at < begun.asked_at:
                self.finish(execution, record)

    def finish(self, execution: Execution, record: Record) -> None:
        """End an execution whose end is missing."""
        if execution.place_gap_note():
            self._state.mark_changed(execution)
        execution.end("done" if execution.reply or execution.idle else "cut", record.at)
        if execution.live:
            execution.execution_count = execution.input_count
            execution.counted_at = record.number
            if execution.cell is not None:
                self._state.changed_at = record.number

    def assign_cells(self, sources: Mapping[str, str]) -> None:
        """Assign executions whose request is lost to their cells, by the code. `sources`: the code of each cell id."""
        for execution in [each for each in self._state.executions.values() if each.recovered and each.cell is None]:
            code = execution.request[2].get("code")
            cells = [cell for cell, source in sources.items() if code and source == code]
            before = self._state.by_cell.get(cells[0]) if len(cells) == 1 else None
            if len(cells) == 1 and (before is None or before.asked_at < execution.asked_at):
                execution.request[1]["cellId"] = execution.cell = cells[0]
                self._state.replace_in_cell(execution)

    # Compaction.

    def dump(self) -> Content:
        """Return the state as JSON. `numbers`: in case that an execution cannot be read later."""
        return {
            "last": self._last,
            "unplaced_notes": self.unplaced_notes,
            "ignored": list(self._ignored),
            "numbers": {
                each.msg_id: [each.asked_at, each.outputs_at, each.counted_at] for each in self._state.by_cell.values()
            },
        }

    def load(self, saved: Content, cells: Mapping[str, str], launch: int, limit: int) -> None:
        """Restore the state from `dump`, and replace executions that could not be read."""
        self.loading, self._last = False, saved.get("last")
        self.unplaced_notes = saved.get("unplaced_notes", [])
        self._ignored = dict.fromkeys(saved.get("ignored", ()))
        numbers: Mapping[str, Any] = saved.get("numbers", {})
        for cell, request in cells.items():
            if request not in self._state.executions:
                asked_at, outputs_at, counted_at = numbers.get(request, (0, 0, 0))
                execution = Execution(asked_at, 0.0, ({"msg_id": request}, {"cellId": cell}, {"code": ""}), limit)
                execution.state, execution.launch = "cut", launch
                execution.outputs_at, execution.counted_at = outputs_at, counted_at
                self._state.executions[request] = execution
                self._unreadable.append(execution)

    def _recovered(self, record: Record, kind: str, parent: Header) -> Execution | None:
        """Make an execution of which only messages of the kernel are known."""
        known = not parent.msg_id or parent.msg_id in self._ignored
        if known or parent.msg_type != "execute_request" or (kind not in _BEGIN and kind != "status"):
            return None
        request: tuple[Content, Content, Content] = (parse_object(record.parts[1]), {}, {"code": ""})
        if request[0].get("msg_id") != parent.msg_id:
            return None
        execution = Execution(record.number, record.at, request, self._state.output_limit)
        execution.launch, execution.gap, execution.recovered = self._state.launch, True, True
        execution.gap_note = note_in_cell(self._last or {})
        self._state.executions[execution.msg_id] = execution
        self._state.comms.begin(execution.msg_id)
        return execution

    def _add_note_nearby(self, gap: Content) -> None:
        ran = [each for each in self._state.by_cell.values() if each.state != "queued"]
        if ran:
            last = max(ran, key=lambda each: each.asked_at)
            last.outputs.note(note_after_cell(gap))
            self._state.mark_changed(last)
        else:
            self.unplaced_notes.append(note_before_cell(gap))

    def _restore_cells(self) -> None:
        """The last record of a compacted journal is missing: find what it said in the executions."""
        self.loading = False
        executions = sorted(self._state.executions.values(), key=lambda each: each.asked_at)
        self._state.by_cell.update({each.cell: each for each in executions if each.cell is not None})
        self._state.restore_launch(max((each.launch for each in executions), default=0))
