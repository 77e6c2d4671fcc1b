"""How long something takes: warm-up, batches of repetitions, until the spread is known or the time is up.

A batch is long beside the clock's own error and the gap before its first launch. All of it is timed, and the time divided
by the repetitions: what a clock is read for costs nothing then.
"""

import math
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

# A batch takes about so long; the queue of launches (1,024 on CUDA) never fills, since no launch is shorter than 2 µs
# and a batch has at most MOST_REPETITIONS.
BATCH_SECONDS = 0.02
MOST_REPETITIONS = 1000
# Clocks of a card rise within some tenths of a second of work, and fall again where power or heat ask for it.
WARM_SECONDS = 0.3
LEAST_BATCHES, MOST_BATCHES = 5, 400
# For so many times its time LEAST_BATCHES are waited for.
PATIENCE = 3
# The spread is known: so many batches, and the median's interval reaches no further than this to either side.
KNOWN_BATCHES, KNOWN_SHARE = 21, 0.002
# 0.975 quantile of the normal distribution, halved: the ranks of a median's 95 % interval lie n/2 ± 0.98 √n.
RANKS = 0.98

MOST_SLICES, LEAST_IN_SLICE = 20, 5

Step = Callable[[int], Any]  # does the work once; the number says which buffers it takes


class Outcome(NamedTuple):
    """What a test measured."""

    seconds: List[float]  # of one repetition, for each batch
    work: float = 1.0  # in one repetition
    percentiles: Optional[Dict[str, float]] = None
    flops: Optional[float] = None
    before: Optional[Dict[str, Any]] = None
    after: Optional[Dict[str, Any]] = None
    note: str = ""
    shape: Optional[Dict[str, int]] = None  # where it was not known before


class Skipped(Exception):
    """A test that cannot be made here, with a reason that a program can read."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class HostClock:
    """The host's own clock, and a function that waits until everything that was launched is done."""

    def __init__(self, wait: Callable[[], Any] = lambda: None) -> None:
        self.wait = wait

    def batch(self, step: Step, first: int, count: int) -> float:
        """Seconds that one of `count` repetitions took."""
        self.wait()
        began = time.perf_counter()
        for number in range(first, first + count):
            step(number)
        self.wait()
        return (time.perf_counter() - began) / count


class EventClock:
    """The card's own clock: events in the same queue as the work. The host's delays are not in it, if the queue is fed."""

    def __init__(self, torch: Any) -> None:
        self.wait = torch.cuda.synchronize
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def batch(self, step: Step, first: int, count: int) -> float:
        """Seconds that one of `count` repetitions took."""
        self._begin.record()
        for number in range(first, first + count):
            step(number)
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) / 1000 / count


def measure(
    clock: Any, step: Step, seconds: float, look: Callable[[], Any] = lambda: None
) -> Tuple[List[float], Any, Any]:
    """Seconds of one repetition for each batch, and what `look` saw before the first and after the last of them."""
    clock.batch(step, 0, 1)  # the first one loads, chooses, allocates: seconds, in which no clock rises
    began = time.perf_counter()
    estimate = clock.batch(step, 1, 1)
    done = 2
    while time.perf_counter() - began < min(WARM_SECONDS, seconds / 4):
        count = _repetitions(estimate)
        estimate = clock.batch(step, done, count)
        done += count
    before = look()
    count = _repetitions(estimate)
    taken: List[float] = []
    while not _enough(taken, began + seconds - time.perf_counter(), seconds, estimate * count):
        taken.append(clock.batch(step, done, count))
        done += count
    return taken, before, look()


def latencies(
    clock: Any, step: Step, seconds: float, look: Callable[[], Any] = lambda: None, most: int = 10000
) -> Tuple[List[float], Any, Any]:
    """As `measure`, but each repetition by itself: it is waited for before the next one begins."""
    clock.batch(step, 0, 1)
    began = time.perf_counter()
    warm = 1
    while warm < 3 or time.perf_counter() - began < min(WARM_SECONDS, seconds / 4):
        clock.batch(step, warm, 1)
        warm += 1
        if time.perf_counter() - began > seconds:  # so slow that there is no more to be warmed up
            break
    before, measuring = look(), time.perf_counter()
    taken: List[float] = []
    while len(taken) < most:
        spent = time.perf_counter() - measuring
        if taken and spent > seconds and (len(taken) >= LEAST_BATCHES or spent > 2 * seconds):
            break
        taken.append(clock.batch(step, warm + len(taken), 1))
    return taken, before, look()


def rarely(step: Step, seconds: float, most: int = 10) -> List[float]:
    """For what takes seconds by itself: no warm-up, each repetition by the host's clock, at least one."""
    clock = HostClock()
    taken: List[float] = []
    while not taken or (sum(taken) + taken[-1] < seconds and len(taken) < most):
        taken.append(clock.batch(step, 0, 1))
    return taken


def percentiles(values: Sequence[float]) -> Dict[str, float]:
    """Of single repetitions. A percentile that so few values cannot show is left out."""
    ordered = sorted(values)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {
        name: ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
        for name, share in shares.items()
        if len(ordered) * (1 - share) >= 1 or share == 0.5
    }


def thinned(values: List[float], most: int = MOST_BATCHES) -> List[float]:
    """At most so many: means of neighbours."""
    width = math.ceil(len(values) / most)
    return [sum(part) / len(part) for part in (values[at : at + width] for at in range(0, len(values), width))]


def sliced(moments: Sequence[float], begin: float) -> List[float]:
    """Of things that several did at once since `begin`, by when each was done: seconds that one of them took, slice by slice.

    A slice is a number of things, not a stretch of time: how many end in one is a whole number, and seems surer than it is.
    """
    ordered, count = [begin, *sorted(moments)], len(moments)
    slices = max(1, min(MOST_SLICES, count // LEAST_IN_SLICE))
    edges = [round(number * count / slices) for number in range(slices + 1)]
    return [(ordered[last] - ordered[first]) / (last - first) for first, last in zip(edges, edges[1:])]


def interval(values: Sequence[float]) -> Tuple[float, float]:
    """Between which two of the values the true median lies, in 95 of 100 cases (by ranks: no distribution is assumed)."""
    ordered, count = sorted(values), len(values)
    half = RANKS * math.sqrt(count)
    low, high = math.floor(count / 2 - half), math.ceil(count / 2 + half)
    return ordered[max(0, low - 1)], ordered[min(count - 1, high)]


def _repetitions(estimate: float) -> int:
    return max(1, min(MOST_REPETITIONS, round(BATCH_SECONDS / max(estimate, 1e-9))))


def _enough(taken: List[float], left: float, seconds: float, batch: float) -> bool:
    """Time is up, or nothing more is to be learnt. LEAST_BATCHES are taken beyond the time, unless that takes far too long."""
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
