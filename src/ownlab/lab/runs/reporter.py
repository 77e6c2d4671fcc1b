"""How a run is told of while it goes on, and how it is told to stop."""

from __future__ import annotations

from collections.abc import Callable

from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellReport, RunReport

__all__ = ["Stop", "Teller"]


class Teller:
    """Hears how a run goes, from the run's own thread. This one tells nobody."""

    def notice(self, words: str) -> None:
        """Something that whoever started it should know."""

    def waiting(self, label: str, report: RunReport) -> None:
        """No card is free for a runtime of this label; the report's reason says who has them, and how many wait before."""

    def started(self, report: RunReport) -> None:
        """It has its runtime; the report is of nothing yet."""

    def begun(self, step: Step, number: int, count: int) -> None:
        """A cell was sent: the `number`th, from 1, of `count`."""

    def tick(self) -> None:
        """Called every second or so while a cell runs."""

    def done(self, cell: CellReport, *, allowed: bool) -> None:
        """A cell is over, well or not; `allowed`: it failed, and the run goes on."""


class Stop:
    """Tells a run to stop, from any thread or signal handler. Told a second time, it does not wait for anybody."""

    def __init__(self) -> None:
        self.signum = 0  # what it was told by; 0: go on
        self._wake: Callable[[], object] = lambda: None

    def on_told(self, wake: Callable[[], object]) -> None:
        """Called by the run: what wakes it."""
        self._wake = wake
        if self.signum:
            wake()

    def tell(self, signum: int) -> None:
        """As if this signal had come."""
        self.signum = self.signum or signum
        self._wake()
