"""Medians with intervals that assume nothing of the spread, and whether two sets of repetitions differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

__all__ = ["CONFIDENCE", "Middle", "least_chance", "median_of", "middle", "rank_test"]

CONFIDENCE = 0.95
# Up to so many pairs the chances of the rank test are counted one by one; above that the normal curve is as good.
_COUNTED = 900


class Middle(Struct, frozen=True):
    """A median, and two of the values between which the true one lies with this confidence."""

    median: float
    low: float
    high: float
    confidence: float


def median_of(values: Sequence[float]) -> float:
    """The middle value, or the mean of the middle two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def middle(values: Sequence[float]) -> Middle:
    """The median and its interval by order statistics: each value is as likely below the true median as above it.

    The k-th smallest and the k-th greatest of n hold it between them with 1 − 2·P(Binomial(n, ½) < k). With fewer than
    six values even the extremes do not reach 95 %: then they are the interval, and the confidence says what they reach.
    """
    ordered = sorted(values)
    count = len(ordered)
    if count == 1:
        return Middle(ordered[0], ordered[0], ordered[0], 0.0)
    below = 0.5**count  # P(Binomial < 1)
    place, confidence = 1, 1 - 2 * below
    for k in range(1, count // 2):
        below += math.comb(count, k) * 0.5**count
        if 1 - 2 * below < CONFIDENCE:
            break
        place, confidence = k + 1, 1 - 2 * below
    return Middle(median_of(ordered), ordered[place - 1], ordered[-place], confidence)


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """How likely ranks so different are where both come from the same: Mann and Whitney's test, two-sided."""
    n, m = len(first), len(second)
    below = sum((a < b) + 0.5 * (a == b) for a in first for b in second)
    extreme = min(below, n * m - below)
    ties = len(set(first) | set(second)) < n + m
    if n * m <= _COUNTED and not ties:
        ways = _ways(n, m)
        return min(1.0, 2 * sum(ways[: int(extreme) + 1]) / math.comb(n + m, n))
    spread = math.sqrt(_variance(first, second))
    if spread == 0:
        return 1.0
    distance = max(0.0, n * m / 2 - extreme - 0.5) / spread  # half a step back: ranks are whole numbers
    return math.erfc(distance / math.sqrt(2))


def least_chance(n: int, m: int) -> float:
    """The least that `rank_test` can say of so many repetitions: with few of them, nothing is ever unlikely."""
    return min(1.0, 2 / math.comb(n + m, n))


@lru_cache(maxsize=64)
def _ways(n: int, m: int) -> tuple[int, ...]:
    """How many of the orders of n and m values have 0, 1, 2 … pairs the wrong way round: a Gaussian binomial."""
    ways = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        for at in range(n * m, m + i - 1, -1):  # times 1 − q^(m+i)
            ways[at] -= ways[at - m - i]
        for at in range(i, n * m + 1):  # divided by 1 − q^i
            ways[at] += ways[at - i]
    return tuple(ways)


def _variance(first: Sequence[float], second: Sequence[float]) -> float:
    n, m = len(first), len(second)
    total = n + m
    values = [*first, *second]
    tied = sum(count**3 - count for count in map(values.count, set(values)))
    return n * m / 12 * (total + 1 - tied / (total * (total - 1)))
