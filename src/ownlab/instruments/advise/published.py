"""The duration of a job whose model has a published throughput, such as ResNet-50: no estimate from arithmetic is needed."""

from __future__ import annotations

import math

from ownlab.catalog.card_speeds import load_throughput
from ownlab.catalog.published_work import find_benchmark, published_throughputs
from ownlab.instruments.advise.records import Basis, Range
from ownlab.instruments.fit.records import Fit
from ownlab.text import text

__all__ = ["basis_published", "benchmark_of"]

# How far a run may be off the published throughput, either way: an H200 reached 4076 images/s with ResNet-50 in torch 2.11
# (batch 128, amp, channels last; 2026-11-15), 1.32 × the published 3079. Together a factor of two.
_SPREAD = math.sqrt(2)
_SECONDS_PER_HOUR = 3600
_BASIS_CARD = "H200 SXM"  # from which the ladder goes on to cards without a published throughput


def benchmark_of(fit: Fit) -> str | None:
    """Return the published benchmark that this training step is; None: none of them."""
    samples = _samples(fit)
    if not fit.request.train or not samples or not fit.flops.backward or fit.request.weights or fit.request.lora:
        return None
    return find_benchmark(fit.parameters.total, fit.flops.total / samples)


def basis_published(fit: Fit, steps: int, benchmark: str) -> Basis | None:
    """Return the duration on every card whose throughput was published; None where none was in this precision."""
    samples = _samples(fit)
    known = load_throughput().benchmarks[benchmark]
    published = published_throughputs(benchmark, fit.request.precision)
    if published is None or not samples:
        return None
    rates, measured = published
    scale = fit.flops.total / samples / known.flops_per_sample
    total = samples * steps
    hours = {card: _around(total * scale / rate / _SECONDS_PER_HOUR) for card, rate in rates.items() if rate and scale}
    why = text(
        "{steps:,} steps are {samples:,} samples. {title} was measured with {rate:,.0f} {sample} per second on the {card} "
        "({set}), and with other rates on {count} more cards; the range is a factor of two.",
        steps=steps,
        samples=total,
        title=known.title,
        rate=rates[_BASIS_CARD],
        sample=known.sample,
        card=_BASIS_CARD,
        set=measured.name,
        count=len(rates) - 1,
    )
    return Basis("published", _BASIS_CARD, hours[_BASIS_CARD], why, steps, card_hours=hours)


def _samples(fit: Fit) -> int:
    """Return the samples of one step of the optimizer."""
    return (fit.batch or fit.request.batch or 0) * fit.request.accumulate


def _around(hours: float) -> Range:
    return Range(hours / _SPREAD, hours * _SPREAD)
