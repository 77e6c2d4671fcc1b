"""Timing, with a clock whose batches take as long as the test says."""

from __future__ import annotations

import random
import statistics
import time

import pytest

from ownlab_guest.bench import timing


class ScriptedClock:
    """A clock that gives one value after the other, and then repeats the last one."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)
        self.counts: list[int] = []

    def batch(self, step: timing.Step, first: int, count: int) -> float:
        self.counts.append(count)
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


def nothing(number: int) -> None:
    """A step that does nothing."""


def test_measuring_stops_when_the_median_is_known() -> None:
    taken, _, _ = timing.measure(ScriptedClock(1.0, 0.5, 0.010), nothing, seconds=60)
    assert taken == [0.010] * timing.KNOWN_BATCHES


def test_a_wide_spread_takes_more_batches_up_to_a_limit() -> None:
    noise = random.Random(0)

    class Noisy(ScriptedClock):
        def batch(self, step: timing.Step, first: int, count: int) -> float:
            return 0.01 * noise.uniform(1, 2)

    taken, _, _ = timing.measure(Noisy(), nothing, seconds=60)
    assert len(taken) == timing.MOST_BATCHES


def test_a_batch_has_a_bounded_number_of_repetitions() -> None:
    for seconds, count in ((0.001, 20), (0.5, 1), (1e-9, timing.MOST_REPETITIONS)):
        clock = ScriptedClock(seconds)
        timing.measure(clock, nothing, seconds=0.01)
        assert clock.counts[-1] == count


def test_a_step_longer_than_its_time_is_measured_once() -> None:
    taken, _, _ = timing.measure(ScriptedClock(5.0), nothing, seconds=0.0)
    assert taken == [5.0]


def test_a_step_of_about_its_time_is_measured_more_than_once() -> None:
    taken, _, _ = timing.measure(ScriptedClock(1.5), nothing, seconds=1)
    assert len(taken) > 1


def test_a_slow_first_step_does_not_count() -> None:
    """cuDNN may search for its best kernels for seconds."""

    class Slow(ScriptedClock):
        def batch(self, step: timing.Step, first: int, count: int) -> float:
            if first == 0:
                time.sleep(1.1)
            return super().batch(step, first, count)

    taken, _, _ = timing.measure(Slow(9.0, 0.001), nothing, seconds=1)
    assert len(taken) > timing.LEAST_BATCHES


def test_the_first_batches_are_warm_up() -> None:
    taken, before, after = timing.measure(
        ScriptedClock(9.0, 8.0, 1.0), nothing, 0.05, read_state=iter(["before", "after"]).__next__
    )
    assert (before, after) == ("before", "after")
    assert set(taken) == {1.0}


def test_every_latency_is_kept() -> None:
    clock = timing.HostClock()
    taken, _, _ = timing.measure_latencies(clock, nothing, seconds=30, most=50)
    assert len(taken) == 50
    assert all(seconds > 0 for seconds in taken)


def test_the_interval_contains_the_true_median() -> None:
    generator = random.Random(1)
    held = 0
    for _ in range(400):
        low, high = timing.interval([generator.gauss(0, 1) for _ in range(25)])
        held += low <= 0 <= high
    assert held / 400 >= 0.94


@pytest.mark.parametrize(
    ("count", "names"), [(1, {"p50"}), (9, {"p50"}), (20, {"p50", "p90"}), (200, {"p50", "p90", "p99"})]
)
def test_percentiles_that_need_more_values_are_left_out(count: int, names: set[str]) -> None:
    values = [float(number) for number in range(1, count + 1)]
    percentiles = timing.percentiles(values)
    assert set(percentiles) == names
    assert percentiles["p50"] == pytest.approx(statistics.median(values), abs=0.5)


def test_reduced_values_keep_the_mean() -> None:
    values = [float(number) for number in range(1000)]
    few = timing.reduce_values(values, 100)
    assert len(few) == 100
    assert statistics.mean(few) == pytest.approx(statistics.mean(values))
    assert timing.reduce_values([1.0, 2.0], 100) == [1.0, 2.0]


def test_slices_contain_at_least_one_item() -> None:
    assert timing.slice_times([3.0, 1.0, 2.0], 0.0) == [1.0]
    assert timing.slice_times([(at + 1) / 100 for at in range(1000)], 0.0) == pytest.approx([0.01] * 20)
    uneven = timing.slice_times([0.1, 0.2, 0.3, 0.4, 0.5, 5.1, 5.2, 5.3, 5.4, 5.5], 0.0)
    assert uneven == pytest.approx([0.1, 1.0])
