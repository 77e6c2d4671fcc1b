"""Several reports beside each other: ratios to the first, and whether what differs is more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ownlab.errors import InputError
from ownlab.instruments.bench.records import GROUPS, BenchReport, Measure, Unit, device_kind
from ownlab.instruments.bench.statistics import least_chance, rank_test

__all__ = ["METHOD", "NOISE", "Cell", "Comparison", "Mean", "Row", "Side", "compare_reports", "machine_of"]

Difference = Literal["differs", "likely", "same", "other-size", "unknown"]

# Two runs on one machine lie so far apart; less than that is no difference, however small the spread within each run.
NOISE = 0.015
_CHANCE = 0.01
METHOD = (
    f"Differs: Mann and Whitney's rank test over the repetitions of both gives less than {100 * _CHANCE:g} %, and the medians "
    f"are more than {100 * NOISE:g} % apart. Likely: too few repetitions for that test, and no value of the one reaches the other's."
)

Key = tuple[str, str, Unit]


class Side(Struct, frozen=True):
    """One of the reports."""

    label: str
    when: str
    machine: str
    complete: bool


class Cell(Struct, frozen=True):
    """A test on one side."""

    median: float
    low: float
    high: float
    ratio: float  # how many times as fast as on the first side that has the test
    difference: Difference  # from the first
    chance: float | None = None  # of such ranks where both were the same
    above_limit: bool = False  # a measuring error: its ratio means nothing


class Row(Struct, frozen=True):
    """A test that at least two sides have; None where a side has it not."""

    name: str
    group: str
    device: str  # cuda, cpu, disk
    unit: Unit
    cells: tuple[Cell | None, ...]


class Mean(Struct, frozen=True):
    """The geometric mean of a group's ratios, over the tests that all sides have."""

    group: str
    count: int
    ratios: tuple[float, ...]


class Comparison(Struct, frozen=True):
    """`ownlab bench compare --json`."""

    sides: tuple[Side, ...]
    rows: tuple[Row, ...]
    means: tuple[Mean, ...]
    only: tuple[tuple[str, ...], ...]  # for each side the tests that no other has
    method: str = METHOD


def compare_reports(named: Sequence[tuple[str, BenchReport]]) -> Comparison:
    """Reports with their labels, against the first of them."""
    tables = [{_key(measure): measure for measure in report.results} for _, report in named]
    keys = sorted(dict.fromkeys(key for table in tables for key in table), key=lambda key: _place(key, tables))
    shared = [key for key in keys if sum(key in table for table in tables) > 1]
    if not shared:
        raise InputError(
            "these results have no test in common", hint="Measure with the same profile: ownlab bench --only …"
        )
    rows = tuple(_row(key, [table.get(key) for table in tables]) for key in shared)
    return Comparison(
        sides=tuple(Side(label, report.when, machine_of(report), report.complete) for label, report in named),
        rows=rows,
        means=tuple(_means(rows)),
        only=tuple(tuple(key[0] for key in table if key not in shared) for table in tables),
    )


def _key(measure: Measure) -> Key:
    """What makes two measures the same test. A card's number and a disk's path do not."""
    return (measure.name, device_kind(measure.device), measure.unit)


def _place(key: Key, tables: list[dict[Key, Measure]]) -> tuple[int, int]:
    """By group, then as measured."""
    for table in tables:
        if key in table:
            group = table[key].group
            return (GROUPS.index(group) if group in GROUPS else len(GROUPS), list(table).index(key))
    raise AssertionError(key)


def _row(key: Key, measures: list[Measure | None]) -> Row:
    first = next(measure for measure in measures if measure is not None)
    cells = tuple(None if measure is None else _cell(measure, first) for measure in measures)
    return Row(key[0], first.group, key[1], first.unit, cells)


def _cell(measure: Measure, first: Measure) -> Cell:
    ratio = first.median / measure.median if measure.unit == "s" else measure.median / first.median
    chance = rank_test(first.seconds, measure.seconds) if first.seconds and measure.seconds else None
    difference: Difference = "same" if measure is first else _difference(measure, first, ratio, chance)
    above = measure.verdict == "above-limit"
    return Cell(
        measure.median, measure.low, measure.high, ratio, difference, None if measure is first else chance, above
    )


def _difference(measure: Measure, first: Measure, ratio: float, chance: float | None) -> Difference:
    if not _is_alike(measure, first):
        return "other-size"
    if chance is None:
        return "unknown"
    if abs(math.log(ratio)) <= math.log1p(NOISE):
        return "same"
    if least_chance(len(first.seconds), len(measure.seconds)) < _CHANCE:
        return "differs" if chance < _CHANCE else "same"
    apart = max(first.seconds) < min(measure.seconds) or max(measure.seconds) < min(first.seconds)
    return "likely" if apart else "same"


def _is_alike(measure: Measure, first: Measure) -> bool:
    """Whether as much was done. How many workers there are belongs to a machine; a slow disk's file ends a little earlier."""
    if measure.group == "loader":
        return True
    ours, theirs = dict(measure.shape), dict(first.shape)
    if measure.group == "disk":
        sizes = (ours.pop("bytes", 0), theirs.pop("bytes", 0))
        return ours == theirs and max(sizes) <= 2 * min(sizes)
    return ours == theirs


def _means(rows: Sequence[Row]) -> list[Mean]:
    means = []
    for group in dict.fromkeys(row.group for row in rows):
        whole = [
            [cell.ratio for cell in row.cells if cell is not None]
            for row in rows
            if row.group == group and all(cell is not None and not cell.above_limit for cell in row.cells)
        ]
        if whole:
            logs = [sum(map(math.log, column)) / len(whole) for column in zip(*whole, strict=True)]
            means.append(Mean(group, len(whole), tuple(math.exp(each) for each in logs)))
    return means


def machine_of(report: BenchReport) -> str:
    """ "NVIDIA H200 ×8, torch 2.13.0"; the CPU where there is no card."""
    machine = report.machine
    cards = dict.fromkeys(card.name for card in machine.cards)
    counts = [(name, sum(card.name == name for card in machine.cards)) for name in cards]
    what = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts) or machine.cpu or "a machine"
    return f"{what}, torch {machine.torch}" if machine.torch else what
