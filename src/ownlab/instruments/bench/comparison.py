"""Several reports beside each other: ratios to the first, and whether what differs is more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ownlab.catalog.card_speeds import WORKLOADS, Speed, Workload, ranked_speeds
from ownlab.errors import InputError
from ownlab.instruments.bench.records import GROUPS, BenchReport, Measure, Unit, device_kind
from ownlab.instruments.bench.report_files import references
from ownlab.instruments.bench.statistics import least_chance, rank_test

__all__ = [
    "METHOD",
    "NOISE",
    "Cell",
    "Comparison",
    "Mean",
    "Ranking",
    "ReferenceRatios",
    "Row",
    "Side",
    "compare_reports",
    "compare_with_references",
    "rank_card",
]

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
    keys = sorted(dict.fromkeys(key for table in tables for key in table), key=lambda key: _sort_key(key, tables))
    shared = [key for key in keys if sum(key in table for table in tables) > 1]
    if not shared:
        raise InputError(
            "these results have no test in common", hint="Measure with the same profile: ownlab bench --only …"
        )
    rows = tuple(_row(key, [table.get(key) for table in tables]) for key in shared)
    return Comparison(
        sides=tuple(Side(label, report.when, report.machine.description, report.complete) for label, report in named),
        rows=rows,
        means=tuple(_means(rows)),
        only=tuple(tuple(key[0] for key in table if key not in shared) for table in tables),
    )


def _key(measure: Measure) -> Key:
    """What makes two measures the same test. A card's number and a disk's path do not."""
    return (measure.name, device_kind(measure.device), measure.unit)


def _sort_key(key: Key, tables: list[dict[Key, Measure]]) -> tuple[int, int]:
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


class Ranking(Struct, frozen=True):
    """Where a card stands for one kind of work."""

    workload: str
    speed: Speed
    rank: int  # 1: the fastest
    of: int
    next_above: str  # the card just above it; "" for the fastest
    next_below: str


class ReferenceRatios(Struct, frozen=True):
    """One's own report against one that came with ownlab: how many times as fast, by group."""

    name: str
    machine: str
    means: tuple[Mean, ...]


def rank_card(report: BenchReport) -> tuple[Ranking, ...]:
    """For each kind of work; none where the card that was measured is not in the catalogue."""
    limits = [measure.limit for measure in report.results if device_kind(measure.device) == "cuda" and measure.limit]
    name = next((limit.card for limit in limits if limit.card), None)
    if name is None:
        return ()
    found = (_rank(name, workload) for workload in WORKLOADS)
    return tuple(place for place in found if place is not None)


def _rank(card: str, workload: Workload) -> Ranking | None:
    steps = ranked_speeds(workload)
    names = [step.card for step in steps]
    if card not in names:  # nothing can be said of it
        return None
    at = names.index(card)
    below = names[at + 1] if at + 1 < len(names) else ""
    return Ranking(workload, steps[at], at + 1, len(steps), names[at - 1] if at else "", below)


def compare_with_references(report: BenchReport) -> tuple[ReferenceRatios, ...]:
    """Against each reference that has tests in common with it, but itself."""
    found = []
    for name, reference in references().items():
        if reference == report:
            continue
        try:
            comparison = compare_reports([(name, reference), ("here", report)])
        except InputError:  # no test in common: nothing to say of this one
            continue
        found.append(ReferenceRatios(name, comparison.sides[0].machine, comparison.means))
    return tuple(found)
