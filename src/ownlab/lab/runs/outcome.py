"""How a run went, and what there is to say of it."""

from __future__ import annotations

import os
from typing import NamedTuple

from ownlab.errors import CellFailed, DeadlineError, OwnlabError
from ownlab.lab.runs.records import CellReport, RunReport

__all__ = ["Outcome", "ended_by"]


class Outcome(NamedTuple):
    """A run that is over."""

    report: RunReport
    trouble: str  # why the output does not hold everything; "" where it does

    @property
    def exit_code(self) -> int:
        """As `ownlab run` ends; one that a signal ended, has that signal's."""
        return 0 if self.error is None else self.error.exit_code

    @property
    def ended_by(self) -> CellReport | None:
        """The cell with which it ended before its time."""
        return ended_by(self.report)

    @property
    def error(self) -> OwnlabError | None:
        """Why it is not done."""
        report, cell = self.report, self.ended_by
        if cell is None:
            return None
        what = f"cell {cell.cell + 1} of {os.path.basename(report.notebook)}, “{cell.title}”"
        hint = f"What it showed up to there: {report.output}"
        if report.status == "timeout":
            return DeadlineError(f"{what}: {report.reason}", hint=hint)
        words = f"{what}: {report.reason}" if report.status == "interrupted" else f"{what}, failed: {report.reason}"
        return CellFailed(words, hint=_memory(report.reason) + hint, report=report)


def ended_by(report: RunReport) -> CellReport | None:
    """The cell with which a run ended that is not done."""
    ran = [cell for cell in report.cells if cell.status not in ("skipped", "not run")]
    return ran[-1] if ran and report.status != "done" else None


def _memory(reason: str) -> str:
    if "signal 9" not in reason:
        return ""
    return "A kernel that was killed (signal 9) has usually taken more memory than there is. "
