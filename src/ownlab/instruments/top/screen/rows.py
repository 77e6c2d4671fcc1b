"""Processes as rows: whose each is, what it takes; sorted and filtered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from ownlab.instruments.top.records import CardProcess, ProcessSample, Sample
from ownlab.instruments.top.screen.figures import percent
from ownlab.units import format_bytes

__all__ = ["SORTS", "Row", "matching", "process_rows", "sorted_rows"]


class Row(NamedTuple):
    """One process (or a runtime with all that descends from it), over all cards."""

    pid: int
    cards: tuple[int, ...]  # their numbers
    memory: int | None  # on these cards
    busy: float | None  # percent of the interval in which its kernels ran
    cpu: float | None
    ram: int | None
    whose: str
    command: str
    process: ProcessSample

    @property
    def cells(self) -> tuple[str, ...]:
        """Its figures as people read them, in the order of the table's columns."""
        return (
            str(self.pid),
            ",".join(map(str, self.cards)),
            "" if self.memory is None else format_bytes(self.memory),
            percent(self.busy),
            "" if self.cpu is None else f"{self.cpu:.0f} %",
            "" if self.ram is None else format_bytes(self.ram),
        )


def process_rows(sample: Sample) -> list[Row]:
    """All processes of a sample: those that it knows, then those that only the driver knows."""
    known = {each.pid: each for each in sample.processes}
    on_cards: dict[int, list[tuple[int, CardProcess]]] = {}
    for card in sample.cards:
        for each in card.processes or ():
            on_cards.setdefault(each.pid, []).append((card.index, each))
            known.setdefault(each.pid, ProcessSample(each.pid, here=False))
    return [_row(process, on_cards.get(pid, [])) for pid, process in known.items()]


def _row(process: ProcessSample, places: list[tuple[int, CardProcess]]) -> Row:
    memories = [each.memory for _, each in places if each.memory is not None]
    shares = [each.sm for _, each in places if each.sm is not None]
    return Row(
        process.pid,
        tuple(sorted({index for index, _ in places})),
        sum(memories) if memories else None,
        max(shares) if shares else None,
        process.cpu,
        process.memory,
        whose(process),
        process.command,
        process,
    )


def whose(process: ProcessSample) -> str:
    """The notebook and its person, where the lab started it; else the user and the container."""
    owner = process.owner
    if owner is not None:
        name = PurePath(owner.notebook).name or f"runtime {owner.runtime[:8]}"
        return f"{name} ({owner.person})" if owner.person else name
    user = f"{process.user} in {process.container}" if process.container else process.user
    if process.here:
        return user
    return f"{user}, not of this PID namespace" if user else "not of this PID namespace"


# Name -> what is sorted by, greatest first; what is not known comes last.
SORTS: dict[str, Callable[[Row], float | None]] = {
    "GPU memory": lambda row: row.memory,
    "GPU": lambda row: row.busy,
    "CPU": lambda row: row.cpu,
    "RAM": lambda row: row.ram,
    "PID": lambda row: -row.pid,
}


def sorted_rows(rows: Sequence[Row], by: str = "GPU memory", *, reverse: bool = False) -> list[Row]:
    """In the order of one column; among equals the lower PID comes first."""
    key = SORTS[by]
    known = sorted((row for row in rows if key(row) is not None), key=lambda row: row.pid)
    unknown = sorted((row for row in rows if key(row) is None), key=lambda row: row.pid)
    known.sort(key=lambda row: key(row) or 0.0, reverse=not reverse)
    return known + unknown


def matching(rows: Iterable[Row], text: str) -> list[Row]:
    """The rows that have all words of the text somewhere, whatever their case."""
    words = text.lower().split()
    return [row for row in rows if all(word in _searched(row) for word in words)]


def _searched(row: Row) -> str:
    process = row.process
    owner = process.owner
    parts = [str(row.pid), row.whose, row.command, process.user, process.container]
    parts += [owner.notebook, owner.runtime] if owner else []
    return " ".join(parts).lower()
