"""How one's own machine compares: where its card stands on the ladder, and beside the reference results."""

from __future__ import annotations

from msgspec import Struct

from ownlab.catalog.ladder import WORKLOADS, Speed, Workload, ladder
from ownlab.errors import InputError
from ownlab.instruments.bench.compare import Mean, compare_reports
from ownlab.instruments.bench.files import references
from ownlab.instruments.bench.records import BenchReport, device_kind

__all__ = ["Beside", "Place", "beside_references", "places_of"]


class Place(Struct, frozen=True):
    """Where a card stands for one kind of work."""

    workload: str
    speed: Speed
    rank: int  # 1: the fastest
    of: int
    next_above: str  # the card just above it; "" for the fastest
    next_below: str


class Beside(Struct, frozen=True):
    """One's own report against one that came with ownlab: how many times as fast, by group."""

    name: str
    machine: str
    means: tuple[Mean, ...]


def places_of(report: BenchReport) -> tuple[Place, ...]:
    """For each kind of work; none where the card that was measured is not in the catalogue."""
    limits = [measure.limit for measure in report.results if device_kind(measure.device) == "cuda" and measure.limit]
    name = next((limit.card for limit in limits if limit.card), None)
    if name is None:
        return ()
    found = (_place(name, workload) for workload in WORKLOADS)
    return tuple(place for place in found if place is not None)


def _place(card: str, workload: Workload) -> Place | None:
    steps = ladder(workload)
    names = [step.card for step in steps]
    if card not in names:  # nothing can be said of it
        return None
    at = names.index(card)
    below = names[at + 1] if at + 1 < len(names) else ""
    return Place(workload, steps[at], at + 1, len(steps), names[at - 1] if at else "", below)


def beside_references(report: BenchReport) -> tuple[Beside, ...]:
    """Against each reference that has tests in common with it, but itself."""
    found = []
    for name, reference in references().items():
        if reference == report:
            continue
        try:
            comparison = compare_reports([(name, reference), ("here", report)])
        except InputError:  # no test in common: nothing to say of this one
            continue
        found.append(Beside(name, comparison.sides[0].machine, comparison.means))
    return tuple(found)
