"""Timing: warm-up, then batches of repetitions until the spread is known or the time is up.

A batch is long compared with the error of the clock and the gap before its first launch. The whole batch is timed and
divided by the repetitions, so that reading the clock costs nothing.
"""

import math
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

# Length of a batch. The queue of launches (1,024 on CUDA) never fills up, because a launch takes at least 2 µs and a
# batch has at most MOST_REPETITIONS.
BATCH_SECONDS = 0.02
MOST_REPETITIONS = 1000
# The clocks of a card rise within some tenths of a second of work, and fall again because of power or heat.
WARM_SECONDS = 0.3
LEAST_BATCHES, MOST_BATCHES = 5, 400
# LEAST_BATCHES may take this many times the time of the test.
PATIENCE = 3
# The spread is known after this many batches if the interval of the median reaches no further to either side.
KNOWN_BATCHES, KNOWN_SHARE = 21, 0.002
# 0.975 quantile of the normal distribution, halved: the ranks of a median's 95 % interval lie n/2 ± 0.98 √n.
RANKS = 0.98

MOST_SLICES, LEAST_IN_SLICE = 20, 5

Step = Callable[[int], Any]  # does the work once; the number selects the buffers


class Outcome(NamedTuple):
    """The result of a test."""

    seconds: List[float]  # of one repetition, by batch
    work: float = 1.0  # in one repetition
    percentiles: Optional[Dict[str, float]] = None
    flops: Optional[float] = None
    before: Optional[Dict[str, Any]] = None
    after: Optional[Dict[str, Any]] = None
    notes: Tuple[str, ...] = ()
    shape: Optional[Dict[str, int]] = None  # if it differs from the plan


class Skipped(Exception):
    """A test that cannot run here, with a reason code."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class HostClock:
    """The clock of the host, with a function that waits for all launched work."""

    def __init__(self, wait: Callable[[], Any] = lambda: None) -> None:
        self.wait = wait

    def batch(self, step: Step, first: int, count: int) -> float:
        """Return the seconds of one of `count` repetitions."""
        self.wait()
        began = time.perf_counter()
        for number in range(first, first + count):
            step(number)
        self.wait()
        return (time.perf_counter() - began) / count


class EventClock:
    """The clock of the card: events in the same queue as the work, without delays of the host while the queue is full."""

    def __init__(self, torch: Any) -> None:
        self.wait = torch.cuda.synchronize
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def batch(self, step: Step, first: int, count: int) -> float:
        """Return the seconds of one of `count` repetitions."""
        self._begin.record()
        for number in range(first, first + count):
            step(number)
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) / 1000 / count


def measure(
    clock: Any, step: Step, seconds: float, read_state: Callable[[], Any] = lambda: None
) -> Tuple[List[float], Any, Any]:
    """Return the seconds of one repetition by batch, and the state before the first and after the last batch."""
    clock.batch(step, 0, 1)  # the first one loads libraries, selects kernels and allocates, without raising the clock
    began = time.perf_counter()
    estimate = clock.batch(step, 1, 1)
    done = 2
    while time.perf_counter() - began < min(WARM_SECONDS, seconds / 4):
        count = _repetitions(estimate)
        estimate = clock.batch(step, done, count)
        done += count
    before = read_state()
    count = _repetitions(estimate)
    taken: List[float] = []
    while not _is_enough(taken, began + seconds - time.perf_counter(), seconds, estimate * count):
        taken.append(clock.batch(step, done, count))
        done += count
    return taken, before, read_state()


def measure_latencies(
    clock: Any, step: Step, seconds: float, read_state: Callable[[], Any] = lambda: None, most: int = 10000
) -> Tuple[List[float], Any, Any]:
    """Like `measure`, but wait for each repetition before the next one starts."""
    clock.batch(step, 0, 1)
    began = time.perf_counter()
    warm = 1
    while warm < 3 or time.perf_counter() - began < min(WARM_SECONDS, seconds / 4):
        clock.batch(step, warm, 1)
        warm += 1
        if time.perf_counter() - began > seconds:  # slow enough to be warm
            break
    before, measuring = read_state(), time.perf_counter()
    taken: List[float] = []
    while len(taken) < most:
        spent = time.perf_counter() - measuring
        if taken and spent > seconds and (len(taken) >= LEAST_BATCHES or spent > 2 * seconds):
            break
        taken.append(clock.batch(step, warm + len(taken), 1))
    return taken, before, read_state()


def time_slow(step: Step, seconds: float, most: int = 10) -> List[float]:
    """Time work that takes seconds: no warm-up, each repetition with the clock of the host, at least one."""
    clock = HostClock()
    taken: List[float] = []
    while not taken or (sum(taken) + taken[-1] < seconds and len(taken) < most):
        taken.append(clock.batch(step, 0, 1))
    return taken


def percentiles(values: Sequence[float]) -> Dict[str, float]:
    """Return percentiles of single repetitions, without those that need more values."""
    ordered = sorted(values)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {
        name: ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
        for name, share in shares.items()
        if len(ordered) * (1 - share) >= 1 or share == 0.5
    }


def reduce_values(values: List[float], most: int = MOST_BATCHES) -> List[float]:
    """Reduce to at most `most` values: means of neighbours."""
    width = math.ceil(len(values) / most)
    return [sum(part) / len(part) for part in (values[at : at + width] for at in range(0, len(values), width))]


def slice_times(moments: Sequence[float], begin: float) -> List[float]:
    """Return the seconds per item, slice by slice, of items that several workers finished at these times since `begin`.

    A slice is a number of items, not a time span: the whole number of items in a time span would look too certain.
    """
    ordered, count = [begin, *sorted(moments)], len(moments)
    slices = max(1, min(MOST_SLICES, count // LEAST_IN_SLICE))
    edges = [round(number * count / slices) for number in range(slices + 1)]
    return [(ordered[last] - ordered[first]) / (last - first) for first, last in zip(edges, edges[1:])]


def interval(values: Sequence[float]) -> Tuple[float, float]:
    """Return the 95 % confidence interval of the median (by ranks, without assuming a distribution)."""
    ordered, count = sorted(values), len(values)
    half = RANKS * math.sqrt(count)
    low, high = math.floor(count / 2 - half), math.ceil(count / 2 + half)
    return ordered[max(0, low - 1)], ordered[min(count - 1, high)]


def _repetitions(estimate: float) -> int:
    return max(1, min(MOST_REPETITIONS, round(BATCH_SECONDS / max(estimate, 1e-9))))


def _is_enough(taken: List[float], left: float, seconds: float, batch: float) -> bool:
    """Whether time is up or the spread is known. LEAST_BATCHES may exceed the time, but not by too much."""
    if not taken:
        return False
    if left < batch:
        return len(taken) >= LEAST_BATCHES or left - batch < (1 - PATIENCE) * seconds
    if len(taken) >= MOST_BATCHES:
        return True
    if len(taken) < KNOWN_BATCHES:
        return False
    low, high = interval(taken)
    middle = sorted(taken)[len(taken) // 2]
    return max(high - middle, middle - low) <= KNOWN_SHARE * middle
