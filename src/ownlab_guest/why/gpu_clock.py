"""When a GPU reaches the boundaries of the host's phases, on the GPU's own clock.

An event is recorded into the current stream wherever the host goes from one phase to the next. It gets its time when the GPU arrives
there, which may be much later; it is read when `query()` says so, at the end of a later step. Nothing ever waits for the GPU. Events
are used again. Where marking a step costs too much of it, only some of the steps are marked.
"""

import random
import time
from collections import deque
from typing import Any, Deque, FrozenSet, List, Optional, Tuple

__all__ = ["GpuClock"]

# Of the training thread's time, for marking and reading.
_BUDGET = 0.004
_MOST_SKIPPED = 20
# The first steps are marked all: a short run has no others.
_ALWAYS = 40
# After so many boundaries short phases within others are no longer told apart from them: waits of each of a thousand values.
_MANY_MARKS, _MOST_MARKS = 60, 400
_MOST_PENDING = 200
# Steps without marks after the one that was given up.
_AFTER_LOSS = 10

Mark = Tuple[Any, int, int]  # an event, the phase that begins there, the host's time


class GpuClock:
    """The marks of one training thread. `mark` is called by the recorder, thousands of times a second at most."""

    def __init__(self, cuda: Any, nested: FrozenSet[int]) -> None:
        """`nested`: phases that are short and many."""
        self._nested = nested
        self.steps: List[List[int]] = []  # index of the step, then phase, host's time and GPU's time of each mark
        self.lost = 0  # steps that were given up: captured by a CUDA graph, or too many phases
        self._event, self._capturing = cuda.Event, cuda.is_current_stream_capturing
        self._pool: List[Any] = []
        self._marks: Optional[List[Mark]] = None
        self._pending: Deque[Tuple[int, List[Mark]]] = deque()
        self._anchor: Optional[Any] = None  # the event from which the next step is counted
        self._anchor_ns = 0
        self._spent = 0
        self._skip = 0
        self._random = random.Random()  # noqa: S311  # not the module's: the script may have seeded that one

    def mark(self, phase: int, now: int) -> None:
        """The host begins a phase."""
        marks = self._marks
        if marks is None or marks[-1][1] == phase:
            return
        if len(marks) >= _MANY_MARKS and phase in self._nested:
            return
        if len(marks) >= _MOST_MARKS or self._capturing():
            self._give_up()
            return
        marks.append((self._record(), phase, now))
        self._spent += time.perf_counter_ns() - now

    def begin_step(self, phase: int, now: int) -> None:
        """A step begins. It is marked, or not."""
        self._marks = None
        if self._skip > 0:
            self._skip -= 1
            return
        if len(self._pending) >= _MOST_PENDING or self._capturing():
            return
        self._marks = [(self._record(), phase, now)]
        self._spent += time.perf_counter_ns() - now

    def end_step(self, index: int, phase: int, now: int, duration: int) -> None:
        """A step has ended: read what the GPU has reached, and decide how many of the next steps are left out."""
        marks, self._marks = self._marks, None
        if marks is not None and not self._capturing():
            marks.append((self._record(), phase, now))
            self._pending.append((index, marks))
        if not self._capturing():  # to query an event is forbidden then
            self.read(2)
        if marks is not None:
            self._rest(index, time.perf_counter_ns() - now, duration)

    def _rest(self, index: int, reading: int, duration: int) -> None:
        """Leave out so many steps that the cost stays within the budget."""
        if index >= _ALWAYS:
            spent = self._spent + reading
            # Never in step with what the script does every so many steps.
            skip = spent / (_BUDGET * max(1, duration)) * self._random.uniform(0.6, 1.4)
            self._skip = min(_MOST_SKIPPED, int(skip))
        self._spent = 0

    def discard(self) -> None:
        """The current step is none that counts."""
        if self._marks is not None:
            self._pool.extend(event for event, _, _ in self._marks)
            self._marks = None

    def read(self, most: int = _MOST_PENDING) -> None:
        """Read steps that the GPU has done."""
        while most > 0 and self._pending and self._pending[0][1][-1][0].query():
            index, marks = self._pending.popleft()
            self._add(index, marks)
            most -= 1

    def _add(self, index: int, marks: List[Mark]) -> None:
        first = marks[0][0]
        if self._anchor is not None:
            self._anchor_ns += round(self._anchor.elapsed_time(first) * 1e6)
            self._pool.append(self._anchor)
        self._anchor = first
        row = [index]
        for event, phase, host in marks:
            row += (
                phase,
                host,
                self._anchor_ns + (round(first.elapsed_time(event) * 1e6) if event is not first else 0),
            )
        self._pool.extend(event for event, _, _ in marks[1:])
        self.steps.append(row)

    def _record(self) -> Any:
        event = self._pool.pop() if self._pool else self._event(enable_timing=True)
        event.record()
        return event

    def _give_up(self) -> None:
        self._marks = None  # its events are recorded, maybe within a capture: none is used again
        self._skip = _AFTER_LOSS
        self.lost += 1
