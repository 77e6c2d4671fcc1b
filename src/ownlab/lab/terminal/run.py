"""A run in the terminal: one line per finished cell, its output, a live line for the running cell, and the result.

Does not use rich, whose import would delay the start of the kernel.
"""

from __future__ import annotations

import re
import shutil
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from ownlab.lab.forms.field_values import describe_type, displayed_value
from ownlab.lab.forms.notebook_forms import find_forms
from ownlab.lab.forms.parameters import find_parameters
from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellReport, Outcome, RunReport
from ownlab.lab.runs.reporter import Reporter
from ownlab.lab.terminal.cell_output import CellOutput, write
from ownlab.text import CONTROL_CHARACTERS, facts, plural, text

__all__ = [
    "BackgroundReporter",
    "TerminalReporter",
    "describe_end",
    "describe_parameters",
    "describe_start",
    "format_elapsed",
]

# A notebook may print anything. Of the control sequences only colours are kept, and only on a terminal.
_COLOURS = re.compile(r"(\x1b\[[0-9;]*m)")
_MAX_TITLE = 60
_PIPE_WIDTH = 80


class TerminalReporter(Reporter):
    """Reports on a stream. On a terminal, the line of the running cell shows the elapsed time.

    A cell with output has its line above the output, and a second one with the time below.
    """

    def __init__(self, stream: TextIO, stdout: TextIO | None = None) -> None:
        """`stdout` gets what cells print to their stdout; None: the output of cells is not shown."""
        self._stream = stream
        self._live = stream.isatty()
        self._output = None if stdout is None else CellOutput(stdout, stream)
        self.shows_output = stdout is not None
        self._head, self._line, self._since = "", "", 0.0
        self._has_output = False

    def notice(self, message: str) -> None:
        self._print(_plain(message))

    def waiting(self, label: str, report: RunReport) -> None:
        self._print(_plain(text("Waiting for {label}: {reason}", label=label, reason=report.reason)))

    def begun(self, step: Step, number: int, count: int) -> None:
        columns = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if self._live else _PIPE_WIDTH
        digits = len(str(count))
        self._head = head = f"[{number:>{digits}}/{count}] "
        room = max(10, min(_MAX_TITLE, columns - len(head) - 20))
        self._has_output = False
        self._line = head + _fitted(_plain(step.title).replace("\n", " "), room)
        self._since = time.monotonic()
        self.tick()

    def output(self, output: Mapping[str, Any]) -> None:
        if self._output is None:
            return
        if not self._has_output:
            self._has_output = True
            self._print(self._line.rstrip())
        self._output.show(output)

    def tick(self) -> None:
        if self._has_output and self._output is not None:
            self._output.tick()
        elif self._live and self._line:
            elapsed = time.monotonic() - self._since
            self._write(f"\r{self._line}  {format_elapsed(elapsed) if elapsed >= 1 else '…'}\x1b[K")

    def done(self, cell: CellReport, *, allowed: bool) -> None:
        line, self._line = self._line, ""
        mark = _mark(cell.status, allowed)
        if self._output is not None:
            self._output.finish()
            if allowed and cell.error is not None:  # of a failure that ends the run, `ended` prints it
                if not self._has_output:
                    self._print(line.rstrip())
                self._print_traceback(cell.error.traceback)
                self._has_output = True
        if self._has_output:
            line, self._has_output = self._head.rstrip(), False
        self._print(f"{line}  {format_elapsed(cell.seconds or 0.0)}" + (f"  {mark}" if mark else ""))

    def ended(self, outcome: Outcome, resume_command: str) -> None:
        """Print the error of a run that failed, and what to do. `resume_command` continues a run that was kept."""
        report, error = outcome.report, outcome.error
        cell = outcome.ended_by
        if cell is not None and cell.error is not None and report.status == "failed":
            self._print_traceback(cell.error.traceback)
        runtime = report.runtime[:8]
        if outcome.trouble:
            self._print(text("The output notebook is incomplete: {reason}", reason=outcome.trouble))
            self._print(
                text("  Write it to another file: ownlab runtimes log {runtime} --notebook FILE", runtime=runtime)
            )
        if error is not None:
            self._print(f"ownlab: {_plain(error.message)}")
            for line in filter(None, (error.meaning, error.hint)):
                self._print(f"  {_plain(line)}")
        if report.kept:
            self._print(text("  The runtime is kept. Fix the cell, then run: {command}", command=resume_command))
            self._print(text("  Stop the runtime: ownlab runtimes stop {runtime}", runtime=runtime))

    def _print_traceback(self, lines: Sequence[str]) -> None:
        traceback = "\n".join(lines)
        self._print(_coloured(traceback) if self._live else _plain(traceback))

    def _print(self, line: str) -> None:
        self._write(("\r\x1b[K" if self._live else "") + line + "\n")

    def _write(self, output: str) -> None:
        write(self._stream, output)


class BackgroundReporter(TerminalReporter):
    """Reports the start to the process that waits at the terminal, and everything else to the log."""

    def __init__(self, stream: TextIO, send_report: Callable[[RunReport], None]) -> None:
        super().__init__(stream)
        self._send_report = send_report

    def waiting(self, label: str, report: RunReport) -> None:
        super().waiting(label, report)
        self._send_report(report)

    def started(self, report: RunReport) -> None:
        self._send_report(report)

    def ended(self, outcome: Outcome, resume_command: str) -> None:
        super().ended(outcome, resume_command)
        if outcome.error is None:
            self._print(describe_end(outcome.report))


def _mark(status: str, allowed: bool) -> str:
    if status == "failed":
        return text("failed (allowed)") if allowed else text("failed")
    if status == "timeout":
        return text("took too long (allowed)") if allowed else text("took too long")
    return text("interrupted") if status == "interrupted" else ""


def format_elapsed(seconds: float) -> str:
    """12.3 s; 2 min 5 s; 3 h 10 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def describe_end(report: RunReport) -> str:
    """Return the last line of a finished run."""
    ran = [cell for cell in report.cells if cell.seconds is not None]
    failed = sum(cell.status == "failed" for cell in ran)
    values = {"duration": format_elapsed(report.seconds), "failed": failed, "output": report.output}
    if failed:
        return plural(
            len(ran),
            "Done: 1 cell in {duration}, {failed} failed. Written to {output}",
            "Done: {n} cells in {duration}, {failed} failed. Written to {output}",
            **values,
        )
    return plural(
        len(ran),
        "Done: 1 cell in {duration}. Written to {output}",
        "Done: {n} cells in {duration}. Written to {output}",
        **values,
    )


def describe_start(report: RunReport) -> str:
    """Return what the user needs to know about a run in the background."""
    runtime = report.runtime[:8]
    if report.status == "running":
        lines: list[str] = [text("The run has started, as runtime {runtime}.", runtime=runtime)]
    else:
        lines = [text("The run waits for a card, as runtime {runtime}.", runtime=runtime)]
    if report.reason:
        lines.append(text("  reason  {reason}", reason=_plain(report.reason)))
    lines.append(text("  output  {path}", path=report.output))
    lines.append(text("  follow  ownlab runtimes log -f {runtime}", runtime=runtime))
    lines.append(text("  stop    ownlab runtimes stop {runtime}", runtime=runtime))
    return "\n".join(lines)


def describe_parameters(notebook: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the name of each parameter, and its type, default and cells, for --help."""
    titles = {form.cell: form.form.title for form in find_forms(notebook)}
    rows = []
    for parameter in find_parameters(notebook):
        field = parameter.locations[0].field
        cells = dict.fromkeys(title for place in parameter.locations if (title := titles.get(place.cell)))
        value = displayed_value(field) or text("empty")
        described = text("{type}; default: {value}", type=describe_type(field), value=value)
        if cells:
            described = text("{parameter} ({cells})", parameter=described, cells=facts(*cells))
        rows.append((parameter.name, _plain(described)))
    return rows


def _plain(output: str) -> str:
    return _COLOURS.sub("", output).translate(CONTROL_CHARACTERS)


def _coloured(output: str) -> str:
    parts = _COLOURS.split(output)
    plain = (part if number % 2 else part.translate(CONTROL_CHARACTERS) for number, part in enumerate(parts))
    return "".join(plain) + "\x1b[0m"


def _fitted(title: str, room: int) -> str:
    """Cut or pad to a width in columns: a Chinese character is two columns wide."""
    if _width(title) > room:
        while title and _width(title) > room - 1:
            title = title[:-1]
        title += "…"
    return title + " " * (room - _width(title))


def _width(title: str) -> int:
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in title
    )
