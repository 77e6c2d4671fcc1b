"""Backward, optimizer, evaluation, synchronisation, copies and saving: the parts of a step that torch itself runs."""

import functools
import sys
import time
import weakref
from types import ModuleType
from typing import Any, Callable, List, Optional

from ownlab_guest.why.loader_hooks import LoaderHooks
from ownlab_guest.why.recorder import BACKWARD, OPTIMIZER, PHASES, Recorder
from ownlab_guest.why.user_frames import Place, user_place

__all__ = ["TrainingHooks"]

SAVE, SYNC, COPY, CACHE, GRAPH = (PHASES.index(name) for name in ("save", "sync", "copy", "cache", "graph"))
# They wait until the GPU has computed the value.
_SYNCHRONISING = ("item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__float__", "__int__", "__repr__")


class TrainingHooks:
    """The hooks of `torch` itself."""

    def __init__(
        self, recorder: Recorder, loaders: LoaderHooks, on_use: Callable[[], None], on_backward: Callable[[], None]
    ) -> None:
        self._recorder, self._loaders, self._on_use, self._on_backward = recorder, loaders, on_use, on_backward
        self.optimizers: List[Any] = []  # what is known of each optimizer that stepped
        self._seen: List[int] = []
        self._optimizer: Any = None
        self._made: "weakref.WeakKeyDictionary[Any, Optional[Place]]" = weakref.WeakKeyDictionary()
        self._capturing: Any = None  # the CUDA graph into which work is captured now
        self._step_graphs: List[int] = []  # those that contain a step of the optimizer
        self.device = "cpu"

    def forget(self) -> None:
        """Begin anew in a forked process."""
        self.optimizers, self._seen, self._optimizer = [], [], None
        self._capturing, self._step_graphs = None, []

    def parameters(self) -> List[Any]:
        """The parameters of the first optimizer that has stepped."""
        groups = [] if self._optimizer is None else self._optimizer().param_groups
        return [parameter for group in groups for parameter in group["params"]]

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
        graph = getattr(torch.cuda, "CUDAGraph", None)
        if graph is not None and hasattr(graph, "capture_begin"):
            self._patch_graph(graph)

    def patch_profiler(self, profiler: Any, made: Callable[[], None]) -> None:
        """Call `made` whenever a profiler of torch is made."""
        init = profiler.profile.__init__

        @functools.wraps(init)
        def noticed(self: Any, *arguments: Any, **options: Any) -> None:
            made()
            init(self, *arguments, **options)

        profiler.profile.__init__ = noticed

    def patch_optimizer(self, module: ModuleType) -> None:
        """Register with torch.optim.optimizer."""
        self._patch_optimizer_init(module.Optimizer)
        module.register_optimizer_step_pre_hook(self._optimizer_begins)
        module.register_optimizer_step_post_hook(self._optimizer_ended)

    def _patch_optimizer_init(self, kind: Any) -> None:
        init, made = kind.__init__, self._made

        @functools.wraps(init)
        def remember(self: Any, *arguments: Any, **options: Any) -> None:
            init(self, *arguments, **options)
            made[self] = user_place(sys._getframe(1))

        kind.__init__ = remember

    def _patch_backward(self, autograd: Any) -> None:
        backward, recorder, loaders = autograd.backward, self._recorder, self._loaders
        on_use, on_backward = self._on_use, self._on_backward

        @functools.wraps(backward)
        def measured(*arguments: Any, **options: Any) -> Any:
            if not recorder.is_here():
                return backward(*arguments, **options)
            on_use()
            loaders.backward_began()
            on_backward()
            recorder.begin_backward()
            began = time.perf_counter_ns()
            try:
                return backward(*arguments, **options)
            finally:
                recorder.end_backward()
                recorder.note(BACKWARD, "backward", sys._getframe(1), time.perf_counter_ns() - began)

        autograd.backward = measured

    def _optimizer_begins(self, optimizer: Any, arguments: Any = (), options: Any = None) -> Any:
        if not self._recorder.is_here():
            return None
        self._recorder.enter(OPTIMIZER)
        return self._with_closure(arguments, options or {})

    def _with_closure(self, arguments: Any, options: Any) -> Any:
        """Forward and backward that the optimizer is given to call (Lightning does so) are no part of it."""
        closure = options.get("closure", arguments[1] if len(arguments) > 1 else None)
        if not callable(closure):
            return None
        recorder = self._recorder

        @functools.wraps(closure)
        def outside(*given: Any, **more: Any) -> Any:
            if not recorder.is_here():
                return closure(*given, **more)
            recorder.leave()
            try:
                return closure(*given, **more)
            finally:
                recorder.enter(OPTIMIZER)

        if "closure" in options:
            return arguments, {**options, "closure": outside}
        return (arguments[0], outside, *arguments[2:]), options

    def _optimizer_ended(self, optimizer: Any, *rest: Any) -> None:
        if not self._recorder.is_here():
            return
        if id(optimizer) not in self._seen:
            self._seen.append(id(optimizer))
            self._describe(optimizer)
        if self._capturing is not None:  # the work is noted down, not done: it is done when the graph is replayed
            self._recorder.leave()
            self._step_graphs.append(id(self._capturing))
            return
        self._recorder.end_optimizer(id(optimizer))

    def _describe(self, optimizer: Any) -> None:
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)
        groups = optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        devices = {parameter.device.type for parameter in parameters}
        self.device = next(iter(devices - {"cpu"}), "cpu")
        place = self._made.get(optimizer)
        self.optimizers.append(
            {
                "name": type(optimizer).__name__,
                "fused": bool(groups[0].get("fused")),
                "foreach": groups[0].get("foreach"),
                "tensors": len(parameters),
                "bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
                "device": self.device,
                "where": place._asdict() if place is not None else None,
            }
        )

    def _patch_graph(self, graph: Any) -> None:
        """A CUDA graph that contains a step of the optimizer makes a step each time it is replayed."""
        begin, end, replay, hooks, recorder = (
            graph.capture_begin, graph.capture_end, graph.replay, self, self._recorder,
        )  # fmt: skip

        @functools.wraps(begin)
        def capture_begin(self: Any, *arguments: Any, **options: Any) -> Any:
            hooks._capturing = self
            return begin(self, *arguments, **options)

        @functools.wraps(end)
        def capture_end(self: Any, *arguments: Any, **options: Any) -> Any:
            hooks._capturing = None
            return end(self, *arguments, **options)

        @functools.wraps(replay)
        def replayed(self: Any, *arguments: Any, **options: Any) -> Any:
            if id(self) not in hooks._step_graphs or not recorder.is_here():
                return replay(self, *arguments, **options)
            hooks._on_use()
            recorder.enter(GRAPH)
            try:
                return replay(self, *arguments, **options)
            finally:
                recorder.end_graph(id(self))

        graph.capture_begin, graph.capture_end, graph.replay = capture_begin, capture_end, replayed

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
            if not recorder.active or self.device.type == "cpu" or recorder.is_part(SYNC) or not recorder.is_here():
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
            if not recorder.active or self.device.type != "cpu" or recorder.is_part(COPY) or not recorder.is_here():
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
