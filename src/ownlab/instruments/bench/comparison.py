"""Comparison of reports: ratios to the first and whether a difference is more than noise; references; rank of the card."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ownlab.catalog.card_speeds import WORKLOADS, Speed, Workload, ranked_speeds
from ownlab.errors import InputError
from ownlab.instruments.bench.records import GROUPS, BenchReport, Measure, Unit, device_kind
from ownlab.instruments.bench.report_files import references
from ownlab.instruments.bench.statistics import rank_test, smallest_p_value
from ownlab.text import text

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

# Two runs on the same machine differ by this much. A smaller difference counts as none, however small the spread.
NOISE = 0.015
_P_VALUE = 0.01
METHOD = text(
    "Differs: the Mann-Whitney U test over the repetitions of both gives p < {p:g} %, and the medians are more than "
    "{noise:g} % apart. Likely: too few repetitions for that test, and the values of both do not overlap.",
    p=100 * _P_VALUE,
    noise=100 * NOISE,
)

Key = tuple[str, str, Unit]


class Side(Struct, frozen=True):
    """One of the compared reports."""

    label: str
    when: str
    machine: str
    complete: bool


class Cell(Struct, frozen=True):
    """One test on one side."""

    median: float
    low: float
    high: float
    ratio: float  # speed relative to the first side that has the test
    difference: Difference  # from the first
    chance: float | None = None  # p-value of the rank test
    above_limit: bool = False  # a measurement error: the ratio is meaningless


class Row(Struct, frozen=True):
    """A test that at least two sides have; None for a side without it."""

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
    only: tuple[tuple[str, ...], ...]  # for each side, the tests that no other side has
    method: str = ""


def compare_reports(named: Sequence[tuple[str, BenchReport]]) -> Comparison:
    """Compare labelled reports with the first of them."""
    tables = [{_key(measure): measure for measure in report.results} for _, report in named]
    keys = sorted(dict.fromkeys(key for table in tables for key in table), key=lambda key: _sort_key(key, tables))
    shared = [key for key in keys if sum(key in table for table in tables) > 1]
    if not shared:
        raise InputError(
            text("These results have no test in common."), hint=text("Measure with the same profile and groups.")
        )
    rows = tuple(_row(key, [table.get(key) for table in tables]) for key in shared)
    return Comparison(
        sides=tuple(Side(label, report.when, report.machine.description, report.complete) for label, report in named),
        rows=rows,
        means=tuple(_means(rows)),
        method=METHOD,
        only=tuple(tuple(key[0] for key in table if key not in shared) for table in tables),
    )


def _key(measure: Measure) -> Key:
    """Return what identifies a test. The number of a card and the path of a disk do not matter."""
    return (measure.name, device_kind(measure.device), measure.unit)


def _sort_key(key: Key, tables: list[dict[Key, Measure]]) -> tuple[int, int]:
    """Sort by group, then in the order of measurement."""
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
    if not _is_same_work(measure, first):
        return "other-size"
    if chance is None:
        return "unknown"
    if abs(math.log(ratio)) <= math.log1p(NOISE):
        return "same"
    if smallest_p_value(len(first.seconds), len(measure.seconds)) < _P_VALUE:
        return "differs" if chance < _P_VALUE else "same"
    apart = max(first.seconds) < min(measure.seconds) or max(measure.seconds) < min(first.seconds)
    return "likely" if apart else "same"


def _is_same_work(measure: Measure, first: Measure) -> bool:
    """Whether both did the same work. The number of workers depends on the machine; the file of a slow disk is smaller."""
    if measure.group == "loader":
        return True
    shape, first_shape = dict(measure.shape), dict(first.shape)
    if measure.group == "disk":
        sizes = (shape.pop("bytes", 0), first_shape.pop("bytes", 0))
        return shape == first_shape and max(sizes) <= 2 * min(sizes)
    return shape == first_shape


def _means(rows: Sequence[Row]) -> list[Mean]:
    means = []
    for group in dict.fromkeys(row.group for row in rows):
        complete = [
            [cell.ratio for cell in row.cells if cell is not None]
            for row in rows
            if row.group == group and all(cell is not None and not cell.above_limit for cell in row.cells)
        ]
        if complete:
            logs = [sum(map(math.log, column)) / len(complete) for column in zip(*complete, strict=True)]
            means.append(Mean(group, len(complete), tuple(math.exp(log) for log in logs)))
    return means


class Ranking(Struct, frozen=True):
    """The rank of a card for one kind of work."""

    workload: str
    speed: Speed
    rank: int  # 1: the fastest
    of: int
    next_above: str  # the next faster card; "" for the fastest
    next_below: str


class ReferenceRatios(Struct, frozen=True):
    """A report against a reference result: relative speed by group."""

    name: str
    machine: str
    means: tuple[Mean, ...]


def rank_card(report: BenchReport) -> tuple[Ranking, ...]:
    """Rank the measured card for each kind of work; empty if it is not in the catalogue."""
    limits = [measure.limit for measure in report.results if device_kind(measure.device) == "cuda" and measure.limit]
    name = next((limit.card for limit in limits if limit.card), None)
    if name is None:
        return ()
    ranks = (_rank(name, workload) for workload in WORKLOADS)
    return tuple(rank for rank in ranks if rank is not None)


def _rank(card: str, workload: Workload) -> Ranking | None:
    steps = ranked_speeds(workload)
    names = [step.card for step in steps]
    if card not in names:  # its speed is unknown
        return None
    at = names.index(card)
    below = names[at + 1] if at + 1 < len(names) else ""
    return Ranking(workload, steps[at], at + 1, len(steps), names[at - 1] if at else "", below)


def compare_with_references(report: BenchReport) -> tuple[ReferenceRatios, ...]:
    """Compare with each reference that has tests in common, except itself."""
    ratios = []
    for name, reference in references().items():
        if reference == report:
            continue
        try:
            comparison = compare_reports([(name, reference), ("here", report)])
        except InputError:  # no test in common
            continue
        ratios.append(ReferenceRatios(name, comparison.sides[0].machine, comparison.means))
    return tuple(ratios)
