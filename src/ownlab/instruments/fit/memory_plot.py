"""Memory over a step as characters: kinds stacked in columns, for terminals and pipes."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.instruments.fit.records import KINDS, Kind, Phase, Timeline

__all__ = ["GLYPHS", "Plot", "plot"]

# Told apart without colours too.
GLYPHS: dict[Kind, str] = {
    "weights": "█",
    "optimizer": "▓",
    "inputs": "i",
    "gradients": "g",
    "activations": "▒",
    "temporary": "t",
    "workspace": "w",
}


class Plot(NamedTuple):
    """Rows of cells from the top; each cell a kind, or None for nothing."""

    rows: list[list[Kind | None]]
    highest: int  # bytes of the topmost row
    peak_column: int
    phases: list[tuple[int, Phase]]  # from which column on


def plot(timeline: Timeline, width: int, height: int) -> Plot:
    """Columns are equal parts of the step; of each the moment with most."""
    count = len(timeline.at)
    totals = [sum(timeline.held[kind][number] for kind in KINDS) for number in range(count)]
    columns: list[list[int]] = [[] for _ in range(width)]
    for number, at in enumerate(timeline.at):
        columns[min(width - 1, int(at * width))].append(number)
    highest = max(totals, default=0) or 1
    rows: list[list[Kind | None]] = [[None] * width for _ in range(height)]
    last = 0
    for column, numbers in enumerate(columns):
        last = max(numbers, key=totals.__getitem__) if numbers else last
        for row, kind in enumerate(_stack(timeline, last, highest, height)):
            rows[height - 1 - row][column] = kind
    phases = [(min(width - 1, int(at * width)), phase) for at, phase in timeline.phases]
    return Plot(rows, highest, min(width - 1, int(timeline.peak_at * width)), phases)


def _stack(timeline: Timeline, number: int, highest: int, height: int) -> list[Kind]:
    """Kinds from the bottom up: a cell belongs to what is in its middle."""
    cells: list[Kind] = []
    filled = 0.0
    for kind in KINDS:
        filled += timeline.held[kind][number] * height / highest
        while len(cells) + 0.5 <= filled and len(cells) < height:
            cells.append(kind)
    return cells
