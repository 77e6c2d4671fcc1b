"""What was meant: every patch, run and rewritten file of one notebook, as those who made them knew it then."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests_survival.edits.document import all_tokens, tokens

__all__ = ["PROGRAM", "Change", "Execution", "Ledger", "View", "view_of"]

PROGRAM = "another program"


@dataclass(frozen=True, eq=False)
class View:
    """The code of a notebook at one moment: sources by cell, in order."""

    sources: dict[str, str]
    types: dict[str, str]

    def __eq__(self, other: object) -> bool:
        """The order counts, too, which it does not for dictionaries."""
        if not isinstance(other, View):
            return NotImplemented
        return list(self.sources.items()) == list(other.sources.items()) and self.types == other.types

    def __hash__(self) -> int:
        return hash(tuple(self.sources))

    @property
    def counts(self) -> Counter[str]:
        return all_tokens(self.sources.values())

    def cells_of(self, token: str) -> list[str]:
        return [name for name, text in self.sources.items() if token in tokens(text)]

    def cell_of(self, token: str) -> str | None:
        return next((name for name, text in self.sources.items() if token in tokens(text)), None)


def view_of(cells: Iterable[dict[str, Any]]) -> View:
    """The code of cells as they are in a file or page."""
    listed = list(cells)
    return View(
        {cell["id"]: "".join(cell["source"]) for cell in listed}, {cell["id"]: cell["cell_type"] for cell in listed}
    )


@dataclass
class Change:
    """One patch of a page, or one write of another program: the difference of two views."""

    who: str
    number: int
    known: dict[str, int]  # cell -> the version that its text was taken from
    before: View
    after: View
    edited_at: dict[str, float]  # cell -> when it was last typed in
    made_at: float = field(default_factory=time.time)
    version: int | None = None  # as the server acknowledged it
    answered_at: float = 0.0
    sent: bool = False

    @property
    def created(self) -> set[str]:
        return self.after.counts.keys() - self.before.counts.keys()

    @property
    def removed(self) -> set[str]:
        return self.before.counts.keys() - self.after.counts.keys()

    @property
    def deleted(self) -> set[str]:
        return self.before.sources.keys() - self.after.sources.keys()

    @property
    def added(self) -> set[str]:
        return self.after.sources.keys() - self.before.sources.keys()

    @property
    def touched(self) -> set[str]:
        """Cells whose text it changed, or that it created or deleted."""
        names = self.before.sources.keys() | self.after.sources.keys()
        return {name for name in names if self.before.sources.get(name) != self.after.sources.get(name)}

    def moved_from(self, token: str) -> str | None:
        """The cell that a token was taken from, if it went into another one."""
        origin, target = self.before.cell_of(token), self.after.cell_of(token)
        return origin if origin is not None and target is not None and origin != target else None

    def is_concurrent(self, other: Change, cell: str) -> bool:
        """Whether neither knew what the other did to a cell."""
        if self.who == other.who:
            return False
        if PROGRAM in (self.who, other.who):
            return True  # which of them the file contained at that moment nobody knows
        return not self._knew(other, cell) and not other._knew(self, cell)

    def _knew(self, other: Change, cell: str) -> bool:
        return other.version is not None and self.known.get(cell, 0) >= other.version


@dataclass
class Execution:
    """A run of a cell."""

    who: str
    cell: str
    code: str
    message: str
    known: int  # the version that the page had of the cell
    flushed: bool  # whether the server had acknowledged its code before
    at: float = field(default_factory=time.time)
    ended: bool = False
    lost: bool = False  # its kernel was killed


class Ledger:
    """All of one notebook."""

    def __init__(self, first: View) -> None:
        self.first = first
        self.changes: list[Change] = []
        self.executions: list[Execution] = []
        self.conflicts: list[dict[str, Any]] = []  # as pages were told
        self.recovered: list[dict[str, Any]] = []
        self.deaths: list[float] = []  # of kernels

    def touching(self, cell: str) -> list[Change]:
        """The changes that touched a cell."""
        return [change for change in self.changes if cell in change.touched]

    def is_contested(self, change: Change, cell: str) -> bool:
        """Whether somebody else touched this cell without knowing of the change."""
        return any(change.is_concurrent(other, cell) for other in self.touching(cell))
