"""Windows of a few steps in which more is measured than every step could bear: torch's profiler, and CUDA's synchronising calls.

The steps in a window, and those right after it, are left out of all times.
"""

import contextlib
import functools
import os
import sys
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional

from ownlab_guest.why.user_frames import Place, user_place

__all__ = ["ProfilerWindow", "SyncWindow"]

_MESSAGE = "called a synchronizing CUDA operation"
_MOST_PLACES = 100


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Our own calls warn about nothing that the user could change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _remove_cupti_afterwards(torch: Any) -> None:
    """Let the profiler unload NVIDIA's tracing library at its end, which otherwise makes each later synchronisation slower.

    Measured on an H200: by some 0.1 ms. With CUDA graphs that library could not be unloaded before CUDA 12.6.
    """
    version = tuple(int(part) for part in str(torch.version.cuda or "0.0").split(".")[:2])
    if version >= (12, 6):
        os.environ.setdefault("TEARDOWN_CUPTI", "1")


class ProfilerWindow:
    """torch.profiler during some steps. Its trace is written as it is, and read by the command after the script."""

    steps_after = 2  # left out with it: the profiler's library is unloaded in one of the next calls of CUDA

    def __init__(self, torch: Any, path: str) -> None:
        self._torch, self._path = torch, path
        self._profiler: Any = None
        self.spent_ns: List[int] = []  # to prepare, start, stop and write
        self.trace = ""

    def begin(self) -> bool:
        """Start the profiler, unless there is one already."""
        if self._torch.autograd._profiler_enabled():
            return False
        kinds = self._torch.profiler.ProfilerActivity
        _remove_cupti_afterwards(self._torch)
        began = time.perf_counter_ns()
        supported = self._torch.profiler.supported_activities()
        wanted = [each for each in (kinds.CPU, kinds.CUDA) if each in supported]
        with _without_warnings():
            profiler = self._torch.profiler.profile(activities=wanted, record_shapes=True)
            profiler.prepare_trace()
            prepared = time.perf_counter_ns()
            profiler.start_trace()
        self._profiler = profiler
        self.spent_ns = [prepared - began, time.perf_counter_ns() - prepared]
        return True

    def end(self) -> None:
        """Stop it, and write the trace."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        began = time.perf_counter_ns()
        with _without_warnings():
            profiler.stop_trace()
            stopped = time.perf_counter_ns()
            profiler.profiler.export_chrome_trace(self._path)
        self.spent_ns += [stopped - began, time.perf_counter_ns() - stopped]
        self.trace = os.path.basename(self._path)


class SyncWindow:
    """Notes the line of each call that waits for the GPU, as torch.cuda.set_sync_debug_mode finds them. No warning is shown."""

    steps_after = 1  # left out with it: the GPU may still be at what was sent in the window

    def __init__(self, cuda: Any) -> None:
        self.places: Dict[Optional[Place], int] = {}
        self._cuda = cuda
        self._show: Optional[Callable[..., Any]] = None
        self._filter: Any = None

    def begin(self) -> bool:
        """Begin, unless the script itself uses the mode."""
        if self._cuda.get_sync_debug_mode() != 0:
            return False
        original = warnings.showwarning

        @functools.wraps(original)
        def note(message: Any, *arguments: Any, **options: Any) -> Any:
            if _MESSAGE in str(message):
                self._note(sys._getframe(1))
                return None
            return original(message, *arguments, **options)

        self._show, warnings.showwarning = original, note
        warnings.filterwarnings("always", message=_MESSAGE)
        self._filter = warnings.filters[0]
        with _without_warnings():  # that it is a prototype
            self._cuda.set_sync_debug_mode(1)
        return True

    def end(self) -> None:
        """Restore what was before."""
        if self._show is None:
            return
        with _without_warnings():
            self._cuda.set_sync_debug_mode(0)
        if getattr(warnings.showwarning, "__wrapped__", None) is self._show:
            warnings.showwarning = self._show  # type: ignore[assignment]  # whatever the script had put there
        filters: Any = warnings.filters
        if self._filter in filters:
            filters.remove(self._filter)
            getattr(warnings, "_filters_mutated", getattr(warnings, "_filters_mutated_lock_held", lambda: None))()
        self._show = None

    def _note(self, frame: Any) -> None:
        place = user_place(frame)
        if place in self.places or len(self.places) < _MOST_PLACES:
            self.places[place] = self.places.get(place, 0) + 1
