"""Published throughputs of known models, and how several cards of one machine scale: `data/throughput.toml`.

A job that is one of these models needs no estimate: the time follows from the throughput that somebody measured on a card.
"""

from __future__ import annotations

from typing import NamedTuple

from ownlab.catalog.throughput_table import Benchmark, MeasuredSet, Workload, load_throughput

__all__ = ["COUNTS", "Scaling", "find_benchmark", "published_throughputs", "scaling_of"]

# Other sizes of a known model (images, sequences) are scaled by their arithmetic within this factor.
_MOST_SCALED = 2.5
# The numbers of cards in one machine for which results were published.
COUNTS = (1, 2, 4, 8)
_TASKS: dict[Workload, tuple[str, ...]] = {
    "vision": ("resnet50", "ssd"),
    "transformer": ("bert_large_squad",),
    "recurrent": ("gnmt",),
    "decoding": (),
}


def find_benchmark(parameters: int, flops_per_sample: float) -> str | None:
    """Return the benchmark whose model has these parameters and about this much work per sample."""
    for key, known in load_throughput().benchmarks.items():
        scale = flops_per_sample / known.flops_per_sample
        if 1 / _MOST_SCALED <= scale <= _MOST_SCALED and _same_model(known, parameters):
            return key
    return None


def _same_model(known: Benchmark, parameters: int) -> bool:
    rest = parameters - known.parameters
    if known.parameters_per_class:
        return rest > 0 and rest % known.parameters_per_class == 0
    return abs(rest) <= known.tolerance * known.parameters


def published_throughputs(benchmark: str, precision: str) -> tuple[dict[str, float], MeasuredSet] | None:
    """Return samples per second by card, from the newest set of measurements in this precision; None: there is none.

    fp32 of the published runs is TF32 on Ampere and newer cards. torch computes convolutions so by itself, products not.
    """
    table = load_throughput()
    sets = table.sets
    if precision in ("fp32", "tf32"):
        if precision == "fp32" and table.benchmarks[benchmark].workload != "vision":
            return None
        sets = table.fp32_sets
    rates: dict[str, float] = {}
    first: MeasuredSet | None = None
    for measured in sets:  # the newest first
        if benchmark not in measured.columns:
            continue
        first = first or measured
        column = measured.columns.index(benchmark)
        for card, row in measured.rows.items():
            rates.setdefault(card, row[column])
    return None if first is None else (rates, first)


class Scaling(NamedTuple):
    """How much faster several cards are than one: a range, whose ends are equal where it was published for this card."""

    low: float
    high: float
    published: bool


def scaling_of(card: str, count: int, workload: Workload) -> Scaling | None:
    """Return the speed-up by `count` cards of one machine, training data-parallel.

    Where none was published for this card: from the lowest that was published for any to the ideal one; None where there is
    none for this number of cards.
    """
    if count == 1:
        return Scaling(1.0, 1.0, published=True)
    own = _scaling(card, count, workload)
    if own is not None:
        return Scaling(own, own, published=True)
    cards = {name for table in load_throughput().scaling for name in table.rows}
    known = [factor for name in cards if (factor := _scaling(name, count, workload)) is not None]
    return Scaling(min(known), float(count), published=False) if known else None


def _scaling(card: str, count: int, workload: Workload) -> float | None:
    """Return the geometric mean of the speed-ups in the tasks of this workload."""
    for table in load_throughput().scaling:
        rows = table.rows.get(card, {})
        one, many = rows.get("1"), rows.get(str(count))
        tasks = [table.columns.index(task) for task in _TASKS[workload] if task in table.columns]
        if one is None or many is None or not tasks:
            continue
        product = 1.0
        for index in tasks:
            product *= many[index] / one[index]
        return float(product ** (1 / len(tasks)))
    return None
