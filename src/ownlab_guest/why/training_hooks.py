"""Backward, optimizer, evaluation, synchronisation, copies and saving: the parts of a step that torch itself runs."""

import functools
import sys
import time
from types import ModuleType
from typing import Any, Callable, List

from ownlab_guest.why.loader_hooks import LoaderHooks
from ownlab_guest.why.recorder import BACKWARD, OPTIMIZER, PHASES, Recorder

__all__ = ["TrainingHooks"]

SAVE, SYNC, COPY, CACHE = (PHASES.index(name) for name in ("save", "sync", "copy", "cache"))
# They wait until the GPU has computed the value.
_SYNCHRONISING = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__float__", "__int__", "__repr__")


class TrainingHooks:
    """The hooks of `torch` itself."""

    def __init__(self, recorder: Recorder, loaders: LoaderHooks, on_use: Callable[[], None]) -> None:
        self._recorder, self._loaders, self._on_use = recorder, loaders, on_use
        self.optimizers: List[Any] = []  # what is known of each optimizer that stepped
        self._seen: List[int] = []
        self.device = "cpu"

    def forget(self) -> None:
        """Begin anew in a forked process."""
        self.optimizers, self._seen = [], []

    def patch_torch(self, torch: Any) -> None:
        """Patch `torch` after it was imported."""
        self._patch_backward(torch.autograd)
        self._patch_evaluation(torch.nn.Module)
        recorder = self._recorder
        torch.save = recorder.timed(SAVE, "torch.save", torch.save)
        torch.serialization.save = torch.save
        torch.cuda.empty_cache = recorder.timed(CACHE, "torch.cuda.empty_cache", torch.cuda.empty_cache)
        torch.cuda.synchronize = recorder.timed(SYNC, "torch.cuda.synchronize", torch.cuda.synchronize)
        for name in _SYNCHRONISING:
            self._patch_sync(torch.Tensor, name)
        for name in ("to", "cuda"):
            self._patch_copy(torch.Tensor, name)

    def patch_optimizer(self, module: ModuleType) -> None:
        """Register with torch.optim.optimizer."""
        module.register_optimizer_step_pre_hook(self._optimizer_begins)
        module.register_optimizer_step_post_hook(self._optimizer_ended)

    def _patch_backward(self, autograd: Any) -> None:
        backward, recorder, loaders = autograd.backward, self._recorder, self._loaders
        on_use = self._on_use

        @functools.wraps(backward)
        def measured(*arguments: Any, **options: Any) -> Any:
            if not recorder.is_here():
                return backward(*arguments, **options)
            on_use()
            loaders.backward_began()
            recorder.begin_backward()
            began = time.perf_counter_ns()
            try:
                return backward(*arguments, **options)
            finally:
                recorder.end_backward()
                recorder.note(BACKWARD, "backward", sys._getframe(1), time.perf_counter_ns() - began)

        autograd.backward = measured

    def _optimizer_begins(self, optimizer: Any, *rest: Any) -> None:
        if self._recorder.is_here():
            self._recorder.enter(OPTIMIZER)

    def _optimizer_ended(self, optimizer: Any, *rest: Any) -> None:
        if not self._recorder.is_here():
            return
        if id(optimizer) not in self._seen:
            self._seen.append(id(optimizer))
            self._describe(optimizer)
        self._recorder.end_optimizer(id(optimizer))

    def _describe(self, optimizer: Any) -> None:
        groups = optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        devices = {parameter.device.type for parameter in parameters}
        self.device = next(iter(devices - {"cpu"}), "cpu")
        self.optimizers.append(
            {
                "name": type(optimizer).__name__,
                "fused": bool(groups[0].get("fused")),
                "foreach": groups[0].get("foreach"),
                "tensors": len(parameters),
                "bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
                "device": self.device,
            }
        )

    def _patch_evaluation(self, kind: Any) -> None:
        evaluate, train, recorder = kind.eval, kind.train, self._recorder

        @functools.wraps(evaluate)
        def eval_marked(self: Any) -> Any:
            if recorder.is_here():
                recorder.begin_validation()
            return evaluate(self)

        @functools.wraps(train)
        def train_marked(self: Any, mode: bool = True) -> Any:
            if mode and recorder.validating and recorder.is_here():
                recorder.end_validation()
            return train(self, mode)

        kind.eval, kind.train = eval_marked, train_marked

    def _patch_sync(self, tensor: Any, name: str) -> None:
        """Measure calls on tensors that are not on the CPU: only those wait."""
        original, recorder = getattr(tensor, name), self._recorder

        @functools.wraps(original)
        def measured(self: Any, *arguments: Any, **options: Any) -> Any:
            if not recorder.active or self.device.type == "cpu" or recorder.current == SYNC or not recorder.is_here():
                return original(self, *arguments, **options)
            recorder.enter(SYNC)
            began = time.perf_counter_ns()
            try:
                return original(self, *arguments, **options)
            finally:
                recorder.leave()
                recorder.note(
                    SYNC, "Tensor." + name, sys._getframe(1), time.perf_counter_ns() - began, self.device.type
                )

        setattr(tensor, name, measured)

    def _patch_copy(self, tensor: Any, name: str) -> None:
        """Measure copies from the host to a device, with whether they are pinned and blocking."""
        original, recorder = getattr(tensor, name), self._recorder

        @functools.wraps(original)
        def measured(self: Any, *arguments: Any, **options: Any) -> Any:
            if not recorder.active or self.device.type != "cpu" or not recorder.is_here():
                return original(self, *arguments, **options)
            recorder.enter(COPY)
            began = time.perf_counter_ns()
            result = None
            try:
                result = original(self, *arguments, **options)
                return result
            finally:
                recorder.leave()
                if result is not None and result.device.type != "cpu":
                    taken = time.perf_counter_ns() - began
                    recorder.note(COPY, "Tensor." + name, sys._getframe(1), taken, _describe_copy(self, options))

        setattr(tensor, name, measured)


def _describe_copy(source: Any, options: Any) -> str:
    memory = "pinned" if source.is_pinned() else "pageable"
    return "%s, %s" % (memory, "not blocking" if options.get("non_blocking") else "blocking")
