"""A run in the terminal: a line for each cell that is done, one that moves for the cell that runs, and how it ended.

Without rich, which takes a while to import: whoever waits here waits for a kernel.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from ownlab.lab.forms.field_values import describe_type, displayed_value
from ownlab.lab.forms.notebook_forms import find_forms
from ownlab.lab.forms.parameters import find_parameters
from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellReport, Outcome, RunReport
from ownlab.lab.runs.reporter import Reporter

__all__ = [
    "BackgroundReporter",
    "TerminalReporter",
    "describe_end",
    "describe_parameters",
    "describe_start",
    "format_elapsed",
]

# A notebook may print what it likes: of what steers a terminal only colours are let through, and only to a terminal.
_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_SIGNS = {number: "\N{REPLACEMENT CHARACTER}" for number in (*range(32), *range(127, 160)) if number not in b"\n\t"}
_WIDEST = 60  # of a title
_PIPE = 80
_MARKS = {"failed": "  failed", "timeout": "  format_elapsed too long", "interrupted": "  interrupted"}


class TerminalReporter(Reporter):
    """Tells on a stream; where that is a terminal, the line of the running cell says how long it has run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._line, self._since, self._width = "", 0.0, 0

    def notice(self, words: str) -> None:
        self._print(_plain(words))

    def waiting(self, label: str, report: RunReport) -> None:
        self._print(_plain(f"Waiting for {label}: {report.reason}"))

    def begun(self, step: Step, number: int, count: int) -> None:
        columns = shutil.get_terminal_size((_PIPE, 24)).columns if self._live else _PIPE
        digits = len(str(count))
        head = f"[{number:>{digits}}/{count}] "
        room = max(10, min(_WIDEST, columns - len(head) - 20))
        self._line = head + _fitted(_plain(step.title).replace("\n", " "), room)
        self._since = time.monotonic()
        self.tick()

    def tick(self) -> None:
        if self._live and self._line:
            elapsed = time.monotonic() - self._since
            self._write(f"\r{self._line}  {format_elapsed(elapsed) if elapsed >= 1 else '…'}\x1b[K")

    def done(self, cell: CellReport, *, allowed: bool) -> None:
        mark = _MARKS.get(cell.status, "") + (" (allowed)" if allowed else "")
        line, self._line = self._line, ""
        self._print(f"{line}  {format_elapsed(cell.seconds or 0.0)}{mark}")

    def ended(self, outcome: Outcome, again: str) -> None:
        """Where it is not done: what the cell failed with, and what can be done. `again` goes on where it was kept."""
        report, error = outcome.report, outcome.error
        ended = outcome.ended_by
        if ended is not None and ended.error is not None and report.status == "failed":
            text = "\n".join(ended.error.traceback)
            self._print(_coloured(text) if self._live else _plain(text))
        if outcome.trouble:
            self._print(f"The output does not hold everything: {outcome.trouble}")
            self._print(f"  Write it elsewhere: ownlab runtimes log {report.runtime[:8]} --notebook FILE")
        if error is not None:
            self._print(f"ownlab: {_plain(error.message)}")
            for line in filter(None, (error.meaning, error.hint)):
                self._print(f"  {_plain(line)}")
        if report.kept:
            self._print(f"  The runtime is kept. Mend the cell, then: {again}")
            self._print(f"  To end it: ownlab runtimes stop {report.runtime[:8]}")

    def _print(self, line: str) -> None:
        self._write(("\r\x1b[K" if self._live else "") + line + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # The terminal was closed. What waits in the stream would make Python complain when it ends.
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self._stream.fileno())
            os.close(nothing)


class BackgroundReporter(TerminalReporter):
    """Tells whoever waits at the terminal how it begins, and everything else to its log."""

    def __init__(self, stream: TextIO, say: Callable[[RunReport], None]) -> None:
        super().__init__(stream)
        self._say = say

    def waiting(self, label: str, report: RunReport) -> None:
        super().waiting(label, report)
        self._say(report)

    def started(self, report: RunReport) -> None:
        self._say(report)

    def ended(self, outcome: Outcome, again: str) -> None:
        super().ended(outcome, again)
        if outcome.error is None:
            self._print(describe_end(outcome.report))


def format_elapsed(seconds: float) -> str:
    """12.3 s; 2 min 5 s; 3 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def describe_end(report: RunReport) -> str:
    """The last line of a run that is done."""
    ran = [cell for cell in report.cells if cell.seconds is not None]
    failed = sum(cell.status == "failed" for cell in ran)
    count = f"{len(ran)} cell{'' if len(ran) == 1 else 's'}"
    allowed = f", {failed} of them failed" if failed else ""
    return f"Done: {count} in {format_elapsed(report.seconds)}{allowed}. OutputFile to {report.output}"


def describe_start(report: RunReport) -> str:
    """What somebody has to know who leaves a run to itself."""
    short = report.runtime[:8]
    lines = [f"The run {'has started' if report.status == 'running' else 'waits for a card'}, as runtime {short}."]
    if report.reason:
        lines.append(f"  waits   {_plain(report.reason)}")
    lines.append(f"  output  {report.output}")
    lines.append(f"  follow  ownlab runtimes log -f {short}")
    lines.append(f"  end     ownlab runtimes stop {short}")
    return "\n".join(lines)


def describe_parameters(notebook: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and words, for help: what it takes, what it is now, in which cell it stands."""
    titles = {form.cell: form.form.title for form in find_forms(notebook)}
    rows = []
    for parameter in find_parameters(notebook):
        field = parameter.locations[0].field
        cells = dict.fromkeys(title for place in parameter.locations if (title := titles.get(place.cell)))
        where = f" ({', '.join(cells)})" if cells else ""
        rows.append(
            (parameter.name, _plain(f"{describe_type(field)}; default: {displayed_value(field) or 'empty'}{where}"))
        )
    return rows


def _plain(text: str) -> str:
    return _COLOURS.sub("", text).translate(_SIGNS)


def _coloured(text: str) -> str:
    parts = _COLOURS.split(text)
    return "".join(part if number % 2 else part.translate(_SIGNS) for number, part in enumerate(parts)) + "\x1b[0m"


def _fitted(text: str, room: int) -> str:
    """Cut or filled up to a width; a Chinese sign is as wide as two letters."""
    if _width(text) > room:
        while text and _width(text) > room - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (room - _width(text))


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )
