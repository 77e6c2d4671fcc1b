"""What a notebook printed, in the terminal: text as it is, pictures as a word on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ownlab.lab.journal.state import Execution, JournalState
from ownlab.units import format_bytes

__all__ = ["LogTeller", "describe_output"]

# Colours, and everything else that would steer this terminal: a notebook may print what it likes.
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SIGNS = {number: "\N{REPLACEMENT CHARACTER}" for number in (*range(32), *range(127, 160)) if number not in b"\n\t"}
_LONGEST_HEAD = 100


class LogTeller:
    """Tells what is new since it was asked last; a line is told when it is whole."""

    def __init__(self, cell: str | None = None) -> None:
        self._cell = cell  # the beginning of an id: only this one
        self._told: dict[str, list[str]] = {}  # message id of an execution -> lines
        self._last = ""  # the execution that was told of last

    def new_lines(self, fold: JournalState) -> list[str]:
        """In the order in which cells were executed."""
        lines: list[str] = []
        for each in fold.executions.values():
            if each.state != "queued" and (self._cell is None or (each.cell or "").startswith(self._cell)):
                lines += self._new(each)
        return lines

    def _new(self, execution: Execution) -> list[str]:
        now = list(_lines(execution.outputs.as_json(), whole=execution.state == "running"))
        before = self._told.get(execution.msg_id)
        if before is not None and now == before:
            return []
        # Where outputs were cleared or changed, they are told from there on anew.
        same = next((n for n, (a, b) in enumerate(zip(now, before or (), strict=False)) if a != b), len(before or ()))
        self._told[execution.msg_id] = now
        new = now[same:]
        if self._cell is not None or (not new and before is not None) or self._last == execution.msg_id:
            return new
        self._last = execution.msg_id
        return [_head(execution), *new]


def describe_output(output: Mapping[str, Any]) -> str:
    """One output as text."""
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


def _lines(outputs: Iterable[Mapping[str, Any]], *, whole: bool) -> Iterable[str]:
    """`whole`: without a last line that may still grow."""
    outputs = list(outputs)
    for number, output in enumerate(outputs):
        lines = _COLOURS.sub("", describe_output(output)).translate(_SIGNS).split("\n")
        grows = whole and output.get("output_type") == "stream" and number == len(outputs) - 1
        if grows or not lines[-1]:
            lines.pop()
        yield from lines


def _head(execution: Execution) -> str:
    source = str(execution.request[2].get("code", "")).strip().partition("\n")[0]
    count = "*" if execution.state == "running" else execution.execution_count or " "
    cell = f" (cell {execution.cell[:8]})" if execution.cell else ""
    shown = source if len(source) <= _LONGEST_HEAD else source[: _LONGEST_HEAD - 1] + "…"
    return f"── [{count}] {shown.translate(_SIGNS)}{cell.translate(_SIGNS)}"


def _text(value: object) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _size(mime: str, value: object) -> int:
    """Of what is shown: pictures are in base64."""
    length = len(_text(value))
    return (
        length
        if mime.startswith("image/svg") or not mime.startswith(("image/", "video/", "audio/"))
        else length * 3 // 4
    )
