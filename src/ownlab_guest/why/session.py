"""Decides whether a process is measured, registers the hooks, and writes the evidence of the process.

The command gives the folder for the evidence in OWNLAB_WHY, and the number of steps in OWNLAB_WHY_STEPS. Every Python below it
registers hooks; only one that takes a step of an optimizer, uses a DataLoader, or ends early with torch loaded writes evidence.
"""

import atexit
import importlib
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, Optional

from ownlab_guest.atomic_files import replace_file
from ownlab_guest.why.gpu_measurement import GpuMeasurement
from ownlab_guest.why.library_hooks import LibraryHooks
from ownlab_guest.why.loader_hooks import LoaderHooks
from ownlab_guest.why.mode_hooks import PROFILER, ModeHooks
from ownlab_guest.why.parallel_hooks import ParallelHooks
from ownlab_guest.why.post_import import Hook, PostImport
from ownlab_guest.why.recorder import PHASES, Recorder
from ownlab_guest.why.stack_sampler import StackSampler
from ownlab_guest.why.system_counters import QueueCounter, available_cores, cpu_quota, read_counters
from ownlab_guest.why.training_hooks import TrainingHooks
from ownlab_guest.why.worker_log import sampled

__all__ = ["FORMAT", "Session", "start"]

FORMAT = 1
_SPANS_WRITTEN = 2000
# When DDP is asked for its own measurements. At the end its process group may be gone.
_DDP_STEPS = frozenset((5, 10, 20, 50, 101, 150))


class Session:
    """The measurement of one process."""

    def __init__(self, folder: str, steps: int) -> None:
        self.folder = folder
        self.problems: List[str] = []
        self.recorder = Recorder(steps)
        self.loaders = LoaderHooks(self.recorder, folder, self._use)
        self.modes = ModeHooks()
        self.training = TrainingHooks(self.recorder, self.loaders, self._use, self._backward_began)
        self.libraries = LibraryHooks(self.recorder)
        self.parallel = ParallelHooks(self.recorder)
        self.sampler: Optional[StackSampler] = None
        self._used = False
        self._queue: Optional[QueueCounter] = None
        self._first: Dict[str, Any] = {}
        self._last: Dict[str, Any] = {}
        self._ddp: Optional[Dict[str, Any]] = None
        self.describe_trial: Optional[Callable[[bool], Dict[str, Any]]] = None  # of a trial, also what it adds
        self.gpu = GpuMeasurement(self.recorder, folder, self.problems)
        self.gpu.will_fork = self.loaders.will_start_workers
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self._final = False
        self._over = False

    def install(self) -> None:
        """Register every hook."""
        hooks: Dict[str, Hook] = {
            "torch": self._patch_torch,
            "torch.autograd.anomaly_mode": self.modes.patch_anomaly,
            "torch.autograd.profiler": lambda module: self.training.patch_profiler(module, self._profiler_made),
            "torch.optim.optimizer": self.training.patch_optimizer,
            "torch.nn.parallel.data_parallel": self.parallel.patch_data_parallel,
            "torch.nn.parallel.distributed": self.parallel.patch_ddp,
            "torch.utils.data._utils.fetch": self.loaders.patch_fetch,
            "torch.utils.data.dataloader": self.loaders.patch_loader,
            "torch.utils.tensorboard.writer": self.libraries.patch_tensorboard,
            "wandb.sdk.wandb_run": self.libraries.patch_wandb,
            "safetensors.torch": self.libraries.patch_safetensors,
        }
        PostImport({name: self.guarded(name, hook) for name, hook in hooks.items()}).install()
        self.recorder.on_step = self._stepped
        atexit.register(self._ended)
        os.register_at_fork(after_in_child=self._forked)

    def _patch_torch(self, torch: Any) -> None:
        self.training.patch_torch(torch)
        self.modes.patch_torch(torch)

    def guarded(self, name: str, hook: Hook) -> Hook:
        """A hook whose error is written down, and does not reach the script."""

        def run(module: Any) -> None:
            try:
                hook(module)
            except Exception as exc:
                self.problems.append("%s: %r" % (name, exc))

        return run

    def _ended(self) -> None:
        if self._pid == os.getpid():
            self.gpu.finish()
        self.write("exit")
        self.recorder.active = False  # the interpreter is being taken apart

    def _forked(self) -> None:
        """A fork has its own evidence; the thread of the sampler is not in it."""
        self.gpu.keep_forever()
        if not self._over:
            self._begin_anew(self.recorder.most_steps)

    def _begin_anew(self, steps: int) -> None:
        self.recorder.__init__(steps)  # type: ignore[misc]  # the hooks hold this object
        self.recorder.on_step = self._stepped
        self.loaders.forget()
        self.training.forget()
        self.parallel.forget()
        self.modes.forget()
        self.sampler, self._used, self._pid = None, False, os.getpid()
        self.problems, self._first, self._last, self._ddp = [], {}, {}, None
        windows, self.gpu = self.gpu.windows, GpuMeasurement(self.recorder, self.folder, self.problems)
        self.gpu.windows, self.gpu.will_fork = windows, self.loaders.will_start_workers
        self._writing, self._final = threading.Lock(), False  # another thread may have held it

    def restart(self, folder: str, steps: int) -> None:
        """Measure again, in the same process. Hooks stay where they are from the first time."""
        self.folder = self.loaders.folder = folder
        self._over = False
        self._begin_anew(steps)

    def finish(self) -> None:
        """Write the evidence, and measure no more."""
        self._ended()
        self._over = True
        if self.sampler is not None:
            self.sampler.stop()

    def _use(self) -> None:
        """The script begins to train: sample from now on, and watch calls that are no part of torch."""
        if self._used:
            return
        self._used = True
        self._queue = QueueCounter()
        self._first = read_counters(self._queue)
        self.libraries.patch_python()
        self.sampler = StackSampler(self.recorder.thread, self._phase, lambda: self.write("running"))
        self.sampler.start()
        process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
        if process is not None and util is not None and process.parent_process() is not None:
            util.Finalize(None, self._ended, exitpriority=10)  # such a process ends without `atexit`

    def _profiler_made(self) -> None:
        if self.gpu.profiler_made():
            self.modes.switched(PROFILER, sys._getframe(1))

    def _backward_began(self) -> None:
        try:
            self.modes.backward_began()
        except Exception as exc:  # what is asked for is no public interface
            self.modes = ModeHooks()
            self.problems.append("modes: %r" % exc)

    def _phase(self) -> Optional[str]:
        return PHASES[self.recorder.current] if self.recorder.active else None

    def _stepped(self) -> None:
        count = len(self.recorder.steps)
        self.gpu.step_ended(self.training.device, self.training.parameters)
        if count in _DDP_STEPS:
            self._ddp = self.parallel.read_ddp()
        if not self.recorder.active:
            self._last = read_counters(self._queue)
            self.write("measured")

    # --- the evidence -------------------------------------------------------------------------------------------------

    def write(self, ended: str) -> None:
        """Replace the evidence of this process."""
        if self._pid != os.getpid() or not (self._used or (ended == "exit" and "torch" in sys.modules)):
            return
        with self._writing:  # the sampler writes from its own thread
            if not self._final:
                self._final = ended == "exit"
                self._replace(ended)

    def _replace(self, ended: str) -> None:
        path = os.path.join(self.folder, "process-%d.json" % self._pid)
        try:
            replace_file(path, json.dumps(self.document(ended), separators=(",", ":")))
        except Exception:  # the disk is full, or the folder is gone: the script goes on
            return

    def document(self, ended: str) -> Dict[str, Any]:
        """The evidence of this process."""
        recorder = self.recorder
        torch: Any = sys.modules.get("torch")
        steps = list(recorder.steps)
        return {
            "format": FORMAT,
            "pid": self._pid,
            "argv": list(getattr(sys, "argv", ()))[:1],  # arguments may be secrets
            "python": "%d.%d.%d" % sys.version_info[:3],
            "torch": str(getattr(torch, "__version__", "")),
            "rank": _number("RANK"),
            "world": _number("WORLD_SIZE"),
            "ended": ended,
            "began_ns": recorder.began,
            "now_ns": time.perf_counter_ns(),
            "device": self.training.device,
            "cores": available_cores(),
            "cpu_quota": cpu_quota(),
            "torch_threads": torch.get_num_threads() if hasattr(torch, "get_num_threads") else 0,
            "phases": list(PHASES),
            "steps": steps,
            "unfinished": recorder.unfinished(),
            "unfinished_phase": PHASES[recorder.current],
            "spans": [list(span) for span in recorder.spans[-_SPANS_WRITTEN:]],
            "calls": self._calls(),
            "samples": sampled(self.sampler),
            "loaders": [info.as_json() for info in self.loaders.loaders],
            "optimizers": self.training.optimizers,
            "data_parallel": self.parallel.data_parallel,
            "ddp": self._ddp if self._ddp is not None else self.parallel.ddp,
            "counters": [self._first or read_counters(None), self._last or read_counters(self._queue)],
            "modes": self.modes.as_json(),
            "trial": None if self.describe_trial is None else self.describe_trial(ended != "running"),
            "gpu": self.gpu.document(),
            "problems": self.problems,
        }

    def _calls(self) -> List[Dict[str, Any]]:
        return [
            {
                "phase": PHASES[phase],
                "what": what,
                "where": where._asdict() if where else None,
                "detail": detail,
                "count": count,
                "ns": nanoseconds,
                "first_step": first,
                "last_step": last,
            }
            for (phase, what, where, detail), (count, nanoseconds, first, last) in list(self.recorder.calls.items())
        ]


def _number(name: str) -> Optional[int]:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def start() -> None:
    """Begin to measure this process. The empty file says that a Python was here, whatever it does."""
    with open(os.path.join(os.environ["OWNLAB_WHY"], "python-%d" % os.getpid()), "w", encoding="ascii"):
        pass
    steps = os.environ.get("OWNLAB_WHY_STEPS", "")
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # torch's profiler writes to stderr when it starts and stops
    session = Session(os.environ["OWNLAB_WHY"], int(steps) if steps.isdigit() else 200)
    session.install()
    if "OWNLAB_WHY_TRIAL" in os.environ:
        importlib.import_module("ownlab_guest.why.trial_session").start_trial(session)
