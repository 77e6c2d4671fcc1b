"""Intervals and the rank test, against chances that can be counted by hand."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from ownlab.instruments.bench.statistics import least_chance, middle, rank_test


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    chance = random.Random(9)
    for count in (6, 11, 30):
        found = [middle([chance.lognormvariate(0, 1) for _ in range(count)]) for _ in range(2000)]
        held = sum(each.low <= 1.0 <= each.high for each in found) / len(found)
        assert found[0].confidence >= 0.95
        assert held == pytest.approx(found[0].confidence, abs=0.02)


def test_few_values_say_how_little_they_tell() -> None:
    assert middle([3.0, 1.0, 2.0]).confidence == 0.75
    assert (middle([3.0, 1.0, 2.0]).low, middle([3.0, 1.0, 2.0]).high) == (1.0, 3.0)
    assert middle([2.0]).confidence == 0.0


def test_ranks_against_all_orders() -> None:
    """The chance is the share of all ways to deal the values to two sides that are at least as extreme."""
    first, second = [1.0, 2.0, 4.0, 5.0], [3.0, 6.0, 7.0]
    values = first + second

    def pairs(some: tuple[float, ...]) -> int:
        return sum(a < b for a in some for b in values if b not in some)

    extreme = min(pairs(tuple(first)), 12 - pairs(tuple(first)))
    dealt = [pairs(some) for some in itertools.combinations(values, 4)]
    share = sum(count <= extreme or count >= 12 - extreme for count in dealt) / len(dealt)
    assert rank_test(first, second) == pytest.approx(share)


def test_many_values_and_ties() -> None:
    assert rank_test([1.0] * 8, [1.0] * 8) == 1.0
    assert rank_test(range(50), [value + 30 for value in range(50)]) < 1e-6
    assert rank_test([1.0, 1.0, 2.0, 2.0, 3.0], [2.0, 3.0, 3.0, 4.0, 4.0]) == pytest.approx(0.089, abs=0.05)


def test_with_few_values_nothing_is_ever_unlikely() -> None:
    assert least_chance(3, 3) == pytest.approx(0.1)
    assert least_chance(5, 5) == pytest.approx(2 / math.comb(10, 5))
    assert rank_test([1, 2, 3], [4, 5, 6]) == pytest.approx(least_chance(3, 3))
