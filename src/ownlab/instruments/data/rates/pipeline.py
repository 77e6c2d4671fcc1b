"""`ownlab data bench`: guest -> measurement -> assessment. For the command line and `ownlab.data`."""

from __future__ import annotations

import os
from collections.abc import Callable

from ownlab.instruments.data.guest_events import Progress, run_guest
from ownlab.instruments.data.rates.assessment import assess
from ownlab.instruments.data.rates.records import DataBench, Measured

__all__ = ["bench_data"]


def bench_data(
    path: str, need: float | None, scratch: str | None, python: str, on_progress: Callable[[Progress], None]
) -> DataBench:
    """Measure and judge. Raises DataUnusable and other OwnlabErrors."""
    fields = {"path": os.path.abspath(path), "scratch": None if scratch is None else os.path.abspath(scratch)}
    return assess(run_guest(python, "data.bench", fields, Measured, on_progress), need)
