"""The report of a run (`ownlab run --json`, run_notebook), and the error it ends with."""

from __future__ import annotations

import os
import shlex
from typing import Literal, NamedTuple

from msgspec import Struct

from ownlab.errors import CellFailed, DeadlineError, OwnlabError
from ownlab.lab.colab.detection import lacks_colab
from ownlab.text import sentences, text

__all__ = ["CellError", "CellReport", "CellStatus", "Outcome", "RunReport", "RunStatus", "ended_by"]

CellStatus = Literal["done", "failed", "timeout", "interrupted", "skipped", "not run"]
# "running" and "waiting" (for a card): a run in the background.
RunStatus = Literal["done", "failed", "timeout", "interrupted", "running", "waiting"]


class CellError(Struct, frozen=True):
    """The exception of a cell."""

    name: str  # "ZeroDivisionError"
    value: str
    traceback: tuple[str, ...]  # lines as the kernel sent them, with their colours


class CellReport(Struct, frozen=True):
    """One code cell that is not empty."""

    cell: int  # its place among all cells of the notebook, from 0
    id: str
    title: str  # of its form, or the first line of its source
    status: CellStatus
    seconds: float | None = None  # None: it was not run
    execution_count: int | None = None
    error: CellError | None = None  # also of a cell that was allowed to fail


class RunReport(Struct, frozen=True):
    """The result of a run."""

    runtime: str
    type: str
    notebook: str  # the one that was given; never changed, unless that was request for
    output: str  # the notebook with the outputs
    status: RunStatus
    reason: str  # why it is not "done"; otherwise ""
    seconds: float
    kept: bool  # the runtime is kept, to continue from the failed cell
    cells: tuple[CellReport, ...]


class Outcome(NamedTuple):
    """A finished run."""

    report: RunReport
    trouble: str  # why the output is incomplete; otherwise ""

    @property
    def exit_code(self) -> int:
        """The exit code of `ownlab run`; a run that a signal stopped has that of the signal."""
        return 0 if self.error is None else self.error.exit_code

    @property
    def ended_by(self) -> CellReport | None:
        """The cell at which it stopped early."""
        return ended_by(self.report)

    @property
    def error(self) -> OwnlabError | None:
        """Why it is not done."""
        report, cell = self.report, self.ended_by
        if cell is None:
            return None
        values = {
            "number": cell.cell + 1,
            "notebook": os.path.basename(report.notebook),
            "title": cell.title,
            "reason": report.reason,
        }
        hint = text("The outputs so far: {output}", output=report.output)
        stopped = text("Cell {number} of {notebook}, “{title}”: {reason}", **values)
        if report.status == "timeout":
            return DeadlineError(stopped, hint=hint)
        if report.status == "interrupted":
            return CellFailed(stopped, hint=hint, report=report)
        failed = text("Cell {number} of {notebook}, “{title}”, failed: {reason}", **values)
        hints = sentences(_memory_hint(report.reason), _colab_hint(cell.error, report.notebook), hint)
        return CellFailed(failed, hint=hints, report=report)


def ended_by(report: RunReport) -> CellReport | None:
    """Return the cell at which a run stopped early; None if it is done."""
    ran = [cell for cell in report.cells if cell.status not in ("skipped", "not run")]
    return ran[-1] if ran and report.status != "done" else None


def _colab_hint(error: CellError | None, notebook: str) -> str:
    if error is None or not lacks_colab(error.name, error.value, error.traceback):
        return ""
    command = shlex.join(["ownlab", "run", notebook, "--colab"])
    return text("google.colab is there in Colab mode: {command}.", command=command)


def _memory_hint(reason: str) -> str:
    if "signal 9" not in reason:
        return ""
    return text("A kernel that is killed (signal 9) has usually run out of memory.")
