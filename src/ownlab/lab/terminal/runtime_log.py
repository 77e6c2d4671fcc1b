"""The output of a notebook in the terminal: text as it is; images only named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ownlab.lab.journal.state import Execution, JournalState
from ownlab.text import CONTROL_CHARACTERS, text
from ownlab.units import format_bytes

__all__ = ["LogPrinter", "describe_output"]

# A notebook may print anything: remove colours and all other control sequences.
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_MAX_HEAD = 100


class LogPrinter:
    """Finds the lines that are new since the last call. A line counts when it is complete."""

    def __init__(self, cell: str | None = None) -> None:
        self._cell = cell  # the beginning of a cell id: print only this cell
        self._printed: dict[str, list[str]] = {}  # message id of an execution -> lines
        self._last = ""  # the execution printed last
        self._notes: set[str] = set()  # about the journal itself
        self._last_death = 0  # the number of the death printed last

    def new_lines(self, state: JournalState) -> list[str]:
        """Return the new lines, in the order of execution."""
        notes = [] if self._cell is not None else state.gaps.unplaced_notes
        lines = [f"[ownlab: {note}]" for note in notes if note not in self._notes]
        self._notes.update(notes)
        for execution in state.executions.values():
            lines += self._new_deaths(state, before=execution.asked_at)
            if execution.state != "queued" and (self._cell is None or (execution.cell or "").startswith(self._cell)):
                lines += self._new(execution)
        return lines + self._new_deaths(state, before=state.position + 1)

    def _new_deaths(self, state: JournalState, before: int) -> list[str]:
        """Return a line for each kernel that died before a record. The cells it concerned have notes of their own."""
        if self._cell is not None:
            return []
        deaths = [each for each in state.deaths if self._last_death < each.number < before]
        if deaths:
            self._last_death, self._last = deaths[-1].number, ""
        return [f"── {_clock(each.at)} {each.death.summary()}" for each in deaths]

    def _new(self, execution: Execution) -> list[str]:
        now = list(_lines(execution.outputs.as_json(), complete=execution.state == "running"))
        before = self._printed.get(execution.msg_id)
        if before is not None and now == before:
            return []
        # If outputs were cleared or changed, print them again from there.
        same = next((n for n, (a, b) in enumerate(zip(now, before or (), strict=False)) if a != b), len(before or ()))
        self._printed[execution.msg_id] = now
        new = now[same:]
        if self._cell is not None or (not new and before is not None) or self._last == execution.msg_id:
            return new
        self._last = execution.msg_id
        return [_head(execution), *new]


def describe_output(output: Mapping[str, Any]) -> str:
    """Return one output as text."""
    kind = output.get("output_type")
    if kind == "stream":
        return _text(output.get("text"))
    if kind == "error":
        return "\n".join(map(str, output.get("traceback") or ())) or f"{output.get('ename')}: {output.get('evalue')}"
    data = output.get("data") or {}
    rich = next((mime for mime in data if mime.startswith(("image/", "video/", "audio/"))), None)
    if rich is None and "text/plain" in data:
        return _text(data["text/plain"])
    rich = rich or next(iter(data), None)
    return f"[{rich}, {format_bytes(_size(rich, data[rich]))}]" if rich else ""


def _lines(outputs: Iterable[Mapping[str, Any]], *, complete: bool) -> Iterable[str]:
    """Return the lines of outputs. `complete`: without a last line that may still grow."""
    outputs = list(outputs)
    for number, output in enumerate(outputs):
        lines = _COLOURS.sub("", describe_output(output)).translate(CONTROL_CHARACTERS).split("\n")
        grows = complete and output.get("output_type") == "stream" and number == len(outputs) - 1
        if grows or not lines[-1]:
            lines.pop()
        yield from lines


def _head(execution: Execution) -> str:
    source = str(execution.request[2].get("code", "")).strip().partition("\n")[0]
    count = "*" if execution.state == "running" else execution.execution_count or " "
    cell = text(" (cell {id})", id=execution.cell[:8]) if execution.cell else ""
    shown = source if len(source) <= _MAX_HEAD else source[: _MAX_HEAD - 1] + "…"
    return f"── [{count}] {shown.translate(CONTROL_CHARACTERS)}{cell.translate(CONTROL_CHARACTERS)}"


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _text(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _size(mime: str, value: object) -> int:
    """Return the size in bytes; images are base64-encoded."""
    length = len(_text(value))
    return (
        length
        if mime.startswith("image/svg") or not mime.startswith(("image/", "video/", "audio/"))
        else length * 3 // 4
    )
