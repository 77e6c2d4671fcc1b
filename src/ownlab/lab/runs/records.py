"""A run as records: what `ownlab run --json` prints, and what run_notebook returns."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["CellError", "CellReport", "CellStatus", "RunReport", "RunStatus"]

CellStatus = Literal["done", "failed", "timeout", "interrupted", "skipped", "not run"]
# "running" and "waiting" (for a card) are said of a run that was sent to the background.
RunStatus = Literal["done", "failed", "timeout", "interrupted", "running", "waiting"]


class CellError(Struct, frozen=True):
    """What a cell failed with."""

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
    """How a run went."""

    runtime: str
    type: str
    notebook: str  # the one that was given; never changed, unless that was asked for
    output: str  # the one with the outputs
    status: RunStatus
    reason: str  # why it is not "done", in words; "" where it is
    seconds: float
    kept: bool  # the runtime is still there, to go on from the cell that failed
    cells: tuple[CellReport, ...]
