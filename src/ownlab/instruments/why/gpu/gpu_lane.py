"""The GPU in a mean step: how long it works in each part of the step, and how long it waits for the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from ownlab.instruments.why.gpu.records import GpuEvidence, KernelWindow

__all__ = ["WORKING", "GpuLane", "timed_steps"]

# Phases in which the host sends work, by the part of the profiler's window that they belong to.
WORKING = {
    "forward": "forward",
    "update": "forward",
    "between": "forward",
    "graph": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
}
_FEWEST = 3


def timed_steps(evidence: GpuEvidence, skip: int) -> dict[int, float]:
    """How long steps take on the GPU's own clock, in milliseconds, by their index: the host may run ahead of it, and wait later."""
    excluded = frozenset(evidence.excluded)
    times: dict[int, float] = {}
    marked = [row for row in evidence.steps if row[0] >= skip and row[0] not in excluded]
    for row, after in pairwise(marked):
        steps = range(row[0], after[0])
        if excluded.isdisjoint(steps):
            times |= dict.fromkeys(steps, (after[3] - row[3]) / 1e6 / len(steps))
    return times


class GpuLane:
    """The GPU of one process. Times are milliseconds of a mean step."""

    def __init__(
        self,
        evidence: GpuEvidence,
        phases: Sequence[str],
        host_ms: Mapping[str, float],
        step_ms: Callable[[], float],
        skip: int,
    ) -> None:
        self.evidence = evidence
        self.window: KernelWindow | None = evidence.window
        self._phases, self._host_ms, self._step_ms = phases, host_ms, step_ms
        self._marked = [row for row in evidence.steps if row[0] >= skip and row[0] not in evidence.excluded]

    @property
    def known(self) -> bool:
        """Whether enough was measured to say how long the GPU works."""
        return self.window is not None or len(self._marked) >= _FEWEST

    @cached_property
    def spans_ms(self) -> dict[str, float]:
        """How long the GPU is in each phase: it works, or waits for the host within the phase."""
        spans: dict[str, float] = {}
        host: dict[str, float] = {}
        for row in self._marked:
            for at in range(1, len(row) - 3, 3):
                name = self._phases[row[at]]
                spans[name] = spans.get(name, 0.0) + (row[at + 5] - row[at + 2]) / 1e6
                host[name] = host.get(name, 0.0) + (row[at + 4] - row[at + 1]) / 1e6
        count = max(1, len(self._marked))
        means = {name: ms / count for name, ms in spans.items()}
        for name in means:
            if name not in WORKING and name != "validation" and host[name] > 0:
                # Not every step was marked; the host's time is known of all.
                means[name] = min(spans[name] / host[name], 1.0) * self._host_ms.get(name, 0.0)
        return means

    @cached_property
    def parts_ms(self) -> dict[str, float]:
        """The time in which the GPU works, by forward, backward and optimizer: at most that, without the profiler's window."""
        spans = dict.fromkeys(("forward", "backward", "optimizer"), 0.0)
        for name, ms in self.spans_ms.items():
            if name in WORKING:
                spans[WORKING[name]] += ms
        if self.window is None:
            return spans
        seen = {part: us / 1e3 / self.window.steps for part, us in self.window.busy_by_phase.items()}
        if not self._marked:
            return seen
        # A kernel in the window may run longer than elsewhere (a shared card); the spans are of all other steps.
        whole = sum(spans.values())
        return {part: min(seen.get(part, 0.0), whole) for part in spans}

    @cached_property
    def busy_ms(self) -> float:
        """How long the GPU works in a step."""
        inner = sum(self.parts_ms.values())
        if self._marked:
            inner = min(inner, sum(ms for name, ms in self.spans_ms.items() if name in WORKING))
        validation = self.spans_ms.get("validation", 0.0) * self._busy_share
        return min(self._step_ms(), inner + validation)

    @cached_property
    def _busy_share(self) -> float:
        """The share of the training phases in which the GPU works: taken for validation, too, which no window has."""
        spans = sum(ms for name, ms in self.spans_ms.items() if name in WORKING)
        return min(1.0, sum(self.parts_ms.values()) / spans) if spans else 1.0

    @cached_property
    def idle_ms(self) -> float:
        """How long it does not work."""
        return max(0.0, self._step_ms() - self.busy_ms)

    @cached_property
    def idle_inside_ms(self) -> float | None:
        """Idle time between the kernels of forward, backward and optimizer, as sampled; None without the profiler's window."""
        if self.window is None or not self._marked:
            return None
        spans = sum(ms for name, ms in self.spans_ms.items() if name in WORKING)
        return max(0.0, spans - sum(self.parts_ms.values()))

    @cached_property
    def idle_outside_ms(self) -> dict[str, float]:
        """Idle time of the GPU by what the host did meanwhile: it waited for data, saved, logged …"""
        return {
            name: ms for name, ms in self.spans_ms.items() if name not in WORKING and name != "validation" and ms > 0
        }

    def idle_by(self, what: str) -> float:
        """The part of the idle time within the working phases in which the host launched, allocated, or ran Python."""
        inside = self.idle_inside_ms
        if inside is None or self.window is None:
            return 0.0
        whole = sum(self.window.idle_us.values())
        return inside * self.window.idle_us.get(what, 0.0) / whole if whole else 0.0

    def per_step(self, us: float) -> float:
        """Microseconds of the window as milliseconds of a step."""
        return us / 1e3 / max(1, self.window.steps if self.window is not None else 1)
