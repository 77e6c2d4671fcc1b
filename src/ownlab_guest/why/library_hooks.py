"""Logging, printing, saving by other libraries, and garbage collection."""

import builtins
import gc
import logging
import sys
import time
from types import ModuleType
from typing import Any, Dict

from ownlab_guest.why.recorder import PHASES, Recorder

__all__ = ["LibraryHooks"]

LOG, GC, SAVE = (PHASES.index(name) for name in ("log", "gc", "save"))
_TENSORBOARD = (
    "add_audio",
    "add_embedding",
    "add_figure",
    "add_graph",
    "add_histogram",
    "add_image",
    "add_images",
    "add_pr_curve",
    "add_scalar",
    "add_scalars",
    "add_text",
    "add_video",
    "flush",
)


class LibraryHooks:
    """The hooks of what is no part of torch."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._collecting = 0
        self._patched = False

    def patch_python(self) -> None:
        """Patch print, the logging module and the garbage collector, once."""
        if self._patched:
            return
        self._patched = True
        timed = self._recorder.timed
        builtins.print = timed(LOG, "print", builtins.print)
        logging.Logger.callHandlers = timed(LOG, "logging", logging.Logger.callHandlers)  # type: ignore[method-assign]
        gc.collect = timed(GC, "gc.collect", gc.collect)
        gc.callbacks.append(self._collection)

    def _collection(self, event: str, details: Dict[str, int]) -> None:
        recorder = self._recorder
        if recorder.current == GC and not self._collecting:
            return  # within gc.collect, which is measured as a whole
        if event == "start" and recorder.is_here():
            recorder.enter(GC)
            self._collecting = time.perf_counter_ns()
        elif event == "stop" and self._collecting:
            began, self._collecting = self._collecting, 0
            recorder.leave()
            recorder.note(GC, "automatic", sys._getframe(0).f_back, time.perf_counter_ns() - began)

    def patch_tensorboard(self, module: ModuleType) -> None:
        """Patch torch.utils.tensorboard.writer."""
        for name in _TENSORBOARD:
            original = getattr(module.SummaryWriter, name, None)
            if original is not None:
                setattr(module.SummaryWriter, name, self._recorder.timed(LOG, "SummaryWriter." + name, original))

    def patch_wandb(self, module: ModuleType) -> None:
        """Patch wandb.sdk.wandb_run."""
        run: Any = module.Run
        run.log = self._recorder.timed(LOG, "wandb.log", run.log)

    def patch_safetensors(self, module: ModuleType) -> None:
        """Patch safetensors.torch."""
        for name in ("save_file", "save_model"):
            setattr(module, name, self._recorder.timed(SAVE, "safetensors." + name, getattr(module, name)))
