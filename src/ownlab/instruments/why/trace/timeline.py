"""A mean step of a trace: what the host did in each moment of it, when the GPU worked, and what it is worth to remove something.

The steps are those of the host. A GPU works behind it, so in a single step its work is shifted; in the mean of several it is not.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from functools import cached_property
from itertools import pairwise

from ownlab.instruments.why.records import Lane, Segment, StepTimes
from ownlab.instruments.why.trace.intervals import Intervals, common, length, without
from ownlab.instruments.why.trace.trace_reader import HOST_PARTS, Trace
from ownlab.text import text

__all__ = ["FEWEST_EVENTS", "Timeline"]

FEWEST_EVENTS = 2
# The first step of a schedule has the profiler's own beginning in it.
_STEPS_TO_SKIP_FROM = 4
# The last one, where the profiler was stopped, may have nothing in it: it is shorter than this share of the longest.
_STUB = 0.1
# Steps whose parts are added up one by one; more only make the mean finer.
_MOST_STEPS = 5000
# The relative width of a band around a prediction.
_WIDTH = 0.05
_MOST_SEGMENTS = 400


class Timeline:
    """The trace as sets of times."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        host: Intervals = []
        self.parts: dict[str, Intervals] = {}
        for name in HOST_PARTS:
            times = trace.host[name].merged()
            self.parts[name] = without(times, host)
            host = _united(host, times)
        self._host = host
        device = max(trace.gpus, key=lambda name: length(trace.gpus[name].merged()), default=None)
        self.gpu: Intervals | None = None if device is None else trace.gpus[device].merged()
        self.steps, self.steps_by = self._find_steps()
        self.window: Intervals = [(self.steps[0][0], self.steps[-1][1])] if self.steps else []

    @cached_property
    def steps_in_trace(self) -> int:
        """All steps of the trace, for what is counted in the whole of it."""
        trace = self.trace
        return max(1, len(set(trace.steps)) or len(trace.optimizer_ends))

    def _find_steps(self) -> tuple[Intervals, str]:
        trace = self.trace
        steps = sorted(set(trace.steps))
        if steps:
            kept = steps[1:] if len(steps) >= _STEPS_TO_SKIP_FROM else steps
            longest = max(end - begin for begin, end in kept)
            if kept[-1][1] - kept[-1][0] < _STUB * longest:
                kept = kept[:-1]
            return kept[:_MOST_STEPS], "ProfilerStep"
        ends = sorted(trace.optimizer_ends)[:_MOST_STEPS]
        if len(ends) > FEWEST_EVENTS:
            return list(pairwise(ends)), "optimizer"
        everything = [*self._host, *(self.gpu or [])]
        if not everything:
            return [], "trace"
        return [(min(begin for begin, _ in everything), max(end for _, end in everything))], "trace"

    # --- the mean step --------------------------------------------------------------------------------------------------

    def per_step(self, times: Intervals) -> float:
        """Milliseconds of these times in a mean step."""
        return length(common(times, self.window)) / 1e6 / len(self.steps)

    @cached_property
    def step_ms(self) -> float:
        """The mean duration."""
        return length(self.window) / 1e6 / len(self.steps)

    @cached_property
    def parts_ms(self) -> dict[str, float]:
        """The step by what the host did."""
        parts = {name: self.per_step(times) for name, times in self.parts.items()}
        parts["python"] = max(0.0, self.step_ms - sum(parts.values()))
        return {name: ms for name, ms in parts.items() if ms > 0}

    @cached_property
    def gpu_busy_ms(self) -> float | None:
        """How long the GPU works in a step."""
        return None if self.gpu is None else self.per_step(self.gpu)

    @cached_property
    def idle(self) -> Intervals:
        """When the GPU did nothing."""
        return [] if self.gpu is None else without(self.window, self.gpu)

    @cached_property
    def idle_ms(self) -> dict[str, float]:
        """Idle time of the GPU per step, by what the host did meanwhile."""
        found = {name: self.per_step(common(self.idle, times)) for name, times in self.parts.items()}
        found["python"] = max(0.0, self.per_step(self.idle) - sum(found.values()))
        return {name: ms for name, ms in found.items() if ms > 0}

    @cached_property
    def idle_after_sync_ms(self) -> float:
        """Idle time from the end of a wait of the host until the GPU has work again: the host had sent none ahead."""
        begins = [begin for begin, _ in self.idle]
        found: Intervals = []
        for _, end in sorted(self.trace.syncs):
            at = bisect_left(begins, end + 1) - 1
            if at >= 0 and self.idle[at][0] <= end < self.idle[at][1] and (not found or found[-1][1] <= end):
                found.append((end, self.idle[at][1]))
        for other in ("data", "cache"):
            found = without(found, self.parts[other])
        return self.per_step(found)

    @cached_property
    def collectives_alone_ms(self) -> float:
        """Collectives during which the GPU computed nothing, per step."""
        return self.per_step(without(self.trace.collectives.merged(), self.trace.computing.merged()))

    def step_times(self) -> StepTimes:
        """The record of the mean step."""
        durations = [(end - begin) / 1e6 for begin, end in self.steps]
        quartiles = statistics.quantiles(durations, n=4) if len(durations) > 3 else [min(durations), 0, max(durations)]
        parts = self.parts_ms
        return StepTimes(
            count=len(self.steps),
            step_ms=self.step_ms,
            step_ms_quartiles=(quartiles[0], quartiles[2]),
            training_ms=sum(parts.get(name, 0.0) for name in ("forward", "backward", "optimizer")),
            parts_ms=dict(sorted(parts.items(), key=lambda item: -item[1])),
            gpu_ms=self.gpu_busy_ms,
        )

    def after(self, ms: float) -> tuple[float, float]:
        """The band of the step if this much of the host's time went away: the GPU needs its own time nevertheless."""
        rest = max(self.step_ms - ms, self.gpu_busy_ms or 0.0)
        return rest * (1 - _WIDTH), min(self.step_ms, rest * (1 + _WIDTH))

    # --- the picture ----------------------------------------------------------------------------------------------------

    def lanes(self) -> tuple[Lane, ...]:
        """The step whose duration is in the middle: the host, and the GPU."""
        begin, end = sorted(self.steps, key=lambda step: step[1] - step[0])[len(self.steps) // 2]
        step = [(begin, end)]
        host = [
            (*times, "other" if name == "python" else name)
            for name, intervals in {**self.parts, "python": without(step, self._host)}.items()
            for times in common(intervals, step)
        ]
        lanes = [Lane(text("host"), _segments(host, begin))]
        if self.gpu is not None:
            work = [(*times, "kernel") for times in common(self.gpu, step)]
            lanes.append(Lane(text("GPU"), _segments(work, begin)))
        return tuple(lanes)


def _united(first: Intervals, second: Intervals) -> Intervals:
    joined: Intervals = []
    for begin, end in sorted([*first, *second]):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _segments(spans: list[tuple[int, int, str]], begin: int) -> tuple[Segment, ...]:
    """Segments in milliseconds of the step. What is too short to be seen joins its neighbour."""
    spans.sort()
    shortest = (spans[-1][1] - spans[0][0]) / _MOST_SEGMENTS if spans else 0
    segments: list[Segment] = []
    for first, last, what in spans:
        low, high = round((first - begin) / 1e6, 4), round((last - begin) / 1e6, 4)
        near = bool(segments) and low - segments[-1].end_ms <= shortest / 1e6
        if near and (segments[-1].what == what or last - first < shortest):
            segments[-1] = Segment(segments[-1].begin_ms, high, segments[-1].what)
        else:
            segments.append(Segment(low, high, what))
    return tuple(segments)
