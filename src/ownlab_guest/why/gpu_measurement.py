"""What is measured of a GPU in a process that trains on one: its clock in every step, and windows in which more is seen.

Everything begins after the first step on a CUDA device, and nothing of it on a CPU. An error ends this measurement; the script and
the measurement of the host go on.
"""

import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional

from ownlab_guest.why.gpu_clock import GpuClock
from ownlab_guest.why.gpu_facts import card_facts, compilations, memory_facts, model_facts, settings_facts
from ownlab_guest.why.gpu_windows import ProfilerWindow, SyncWindow
from ownlab_guest.why.recorder import BETWEEN, NESTED, Recorder

__all__ = ["GpuMeasurement"]

# The first steps choose kernels and fill caches; a short run has few others. All ranks have their windows at the same steps.
_SYNC_AT, _SYNC_STEPS = 4, 3
_PROFILE_AT = 12
# Steps in its window, by how long one takes: there are more operators in longer ones.
_WINDOWS = ((10_000_000, 3), (30_000_000, 2), (1 << 62, 1))


class GpuMeasurement:
    """The GPU of one process, as its training thread sees it."""

    def __init__(self, recorder: Recorder, folder: str, problems: List[str]) -> None:
        self.windows = True  # a trial of a change has none
        self.no_profiler = ""  # why there is no window of the profiler
        self.will_fork: Callable[[], bool] = lambda: False  # whether DataLoaders will start workers from this process
        self._recorder, self._folder, self._problems = recorder, folder, problems
        self._torch: Any = None
        self._failed = False
        self._parameters: List[Any] = []
        self._begin: Dict[str, Any] = {}
        self._end: Dict[str, Any] = {}
        self._clock: Optional[GpuClock] = None
        self._sync: Optional[SyncWindow] = None
        self._profiler: Optional[ProfilerWindow] = None
        self._window: Any = None  # the one that is open
        self._window_began = self._window_ends = 0
        self._profiled = 0  # steps in the profiler's window
        self._recovering = 0
        self._opening = self._forbidden = False
        self._began = (0, 0)
        self._excluded: List[int] = []

    def step_ended(self, device: str, parameters: Callable[[], List[Any]]) -> None:
        """A step of the optimizer has ended, on this kind of device."""
        if self._failed or device != "cuda":
            return
        try:
            self._step_ended(parameters)
        except Exception as exc:
            self._fail(exc)

    def finish(self) -> None:
        """The measurement is over, or the script ends: close what is open, and read what the GPU has reached."""
        if self._clock is None or self._failed or self._end:
            return
        try:
            self._close_window()
            self._recorder.clock = None
            if not self._torch.cuda.is_current_stream_capturing():
                self._clock.read()
            self._end = {"memory": memory_facts(self._torch.cuda), "settings": settings_facts(self._torch)}
        except Exception as exc:
            self._fail(exc)

    def document(self) -> Optional[Dict[str, Any]]:
        """What is written as evidence; None without a GPU. The evidence of the host is written in any case."""
        if not self._begin or self._clock is None:
            return None
        try:
            return self._document(self._clock)
        except Exception as exc:
            if not self._failed:
                self._fail(exc)
            return None

    def _document(self, clock: GpuClock) -> Dict[str, Any]:
        if self._recorder.clock_problem:
            self._problems.append("GPU: %s" % self._recorder.clock_problem)
            self._recorder.clock_problem = ""
        window, sync = self._profiler, self._sync
        return {
            **self._begin,
            "clock": list(self._began),
            "steps": clock.steps,
            "lost": clock.lost,
            "excluded": self._excluded,
            "memory": [self._begin["memory"], self._end.get("memory", self._begin["memory"])],
            "settings": self._end.get("settings", self._begin["settings"]),
            "compilation": self._compilations(),
            "sync_steps": _SYNC_STEPS if sync is not None else 0,
            "syncs": [
                {"where": place._asdict() if place else None, "count": count}
                for place, count in (sync.places.items() if sync is not None else ())
            ],
            "no_profiler": self.no_profiler,
            "trace": window.trace if window is not None else "",
            "window_steps": self._profiled,
            "window_ns": window.spent_ns if window is not None else [],
        }

    def _compilations(self) -> Dict[str, Any]:
        try:
            return compilations(self._began[0] / 1e9)
        except Exception as exc:  # torch._dynamo is no public interface
            problem = "torch.compile: %r" % exc
            if problem not in self._problems:
                self._problems.append(problem)
            return {"used": False, "compiled": [], "breaks": {}}

    # --- steps --------------------------------------------------------------------------------------------------------

    def _step_ended(self, parameters: Callable[[], List[Any]]) -> None:
        recorder, clock = self._recorder, self._clock
        count, now = len(recorder.steps), recorder.now
        if clock is None:
            self._start(parameters())
            clock = self._clock
            assert clock is not None
        else:
            clock.end_step(count - 1, BETWEEN, now, recorder.steps[-1][1])
        if not recorder.active:
            self.finish()
            return
        before = self._window
        if self.windows and not self._torch.cuda.is_current_stream_capturing():
            self._open_and_close(count)
        if before is not None and self._window is None:
            self._recovering = before.steps_after
        if self._window is not None or self._recovering:
            self._recovering = max(0, self._recovering - 1) if self._window is None else 0
            self._excluded.append(count)  # the step that begins now
        else:
            clock.begin_step(BETWEEN, recorder.now)

    def _start(self, parameters: List[Any]) -> None:
        torch = self._torch = sys.modules["torch"]
        if not torch.cuda.is_initialized() or not parameters:
            raise RuntimeError("CUDA is not initialised")
        self._clock = self._recorder.clock = GpuClock(torch.cuda, NESTED)
        self._began = (time.time_ns(), time.perf_counter_ns())
        self._begin = {
            "card": card_facts(torch.cuda),
            "memory": memory_facts(torch.cuda),
            "settings": settings_facts(torch),
            "model": model_facts(torch, parameters),
        }
        self._recorder.restart_step()

    def _open_and_close(self, count: int) -> None:
        if self._window is not None:
            if count >= self._window_ends:
                self._close_window()
                self._recorder.restart_step()
            return
        if self._forbidden or self._recovering > 1:
            return
        most = self._recorder.most_steps
        if self._sync is None and count >= min(_SYNC_AT, most // 4):
            self._sync = SyncWindow(self._torch.cuda)
            self._open(self._sync, count + _SYNC_STEPS)
        elif self._profiler is None and self._sync is not None and count >= min(_PROFILE_AT, most // 2):
            if self.will_fork():
                self.no_profiler = "workers"
                return
            self.no_profiler = ""
            path = os.path.join(self._folder, "trace-%d.json" % os.getpid())
            self._profiler = ProfilerWindow(self._torch, path)
            each = (self._recorder.now - self._began[1]) // max(1, count)
            self._open(self._profiler, count + next(steps for most_ns, steps in _WINDOWS if each < most_ns))

    def keep_forever(self) -> None:
        """In a forked process: CUDA's events must not be destroyed there, which would abort it; so nothing of this is ever freed."""
        if self._clock is not None:
            import ctypes

            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def profiler_made(self) -> bool:
        """Somebody makes a profiler: if it is the script, ours ends, since there can be only one. Return whether it is."""
        if self._opening:
            return False
        if self._forbidden:
            return True
        self._forbidden = True
        if self._window is not None:
            try:
                self._close_window()
            except Exception as exc:
                self._fail(exc)
        return True

    def _open(self, window: Any, ends: int) -> None:
        self._opening = True
        try:
            opened = window.begin()
        finally:
            self._opening = False
        if opened:
            self._window, self._window_began, self._window_ends = window, len(self._recorder.steps), ends
            self._recorder.restart_step()

    def _close_window(self) -> None:
        window, self._window = self._window, None
        if window is not None:
            if window is self._profiler:
                self._profiled = len(self._recorder.steps) - self._window_began
            window.end()

    def _fail(self, exc: Exception) -> None:
        self._failed = True
        self._recorder.clock = None
        self._problems.append("GPU: %r" % exc)
        try:
            self._close_window()
        except Exception as again:
            self._problems.append("GPU: %r" % again)
