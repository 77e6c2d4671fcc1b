"""DataParallel and DistributedDataParallel: how they were made, and what DDP itself has measured."""

import functools
import sys
import weakref
from types import ModuleType
from typing import Any, Dict, Optional

from ownlab_guest.why.recorder import Recorder
from ownlab_guest.why.user_frames import user_place

__all__ = ["ParallelHooks"]

# What DDP measures every 100 steps, and what it knows of its parameters (torch/csrc/distributed/c10d/logger.cpp).
_LOGGED = (
    "avg_backward_comm_time",
    "avg_backward_compute_time",
    "avg_backward_compute_comm_overlap_time",
    "avg_forward_compute_time",
    "has_sync_bn",
    "num_parameter_tensors",
    "total_parameter_size_bytes",
    "unused_parameter_size",
    "backend_name",
)


class ParallelHooks:
    """What is known of parallel wrappers."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.data_parallel: Optional[Dict[str, Any]] = None
        self.ddp: Optional[Dict[str, Any]] = None
        self._ddp: Any = None

    def forget(self) -> None:
        """Begin anew in a forked process."""
        self.data_parallel = self.ddp = self._ddp = None

    def patch_data_parallel(self, module: ModuleType) -> None:
        """Patch torch.nn.parallel.data_parallel."""
        init, hooks = module.DataParallel.__init__, self

        @functools.wraps(init)
        def remember(self: Any, *arguments: Any, **options: Any) -> None:
            init(self, *arguments, **options)
            place = user_place(sys._getframe(1))
            devices = len(getattr(self, "device_ids", ()) or ())
            hooks.data_parallel = {"where": place._asdict() if place else None, "devices": devices}

        module.DataParallel.__init__ = remember

    def patch_ddp(self, module: ModuleType) -> None:
        """Patch torch.nn.parallel.distributed."""
        init, hooks = module.DistributedDataParallel.__init__, self
        no_sync = module.DistributedDataParallel.no_sync

        @functools.wraps(init)
        def remember(self: Any, *arguments: Any, **options: Any) -> None:
            init(self, *arguments, **options)
            place = user_place(sys._getframe(1))
            hooks._ddp = weakref.ref(self)
            hooks.ddp = {
                "where": place._asdict() if place else None,
                "find_unused_parameters": bool(self.find_unused_parameters),
                "static_graph": bool(self.static_graph),
                "no_sync": 0,
            }

        @functools.wraps(no_sync)
        def counted(self: Any) -> Any:
            if hooks.ddp is not None:
                hooks.ddp["no_sync"] += 1
            return no_sync(self)

        module.DistributedDataParallel.__init__ = remember
        module.DistributedDataParallel.no_sync = counted

    def read_ddp(self) -> Optional[Dict[str, Any]]:
        """Return what is known of DDP, with its own measurements."""
        model = None if self._ddp is None else self._ddp()
        if model is None or self.ddp is None:
            return self.ddp
        try:
            logged = model._get_ddp_logging_data()
        except Exception as exc:
            return {**self.ddp, "logged": {}, "problem": repr(exc)}
        return {**self.ddp, "logged": {name: logged[name] for name in _LOGGED if name in logged}}
