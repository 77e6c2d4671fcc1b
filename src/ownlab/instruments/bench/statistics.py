"""Medians with distribution-free confidence intervals, and the rank test for two sets of repetitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

__all__ = ["CONFIDENCE", "Interval", "median_interval", "median_of", "rank_test", "smallest_p_value"]

CONFIDENCE = 0.95
# Up to this number of pairs the rank test is exact; above, the normal approximation is good enough.
_EXACT_PAIRS = 900


class Interval(Struct, frozen=True):
    """A median, and the interval that contains the true median with this confidence."""

    median: float
    low: float
    high: float
    confidence: float


def median_of(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the two middle values."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median and its confidence interval by order statistics.

    Each value is as likely below the true median as above it, so the k-th smallest and the k-th largest of n values
    enclose it with probability 1 − 2·P(Binomial(n, ½) < k). With fewer than six values even the extremes do not reach
    95 %: then they are the interval, and `confidence` is what they reach.
    """
    ordered = sorted(values)
    count = len(ordered)
    if count == 1:
        return Interval(ordered[0], ordered[0], ordered[0], 0.0)
    below = 0.5**count  # P(Binomial < 1)
    rank, confidence = 1, 1 - 2 * below
    for k in range(1, count // 2):
        below += math.comb(count, k) * 0.5**count
        if 1 - 2 * below < CONFIDENCE:
            break
        rank, confidence = k + 1, 1 - 2 * below
    return Interval(median_of(ordered), ordered[rank - 1], ordered[-rank], confidence)


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Whitney U test."""
    n, m = len(first), len(second)
    below = sum((a < b) + 0.5 * (a == b) for a in first for b in second)
    extreme = min(below, n * m - below)
    ties = len(set(first) | set(second)) < n + m
    if n * m <= _EXACT_PAIRS and not ties:
        counts = _rank_counts(n, m)
        return min(1.0, 2 * sum(counts[: int(extreme) + 1]) / math.comb(n + m, n))
    deviation = math.sqrt(_variance(first, second))
    if deviation == 0:
        return 1.0
    distance = max(0.0, n * m / 2 - extreme - 0.5) / deviation  # continuity correction
    return math.erfc(distance / math.sqrt(2))


def smallest_p_value(n: int, m: int) -> float:
    """Return the smallest possible p-value for this number of repetitions."""
    return min(1.0, 2 / math.comb(n + m, n))


@lru_cache(maxsize=64)
def _rank_counts(n: int, m: int) -> tuple[int, ...]:
    """Return how many orders of n and m values have U = 0, 1, 2 …: the coefficients of a Gaussian binomial."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for at in range(n * m, m + i - 1, -1):  # times 1 − q^(m+i)
            counts[at] -= counts[at - m - i]
        for at in range(i, n * m + 1):  # divided by 1 − q^i
            counts[at] += counts[at - i]
    return tuple(counts)


def _variance(first: Sequence[float], second: Sequence[float]) -> float:
    n, m = len(first), len(second)
    total = n + m
    values = [*first, *second]
    tied = sum(count**3 - count for count in map(values.count, set(values)))
    return n * m / 12 * (total + 1 - tied / (total * (total - 1)))
