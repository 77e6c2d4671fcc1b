"""How a run reports its progress, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellReport, RunReport

__all__ = ["Reporter", "Stop"]


class Reporter:
    """Receives the progress of a run, in the run's own thread. This base class ignores it."""

    shows_output = False  # whether `output` is to be called

    def notice(self, message: str) -> None:
        """Show a notice to the user who started the run."""

    def waiting(self, label: str, report: RunReport) -> None:
        """No card is free for a runtime of this label; the reason says who uses them and how many are waiting."""

    def started(self, report: RunReport) -> None:
        """The runtime has started; no cell has run yet."""

    def begun(self, step: Step, number: int, count: int) -> None:
        """A cell was sent: number 1 to `count`."""

    def output(self, output: Mapping[str, Any]) -> None:
        """The running cell has printed or displayed something: an output as in a notebook, never an error."""

    def tick(self) -> None:
        """Called about every second while a cell runs."""

    def done(self, cell: CellReport, *, allowed: bool) -> None:
        """A cell has ended. `allowed`: it failed, and the run continues."""


class Stop:
    """Stops a run from any thread or signal handler. A second request does not wait for the cell."""

    def __init__(self) -> None:
        self.signum = 0  # the signal that requested it; 0: none
        self._wake: Callable[[], object] = lambda: None

    def on_request(self, wake: Callable[[], object]) -> None:
        """Register the function that wakes the run."""
        self._wake = wake
        if self.signum:
            wake()

    def request(self, signum: int) -> None:
        """Request a stop, as if this signal had arrived."""
        self.signum = self.signum or signum
        self._wake()
