"""The results of a sweep (`ownlab run --sweep --json`)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["SweepReport", "Trial", "TrialStatus"]

TrialStatus = Literal["queued", "running", "done", "failed", "interrupted"]


class Trial(Struct, frozen=True):
    """One combination of values, and what came of it."""

    parameters: dict[str, str]
    status: TrialStatus
    output: str  # the notebook with its outputs, or the folder with the script's logs
    seconds: float | None = None
    reason: str = ""  # why it is not "done"
    metrics: dict[str, float] = {}  # from the last line that has any: "loss=0.12 accuracy: 0.9"
    kept: bool = False  # it was finished by an earlier sweep


class SweepReport(Struct, frozen=True):
    """All combinations, in the order of the grid."""

    target: tuple[str, ...]  # the notebook; or the script and the arguments that all have
    folder: str
    trials: tuple[Trial, ...]

    def count(self, status: TrialStatus) -> int:
        """The number of trials with this status."""
        return sum(trial.status == status for trial in self.trials)
