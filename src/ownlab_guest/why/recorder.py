"""Attributes the time of the training thread to phases, and divides it into steps.

At each moment the thread is in exactly one phase. Hooks enter and leave phases, which nest: saving within validation counts as
saving. Outside of any hook the thread is in a base phase: forward (after a batch has arrived), update (after backward) or between
(after the optimizer). A step ends when the optimizer has stepped.
"""

import functools
import sys
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Tuple

from ownlab_guest.why.gpu_clock import GpuClock
from ownlab_guest.why.user_frames import Place, user_place

__all__ = ["PHASES", "Recorder"]

PHASES = (
    "forward",
    "update",
    "between",
    "validation",
    "data",
    "workers",
    "backward",
    "optimizer",
    "save",
    "log",
    "sync",
    "copy",
    "gc",
    "cache",
    "graph",
)
FORWARD, UPDATE, BETWEEN, VALIDATION, DATA, WORKERS, BACKWARD, OPTIMIZER = range(8)
# During validation these count as validation; saving and garbage collection are reported wherever they happen.
_PART_OF_VALIDATION = frozenset(PHASES.index(name) for name in ("data", "workers", "log", "sync", "copy"))
# Phases within others that may come hundreds of times in a step.
NESTED = frozenset(PHASES.index(name) for name in ("log", "sync", "copy", "gc"))
# What is done to log or save something is part of that: printing a tensor waits for it, and a checkpoint is copied to the host.
_WHOLE = frozenset(PHASES.index(name) for name in ("log", "save"))
_PARTS = frozenset(PHASES.index(name) for name in ("log", "sync", "copy"))
# Spans that are kept for the picture of a typical step: the last ones, as (begin, end, phase).
_SPANS_KEPT = 4000

Call = Tuple[int, str, Optional[Place], str]


class Recorder:
    """The time of one training thread. Its methods are called by hooks, some of them thousands of times a second."""

    def __init__(self, most_steps: int) -> None:
        self.active = True
        self.thread = threading.main_thread().ident
        self.validating = False
        self.current = BETWEEN
        self.most_steps = most_steps
        self.began = self._last = time.perf_counter_ns()
        self.steps: List[List[int]] = []  # begin, duration, CPU of the process, backwards, batches, then each phase
        self.calls: Dict[Call, List[int]] = {}  # -> count, nanoseconds, the step of the first and of the last call
        self.spans: List[Tuple[int, int, int]] = []
        self.on_step: Callable[[], None] = lambda: None
        self.clock: Optional[GpuClock] = None
        self.clock_problem = ""
        self._stack: List[int] = []
        self._sums = [0] * len(PHASES)
        self._step_began = self.began
        self._cpu = time.process_time_ns()
        self._backwards = self._batches = 0
        self._boundary: Optional[int] = None
        self._graph: Optional[int] = None
        self._validation_before = 0
        self._validation_has_data = False

    def is_here(self) -> bool:
        """Whether the caller is the training thread, and is still measured."""
        return self.active and threading.get_ident() == self.thread

    def is_part(self, phase: int) -> bool:
        """Whether a phase that begins now is no other than the current one."""
        return self.current == phase or (self.current in _WHOLE and phase in _PARTS)

    def enter(self, phase: int) -> None:
        """Begin a phase within the current one."""
        self._account()
        self._stack.append(self.current)
        self.current = VALIDATION if self.validating and phase in _PART_OF_VALIDATION else phase
        if self.clock is not None:
            self._mark()

    def leave(self) -> None:
        """Return to the phase around the current one."""
        self._account()
        if self._stack:
            self.current = self._stack.pop()
        if self.clock is not None:
            self._mark()

    def set_base(self, phase: int) -> None:
        """Say what the thread does outside of any hook from now on."""
        self._account()
        if self._stack:
            self._stack[0] = phase
        else:
            self.current = phase
            if self.clock is not None:
                self._mark()

    def _mark(self) -> None:
        """Let the GPU's clock note that the phase has changed."""
        try:
            assert self.clock is not None
            self.clock.mark(self.current, self._last)
        except Exception as exc:  # a CUDA error: the script will meet it itself
            self.clock, self.clock_problem = None, repr(exc)

    @property
    def now(self) -> int:
        """When the phase last changed."""
        return self._last

    def restart_step(self) -> None:
        """Something of ours has taken time between two steps: it belongs to neither."""
        self._last = self._step_began = time.perf_counter_ns()
        self._cpu = time.process_time_ns()

    def _account(self) -> None:
        now = time.perf_counter_ns()
        self._sums[self.current] += now - self._last
        if now - self._last > 20_000:
            self.spans.append((self._last, now, self.current))
        self._last = now

    # --- the parts of a step ------------------------------------------------------------------------------------------

    def batch_arrived(self) -> None:
        """A DataLoader has returned a batch."""
        self._batches += 1
        if not self.validating:
            self.set_base(FORWARD)
        else:
            self._validation_has_data = True

    def begin_validation(self) -> None:
        """The model was set to evaluation, or a batch is fetched without gradients."""
        if not self.validating:
            self.set_base(VALIDATION)
            self.validating = True
            self._validation_before = self._sums[VALIDATION]
            self._validation_has_data = False

    def end_validation(self, *, by_backward: bool = False) -> None:
        """Training goes on. A backward without data before it: only a part of the model (batch norms) was set to evaluation."""
        if not self.validating:
            return
        self.set_base(FORWARD if by_backward else BETWEEN)
        self.validating = False
        if by_backward and not self._validation_has_data:
            taken = self._sums[VALIDATION] - self._validation_before
            self._sums[VALIDATION] -= taken
            self._sums[FORWARD] += taken

    def begin_backward(self) -> None:
        """`backward()` was called."""
        self.end_validation(by_backward=True)
        self._backwards += 1
        self.enter(BACKWARD)

    def end_backward(self) -> None:
        """`backward()` has returned."""
        self.leave()
        self.set_base(UPDATE)

    def end_optimizer(self, optimizer: int) -> None:
        """An optimizer has stepped; the first one that ever did (of several, in a GAN) ends the step."""
        self.leave()
        self.set_base(BETWEEN)
        if self._boundary is None:
            self._boundary = optimizer
        if optimizer == self._boundary:
            self._end_step()

    def end_graph(self, graph: int) -> None:
        """A CUDA graph with a step of the optimizer in it was replayed: it ends the step from now on."""
        if self._graph is None:
            self._graph = self._boundary = graph
        self.end_optimizer(graph)

    def _end_step(self) -> None:
        self._stack.clear()  # a hook that an exception has skipped must not shift all that follows
        self.current = BETWEEN
        cpu = time.process_time_ns()
        duration = self._last - self._step_began
        self.steps.append([self._step_began, duration, cpu - self._cpu, self._backwards, self._batches, *self._sums])
        self._step_began, self._cpu = self._last, cpu
        self._sums = [0] * len(PHASES)
        self._validation_before = 0
        self._backwards = self._batches = 0
        if len(self.spans) > 2 * _SPANS_KEPT:
            del self.spans[:-_SPANS_KEPT]
        if len(self.steps) >= self.most_steps:
            self.active = False
        self.on_step()

    def unfinished(self) -> List[int]:
        """The phases since the last step: what a script that hangs, or has no steps, does."""
        sums = list(self._sums)
        sums[self.current] += time.perf_counter_ns() - self._last
        return sums

    # --- calls --------------------------------------------------------------------------------------------------------

    def timed(self, phase: int, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its time counts as `phase`, by the line of the user's code that calls it."""

        @functools.wraps(function)
        def measured(*arguments: Any, **options: Any) -> Any:
            if not self.is_here() or self.is_part(phase):
                return function(*arguments, **options)
            self.enter(phase)
            begin = time.perf_counter_ns()
            try:
                return function(*arguments, **options)
            finally:
                self.leave()
                self.note(phase, what, sys._getframe(1), time.perf_counter_ns() - begin)

        return measured

    def note(self, phase: int, what: str, frame: Optional[FrameType], nanoseconds: int, detail: str = "") -> None:
        """Count a call by the user's line that made it."""
        key = (phase, what, user_place(frame), detail)
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = [0, 0, len(self.steps), 0]
        call[0] += 1
        call[1] += nanoseconds
        call[3] = len(self.steps)
