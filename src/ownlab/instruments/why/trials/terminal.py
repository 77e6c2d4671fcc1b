"""The table of what `--try` has measured, with the changes of the user's code."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ownlab.instruments.why.formatting import format_ms
from ownlab.instruments.why.records import Trial, Trials
from ownlab.render.console import labelled
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["show_trials"]

_LABEL_WIDTH = 9
_STATUS = {
    "faster": (text("faster"), "green"),
    "same": (text("no difference"), "default"),
    "slower": (text("slower"), "yellow"),
    "unsafe": (text("not safe"), "bold red"),
    "failed": (text("failed"), "red"),
    "untried": (text("not tried"), "dim"),
}


def show_trials(trials: Trials, out: Console) -> None:
    """Print the table, then the diff of what is recommended."""
    out.print()
    out.print(Text(trials.sentence, style="bold"))
    if trials.trials:
        out.print()
        out.print(_table(trials))
    best = _recommended(trials)
    if best is not None:
        out.print()
        out.print(Text(text("The change: {title}", title=best.title), style="bold"))
        _show_changes(best, out)
    for note in (_spent(trials), *trials.notes):
        out.print()
        out.print(Text(note, style="dim"))


def _spent(trials: Trials) -> str:
    return text(
        "{spent} of {budget} were used, with {steps} steps in each run.",
        spent=format_seconds(trials.spent_seconds),
        budget=format_seconds(trials.budget_seconds),
        steps=trials.steps,
    )


def _recommended(trials: Trials) -> Trial | None:
    faster = [each for each in (*trials.trials, trials.together) if each is not None and each.status == "faster"]
    return max(faster, key=lambda each: each.speedup or 0.0, default=None)


def _table(trials: Trials) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(text("change"))
    table.add_column(text("step"), justify="right")
    table.add_column(text("speed-up"), justify="right")
    table.add_column("")
    table.add_column(text("loss"))
    baseline = "" if trials.baseline_ms is None else format_ms(trials.baseline_ms)
    table.add_row(text("none"), baseline, "", "", "")
    for trial in trials.trials:
        table.add_row(*_row(trial, trial.title))
    if trials.together is not None:
        table.add_row(*_row(trials.together, text("together: {title}", title=trials.together.title)))
    return table


def _row(trial: Trial, title: str) -> tuple[str | Text, ...]:
    word, style = _STATUS[trial.status]
    if trial.step_ms is None or trial.speedup is None or trial.speedup_band is None:
        return title, "", "", Text(word, style=style), Text(trial.reason)
    low, high = trial.speedup_band
    speedup = text("×{factor:.2f} ({low:.2f} to {high:.2f})", factor=trial.speedup, low=low, high=high)
    return title, format_ms(trial.step_ms), speedup, Text(word, style=style), Text(trial.loss)


def _show_changes(trial: Trial, out: Console) -> None:
    for change in trial.changes:
        labelled(out, text("where"), f"{change.file}:{change.line}", width=_LABEL_WIDTH)
        for line in change.diff.splitlines():
            color = "red" if line.startswith("-") else "green"
            out.print(Text(" " * (_LABEL_WIDTH + 2) + line, style=color), no_wrap=True, overflow="ignore", crop=False)
    for number, line in enumerate(trial.advice):
        labelled(out, text("change") if number == 0 else "", line, width=_LABEL_WIDTH)
