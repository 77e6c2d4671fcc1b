"""A sweep in the terminal: one line per result while it runs, and one table at the end."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from ownlab.lab.sweeps.grid import describe
from ownlab.lab.sweeps.records import SweepReport, Trial
from ownlab.lab.sweeps.sweep import SweepRequest
from ownlab.lab.terminal.cell_output import clean, write
from ownlab.lab.terminal.run import format_elapsed
from ownlab.lab.terminal.script import short_folder
from ownlab.render.wide_text import align_left, cell_width, shorten
from ownlab.text import plural, text

__all__ = ["SweepReporter", "describe_background", "show_results"]

_BAR = 16  # columns of the longest bar
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MOST_METRICS = 6
_LONGEST_CELL = 40


class SweepReporter:
    """Reports on a stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def begin(self, request: SweepRequest, report: SweepReport, *, changed: bool) -> None:
        """Say how many combinations there are, and which are finished already."""
        finished = 0 if request.force else report.count("done")
        values = {"count": len(report.trials), "folder": short_folder(report.folder), "label": request.type.label}
        self._print(text("{count} combinations on {label}; results in {folder}", **values))
        if finished:
            self._print(
                plural(
                    finished,
                    "1 of them is finished already. Repeat it with --force.",
                    "{n} of them are finished already. Repeat them with --force.",
                )
            )
        if finished and changed:
            self._print(text("The file has changed since: the finished results are those of the old one."))

    def done(self, trial: Trial, number: int, count: int) -> None:
        """Report one result."""
        metrics = "  ".join(f"{name}={value:g}" for name, value in list(trial.metrics.items())[:_MOST_METRICS])
        words = trial.reason if trial.status != "done" else metrics
        line = f"[{number:>{len(str(count))}}/{count}] {describe(trial.parameters)}  {_state(trial)}"
        self._print(f"{line}  {_duration(trial)}  {words}".rstrip())

    def _print(self, line: str) -> None:
        write(self._stream, clean(line, colours=False) + "\n")


def show_results(report: SweepReport) -> None:
    """Print the table: parameters, state, duration, the last metrics, and a bar for one that all results have."""
    trials = report.trials
    names = list(trials[0].parameters)
    metrics = list(dict.fromkeys(name for trial in trials for name in trial.metrics))[:_MOST_METRICS]
    compared = _compared(trials, metrics)
    rows = [[*names, text("state"), text("time"), *metrics, compared]]
    longest = max((abs(trial.metrics[compared]) for trial in trials if compared in trial.metrics), default=0.0)
    for trial in trials:
        values = [f"{trial.metrics[name]:g}" if name in trial.metrics else "" for name in metrics]
        bar = _bar(trial.metrics.get(compared, 0.0), longest) if compared else ""
        rows.append([*trial.parameters.values(), _state(trial), _duration(trial), *values, bar])
    for line in _aligned(rows):
        _echo(line)
    for trial in trials:
        if trial.status == "failed":
            _echo(clean(f"{describe(trial.parameters)}: {trial.reason}", colours=False))
            _echo(f"  {short_folder(trial.output)}")
    _echo(text("Results: {folder}", folder=short_folder(report.folder)))
    left = len(trials) - report.count("done")
    if left:
        _echo(
            plural(
                left,
                "1 combination is not finished. The same command continues.",
                "{n} combinations are not finished. The same command continues.",
            )
        )


def _echo(line: str) -> None:
    write(sys.stdout, line + "\n")


def describe_background(report: SweepReport, pid: int) -> str:
    """Return what the user needs to know about a sweep in the background."""
    log = short_folder(os.path.join(report.folder, "sweep.log"))
    lines = [
        plural(len(report.trials), "1 combination runs in the background.", "{n} combinations run in the background."),
        text("  results  {folder}", folder=short_folder(report.folder)),
        text("  follow   tail -f {log}", log=log),
        text("  stop     kill {pid}", pid=pid),
        text("  The same command without --detach shows the results so far."),
    ]
    return "\n".join(lines)


def _compared(trials: Sequence[Trial], metrics: Sequence[str]) -> str:
    """The first metric that all finished trials have, with values that a bar can show; "" if there is none."""
    done = [trial for trial in trials if trial.status == "done"]
    for name in metrics:
        values = [trial.metrics.get(name, -1.0) for trial in done]
        if len(values) > 1 and min(values) >= 0 and len(set(values)) > 1:
            return name
    return ""


def _bar(value: float, longest: float) -> str:
    eighths = math.floor(value / longest * _BAR * 8) if longest else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _state(trial: Trial) -> str:
    words = {
        "queued": text("queued"),
        "running": text("running"),
        "done": text("done"),
        "failed": text("failed"),
        "interrupted": text("interrupted"),
    }
    return words[trial.status]


def _duration(trial: Trial) -> str:
    return "" if trial.seconds is None else format_elapsed(trial.seconds)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[shorten(clean(cell, colours=False), _LONGEST_CELL) for cell in row] for row in rows]
    widths = [max(cell_width(row[column]) for row in shown) for column in range(len(shown[0]))]
    return [
        "  ".join(align_left(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown
    ]
