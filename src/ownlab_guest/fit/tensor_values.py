"""Values of tensors that have no data: known ones, and guesses.

Small tensors that are computed from numbers alone are computed beside their stand-ins, while a model is built and in its steps:
widths of layers come from such tensors (RegNet's, for instance), and masks and shapes come from lengths. Whole random numbers
are drawn: any draw is as good as that of the real run. All other values that a program reads are guessed.
"""

import os
import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from ownlab_guest.text import text

# Operations that make a tensor from numbers alone.
_MAKERS = (
    "arange",
    "linspace",
    "logspace",
    "full",
    "zeros",
    "ones",
    "eye",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
)
_DRAWS = ("randint", "randperm")
_UNINITIALIZED = ("empty_like", "new_empty", "new_empty_strided")
_PLACEMENT = ("device", "layout", "pin_memory")  # placement arguments: values are computed on the processor
_SMALL = 4096  # numbers

Given = Dict[int, Any]  # id of a tensor -> its value


class KnownValues:
    """Values by storage, so that views and writes of a tensor are views and writes of its value, too."""

    def __init__(self) -> None:
        self._kept: Dict[
            int, Tuple[Any, Any]
        ] = {}  # id of a storage -> weak reference to it, and the storage of its value

    def of(self, tensor: Any) -> Optional[Any]:
        """Return the value of a tensor; None if it is unknown."""
        if not _is_plain(tensor):
            return None
        if type(tensor) in (torch.Tensor, torch.nn.Parameter):
            return tensor if tensor.device.type == "cpu" else None
        if not isinstance(tensor, FakeTensor):
            return None
        if tensor.constant is not None:
            return tensor.constant  # torch itself keeps single numbers
        storage = tensor.untyped_storage()
        _, kept = self._kept.get(id(storage), (None, None))
        if kept is None or kept.nbytes() < storage.nbytes():  # it has grown (resize_)
            return None
        where = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
        with _disable_current_modes():
            return torch.empty(0, dtype=tensor.dtype, device="cpu").set_(kept, *where)

    def given(self, args: Any, kwargs: Any) -> Optional[Given]:
        """Return the values of an operation's arguments before it runs; None if one is unknown."""
        known: Given = {}
        for tensor in _tensors((args, kwargs)):
            value = self.of(tensor)
            if value is None:
                return None
            known[id(tensor)] = value
        return known

    def computed(self, func: Any, args: Any, kwargs: Any, given: Optional[Given]) -> Optional[Any]:
        """Compute the operation on known values, in place where it writes to its arguments."""
        if given is None or not isinstance(func, torch._ops.OpOverload) or not _is_computable(func, given):
            return None
        known = {name: value for name, value in kwargs.items() if name not in _PLACEMENT}
        args, known = tree_map(lambda tensor: given.get(id(tensor), tensor), (args, known))
        with _disable_current_modes(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            try:
                return func(*args, **known)
            except (RuntimeError, TypeError, ValueError, IndexError):
                return None  # not possible on a processor: the value is unknown

    def follow(self, func: Any, args: Any, kwargs: Any, given: Optional[Given], out: Any) -> None:
        """Update after an operation: results of known arguments are known; other tensors that it wrote to are not any more."""
        if not isinstance(func, torch._ops.OpOverload) or torch.Tag.inplace_view in func.tags:
            return  # these only change how a value is viewed
        written = _written(func, args, kwargs) if func._schema.is_mutable else []
        new = [tensor for tensor in written or _tensors(out) if not self._is_there(tensor, bool(written))]
        if not new:
            return
        small = all(_is_plain(tensor) for tensor in new)
        values = self.computed(func, args, kwargs, given) if small else None
        if values is None:
            for tensor in written:
                self._forget(tensor)
        elif not written:
            self.keep(out, values)
        else:
            self.keep(written, [(given or {})[id(tensor)] for tensor in written])

    def keep(self, tree: Any, values: Any) -> None:
        """Keep the values of tensors without data."""
        with _disable_current_modes(), torch.no_grad():
            for tensor, value in zip(_tensors(tree), _tensors(values)):
                like = tensor.dtype is value.dtype and tensor.shape == value.shape  # not so for quantized tensors
                if like and tensor.constant is None and id(tensor.untyped_storage()) not in self._kept:
                    self._make_room(tensor.untyped_storage())
                    self.of(tensor).copy_(value)  # type: ignore[union-attr]  # its storage exists now

    def stand_ins(self, known: Any, mode: Any) -> Any:
        """Return tensors without data for known ones, whose sizes only the data tells, and keep their values."""
        out = tree_map(lambda tensor: mode.from_tensor(tensor) if isinstance(tensor, torch.Tensor) else tensor, known)
        self.keep(out, known)
        return out

    def _make_room(self, storage: Any) -> None:
        key, room = id(storage), torch.UntypedStorage(storage.nbytes(), device="cpu")
        self._kept[key] = weakref.ref(storage, lambda _: self._kept.pop(key, None)), room

    def _is_there(self, tensor: Any, written: bool) -> bool:
        """Whether torch itself keeps the value, or the tensor is a view of a known one."""
        if not isinstance(tensor, FakeTensor) or tensor.constant is not None:
            return True
        return not written and _is_plain(tensor) and id(tensor.untyped_storage()) in self._kept

    def _forget(self, tensor: Any) -> None:
        if tensor.layout is torch.strided:
            self._kept.pop(id(tensor.untyped_storage()), None)


def _is_plain(tensor: Any) -> bool:
    return tensor.layout is torch.strided and tensor.numel() <= _SMALL and not tensor.is_complex()


def _is_computable(func: Any, given: Given) -> bool:
    name = func._schema.name.split("::")[-1]
    made = func.namespace == "aten" and name in (*_MAKERS, *_DRAWS)
    if name in _UNINITIALIZED or (torch.Tag.nondeterministic_seeded in func.tags and name not in _DRAWS):
        return False
    return bool(given) or made


def _written(func: Any, args: Any, kwargs: Any) -> List[Any]:
    """Return the arguments that an operation writes to."""
    names = [argument.name for argument in func._schema.arguments]
    named = {**dict(zip(names, args)), **kwargs}
    writes = [
        argument.name
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return _tensors([named.get(name) for name in writes])


def _tensors(tree: Any) -> List[Any]:
    return [tensor for tensor in tree_leaves(tree) if isinstance(tensor, torch.Tensor)]


aten = torch.ops.aten
READS_A_VALUE = (aten._local_scalar_dense.default, aten.equal.default)
_TORCH = os.path.dirname(torch.__file__)
_HALF = torch.tensor(0.5, device="cpu")
# Files of frames between the user's line and this module.
_SKIPPED_FILES = (
    "tensor_values.py",
    "dispatch_trace.py",
    "eval_frame.py",
    "_compile.py",
    "_tensor.py",
    "_python_dispatch.py",
)


class Guesses:
    """Guesses for values that a program reads out of tensors without data: 1 and true. `messages` lists them.

    A loop that waits for `false` gets it after `patience` reads in a row. Without `whole`, whole numbers are not guessed: they
    are sizes most of the time.
    """

    def __init__(self, patience: int, whole: bool = True) -> None:
        self.messages: List[str] = []
        self._patience, self._whole = patience, whole
        self._asked = (("", 0), 0)  # the line, and the number of reads in a row

    def value(self, func: Any, tensor: Any) -> Any:
        """Return the result of `tensor.item()`, or of a comparison."""
        known = getattr(tensor, "constant", None)
        if known is not None and func is not aten.equal.default:
            with _disable_current_modes():
                return known.item()  # a number that the program defined itself
        where = _caller()
        flag = tensor.dtype is torch.bool or func is aten.equal.default
        guess = "true" if flag else "1"
        message = text(
            "{file}:{line} reads a value out of a tensor: assumed to be {value}",
            file=where[0],
            line=where[1],
            value=guess,
        )
        of_torch = where[0].startswith(_TORCH)  # optimizers read their step count, for instance
        if not (self._whole or flag or of_torch or tensor.is_floating_point()):
            raise DataDependentOutputException(func)
        if message not in self.messages and not of_torch:
            self.messages.append(message)
        if not flag:
            return 1.0 if tensor.is_floating_point() else 1
        times = self._asked[1] + 1 if self._asked[0] == where else 1
        self._asked = where, times % self._patience
        return times < self._patience


def fix_random_scalar(func: Any, out: Any) -> None:
    """Assume one half for single random numbers, with which models skip layers (LayerDrop)."""
    if func is aten.rand.default and out.dim() == 0:
        out.constant = _HALF


def _caller() -> Tuple[str, int]:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(_SKIPPED_FILES):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _tolist(tensor: Any) -> Any:
    """Read value by value: torch 2.4 would make symbols, which are not supported here."""
    return tensor.item() if tensor.dim() == 0 else [_tolist(item) for item in tensor]


class GuessingMode(TorchDispatchMode):  # type: ignore[misc]  # torch is not there where types are checked
    """While a model is built, guess values that depend on data, and compute those that do not.

    `mode`: the mode of tensors without data; None if they have data.
    """

    def __init__(self, mode: Any) -> None:
        super().__init__()
        self.guesses = Guesses(patience=3)  # initialization draws random values until they fit (trunc_normal_)
        self.values = KnownValues()
        self._mode = mode
        self._tolist = FakeTensor.tolist

    def __enter__(self) -> "GuessingMode":
        FakeTensor.tolist = _tolist
        super().__enter__()
        return self

    def __exit__(self, *why: Any) -> None:
        super().__exit__(*why)
        FakeTensor.tolist = self._tolist

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._mode is None:
            return func(*args, **kwargs)
        given = self.values.given(args, kwargs)
        try:
            out = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            known = self.values.computed(func, args, kwargs, given)
            if known is not None:
                return self.values.stand_ins(known, self._mode)
            if func not in READS_A_VALUE:
                raise
            return self.guesses.value(func, args[0])
        self.values.follow(func, args, kwargs, given, out)
        return out
