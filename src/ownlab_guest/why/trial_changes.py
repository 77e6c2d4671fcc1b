"""The changes of a trial, each applied from outside to a script that knows nothing of it."""

import functools
import inspect
import sys
import threading
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional

from ownlab_guest.why.trial_record import TrialRecord
from ownlab_guest.why.user_frames import is_user_file, user_place

__all__ = ["LoaderChanges", "ModelChanges", "OptimizerChanges", "apply_to_torch"]

# Those that have an implementation in one kernel.
_WITH_FUSED = ("Adagrad", "Adam", "AdamW", "SGD")


def apply_to_torch(torch: Any, changes: Dict[str, Any], record: TrialRecord) -> None:
    """Apply what is a setting of torch as a whole."""
    _note_threads(torch, changes.get("threads"), record)
    if changes.get("tf32"):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        record.apply("tf32")
    if changes.get("cudnn_benchmark"):
        torch.backends.cudnn.benchmark = True
        record.apply("cudnn_benchmark")
    if changes.get("keep_cache"):
        torch.cuda.empty_cache = _left_out("keep_cache", record)
    if changes.get("no_collect"):
        import gc

        gc.collect = _left_out("no_collect", record)
    if changes.get("non_blocking"):
        _copy_without_waiting(torch, record)


def _note_threads(torch: Any, threads: Optional[int], record: TrialRecord) -> None:
    """Set the number of threads, and ignore the script's own; note the line where it sets one."""
    original = torch.set_num_threads
    if threads:
        original(threads)
        record.apply("threads")

    @functools.wraps(original)
    def set_num_threads(count: int) -> None:
        if not is_user_file(sys._getframe(1).f_code.co_filename):
            original(count)  # torch itself, in each worker
            return
        record.threads_where = record.threads_where or user_place(sys._getframe(1))
        original(threads or count)

    torch.set_num_threads = set_num_threads


def _left_out(name: str, record: TrialRecord) -> Callable[..., int]:
    """A function that does nothing, in place of one that costs time."""

    def left_out(*arguments: Any) -> int:
        record.apply(name)
        return 0

    return left_out


def _copy_without_waiting(torch: Any, record: TrialRecord) -> None:
    original = torch.Tensor.to

    @functools.wraps(original)
    def to(self: Any, *arguments: Any, **options: Any) -> Any:
        if self.device.type == "cpu" and self.is_pinned():
            options.setdefault("non_blocking", True)
            record.apply("non_blocking")
        return original(self, *arguments, **options)

    torch.Tensor.to = to


class LoaderChanges:
    """Other arguments for one DataLoader, which is known by its place in the order in which the script makes them."""

    def __init__(self, wanted: Dict[str, Any]) -> None:
        self._arguments: Dict[str, Any] = dict(wanted.get("arguments") or {})
        self._index = wanted.get("index", -1)
        self._made = 0

    def forget(self) -> None:
        """A forked process counts anew, as its measurement does."""
        self._made = 0

    def patch(self, module: ModuleType) -> None:
        """Patch torch.utils.data.dataloader."""
        if not self._arguments:
            return
        original, changes = module.DataLoader.__init__, self
        signature = inspect.signature(inspect.unwrap(original))

        @functools.wraps(original)
        def changed(self: Any, *arguments: Any, **options: Any) -> None:
            index, changes._made = changes._made, changes._made + 1
            if index != changes._index:
                original(self, *arguments, **options)
                return
            bound = signature.bind(self, *arguments, **options)
            bound.arguments.update(changes._arguments)
            original(*bound.args, **bound.kwargs)

        module.DataLoader.__init__ = changed


class OptimizerChanges:
    """Other arguments for optimizers; and the lines that make them, for the diff."""

    def __init__(self, wanted: Dict[str, Any], record: TrialRecord) -> None:
        self._wanted, self._record = wanted, record

    def patch(self, module: ModuleType) -> None:
        """Patch torch.optim."""
        self._note_places(module.Optimizer)
        if self._wanted:
            for name in _WITH_FUSED:
                self._patch_class(getattr(module, name))

    def _note_places(self, kind: Any) -> None:
        original, record = kind.__init__, self._record

        @functools.wraps(original)
        def noted(self: Any, *arguments: Any, **options: Any) -> None:
            record.optimizers.append(user_place(sys._getframe(1)))
            original(self, *arguments, **options)

        kind.__init__ = noted

    def _patch_class(self, kind: Any) -> None:
        original, wanted, record = kind.__init__, self._wanted, self._record
        signature = inspect.signature(original)

        @functools.wraps(original)
        def changed(self: Any, *arguments: Any, **options: Any) -> None:
            bound = signature.bind(self, *arguments, **options)
            bound.arguments.update(wanted)
            original(*bound.args, **bound.kwargs)
            record.apply("optimizer")

        kind.__init__ = changed


class ModelChanges:
    """What concerns the model: the outermost modules that a training step calls. They are changed at their first call."""

    def __init__(self, changes: Dict[str, Any], record: TrialRecord) -> None:
        self._record = record
        self._autocast: Optional[str] = changes.get("autocast")
        self._channels_last = bool(changes.get("channels_last"))
        self._compile = bool(changes.get("compile"))
        self._ddp: Dict[str, Any] = changes.get("ddp") or {}
        self._prepared: List[int] = []
        self._within = False
        self._context: Any = None
        self._thread = threading.main_thread().ident

    def patch_module(self, torch: Any) -> None:
        """Patch the call of modules."""
        original, changes = torch.nn.Module.__call__, self

        def called(self: Any, *arguments: Any, **options: Any) -> Any:
            # The most frequent cases first: this runs for each module of the model.
            if changes._within or not self.training or not changes._trains(torch):
                return original(self, *arguments, **options)
            changes._within = True
            try:
                arguments = changes._begin(torch, self, arguments)
                return original(self, *arguments, **options)
            finally:
                changes._within = False

        torch.nn.Module.__call__ = called

    def _trains(self, torch: Any) -> bool:
        return threading.get_ident() == self._thread and torch.is_grad_enabled()

    def _begin(self, torch: Any, module: Any, arguments: Any) -> Any:
        if id(module) not in self._prepared:
            self._prepared.append(id(module))
            self._record.describe_model(torch, module, sys._getframe(2))
            self._prepare(torch, module)
        if self._autocast and self._context is None:
            kind = next((each.device.type for each in module.parameters()), "cpu")
            self._context = torch.autocast(kind, dtype=getattr(torch, self._autocast))
            self._context.__enter__()
            self._record.apply("autocast")
        if self._channels_last:
            return tuple(_as_channels_last(torch, each) for each in arguments)
        return arguments

    def _prepare(self, torch: Any, module: Any) -> None:
        if self._channels_last and any(True for _ in module.parameters()):
            module.to(memory_format=torch.channels_last)
            self._record.apply("channels_last")
        if self._compile and any(True for _ in module.parameters()):
            module.compile()
            self._record.apply("compile")

    def patch_backward(self, torch: Any) -> None:
        """Patch torch.autograd.backward: autocast ends before it, and the loss is kept."""
        original, changes = torch.autograd.backward, self

        @functools.wraps(original)
        def noted(tensors: Any, *arguments: Any, **options: Any) -> Any:
            if threading.get_ident() == changes._thread:
                changes._end_autocast()
                changes._record.add_loss(tensors)
            return original(tensors, *arguments, **options)

        torch.autograd.backward = noted

    def _end_autocast(self) -> None:
        if self._context is not None:
            self._context.__exit__(None, None, None)
            self._context = None

    def patch_ddp(self, module: ModuleType) -> None:
        """Patch torch.nn.parallel.distributed."""
        if not self._ddp:
            return
        kind, wanted, record = module.DistributedDataParallel, self._ddp, self._record
        original = kind.__init__

        @functools.wraps(original)
        def changed(self: Any, *arguments: Any, **options: Any) -> None:
            original(self, *arguments, **{**options, **wanted})
            record.apply("ddp")

        kind.__init__ = changed


def _as_channels_last(torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point():
        return value.contiguous(memory_format=torch.channels_last)
    return value
