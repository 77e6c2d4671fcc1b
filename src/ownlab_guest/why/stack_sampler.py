"""Looks at the stack of one thread every few milliseconds, for the time that no hook explains.

A thread instead of a signal: a handler would interrupt system calls of the script. Each sample weighs the time since the one
before, because the sampler gets no turn while an extension holds the interpreter's lock.
"""

import os
import random
import sys
import threading
import time
from types import FrameType
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ownlab_guest.why.user_frames import Place, is_user_file, library_of, place_of

__all__ = ["Seen", "StackSampler"]

# The interval after a number of samples: a share of the time is known well from a few hundred, and each costs 100 to 200 µs.
_INTERVALS = ((0, 0.015), (200, 0.03), (600, 0.1))
_DEEPEST = 150
_MOST_PLACES = 12
_MODULE_CALL = os.path.join("torch", "nn", "modules", "module.py")
# Distinct stacks that are kept; a program that generates code could have any number.
_MOST = 5000


class Seen(NamedTuple):
    """What was seen in one sample."""

    phase: str
    stack: Tuple[Place, ...]  # the lines of the user's code, the innermost first
    library: str  # the library that ran there; "" for the user's own code
    in_model: bool  # within a call of a torch module
    call: str  # the function of the library that the user's line called


class StackSampler(threading.Thread):
    """Samples a thread until `stop`, or until `phase()` returns None. `on_tick` is called every two seconds."""

    def __init__(
        self,
        thread: Optional[int],
        phase: Callable[[], Optional[str]],
        on_tick: Callable[[], None],
        seconds: float = 2.0,
    ) -> None:
        super().__init__(name="ownlab-why", daemon=True)
        self.samples: Dict[Seen, List[int]] = {}  # -> samples, nanoseconds
        self._thread, self._phase, self._on_tick, self._seconds = thread, phase, on_tick, seconds
        self._stopped = False
        self._count = 0
        self._random = random.Random()  # noqa: S311  # not the module's: the script may have seeded that one

    def stop(self) -> None:
        """End soon."""
        self._stopped = True

    def run(self) -> None:
        """Sample until stopped."""
        try:
            self._run()
        except Exception:  # a sampler that fails samples no more
            return

    def _run(self) -> None:
        last = ticked = time.perf_counter_ns()
        while not self._stopped:
            time.sleep(self._interval() * self._random.uniform(0.6, 1.4))  # never in step with a loop
            phase = self._phase()
            if phase is None:
                return
            now = time.perf_counter_ns()
            if phase:
                self._sample(phase, now - last)
            last = now
            if now - ticked > self._seconds * 1e9:
                ticked = now
                self._on_tick()

    def _interval(self) -> float:
        return next(seconds for count, seconds in reversed(_INTERVALS) if self._count >= count)

    def _sample(self, phase: str, nanoseconds: int) -> None:
        frame = sys._current_frames().get(self._thread or 0)
        if frame is None:
            return
        seen = _look(phase, frame)
        self._count += 1
        weight = self.samples.get(seen)
        if weight is None:
            if len(self.samples) >= _MOST:
                return
            weight = self.samples[seen] = [0, 0]
        weight[0] += 1
        weight[1] += nanoseconds


def _look(phase: str, frame: FrameType) -> Seen:
    stack: List[Place] = []
    in_model = False
    called = ""
    library = library_of(frame.f_code.co_filename)
    each: Optional[FrameType] = frame
    for _ in range(_DEEPEST):
        if each is None:
            break
        file = each.f_code.co_filename
        if is_user_file(file):
            if len(stack) < _MOST_PLACES:
                stack.append(place_of(each))
        elif not stack:
            called = each.f_code.co_name
            library = library_of(file) if library == "python" else library
        if not in_model and file.endswith(_MODULE_CALL):
            in_model = True
        each = each.f_back
    return Seen(phase, tuple(stack), library, in_model, called)
