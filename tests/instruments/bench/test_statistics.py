"""Intervals and the rank test, against probabilities that can be counted."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from ownlab.instruments.bench.statistics import median_interval, rank_test, smallest_p_value


def test_the_interval_contains_the_true_median_with_its_confidence() -> None:
    generator = random.Random(9)
    for count in (6, 11, 30):
        intervals = [median_interval([generator.lognormvariate(0, 1) for _ in range(count)]) for _ in range(2000)]
        share = sum(interval.low <= 1.0 <= interval.high for interval in intervals) / len(intervals)
        assert intervals[0].confidence >= 0.95
        assert share == pytest.approx(intervals[0].confidence, abs=0.02)


def test_few_values_have_less_confidence() -> None:
    assert median_interval([3.0, 1.0, 2.0]).confidence == 0.75
    assert (median_interval([3.0, 1.0, 2.0]).low, median_interval([3.0, 1.0, 2.0]).high) == (1.0, 3.0)
    assert median_interval([2.0]).confidence == 0.0


def test_the_rank_test_equals_a_count_of_all_orders() -> None:
    """The p-value is the share of all divisions into two sides that are at least as extreme."""
    first, second = [1.0, 2.0, 4.0, 5.0], [3.0, 6.0, 7.0]
    values = first + second

    def pairs(side: tuple[float, ...]) -> int:
        return sum(a < b for a in side for b in values if b not in side)

    extreme = min(pairs(tuple(first)), 12 - pairs(tuple(first)))
    counts = [pairs(side) for side in itertools.combinations(values, 4)]
    share = sum(count <= extreme or count >= 12 - extreme for count in counts) / len(counts)
    assert rank_test(first, second) == pytest.approx(share)


def test_the_rank_test_with_many_values_and_ties() -> None:
    assert rank_test([1.0] * 8, [1.0] * 8) == 1.0
    assert rank_test(range(50), [value + 30 for value in range(50)]) < 1e-6
    assert rank_test([1.0, 1.0, 2.0, 2.0, 3.0], [2.0, 3.0, 3.0, 4.0, 4.0]) == pytest.approx(0.089, abs=0.05)


def test_few_values_have_a_large_smallest_p_value() -> None:
    assert smallest_p_value(3, 3) == pytest.approx(0.1)
    assert smallest_p_value(5, 5) == pytest.approx(2 / math.comb(10, 5))
    assert rank_test([1, 2, 3], [4, 5, 6]) == pytest.approx(smallest_p_value(3, 3))
