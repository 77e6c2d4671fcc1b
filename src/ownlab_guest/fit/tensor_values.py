"""Values of small tensors that follow from numbers alone, beside the tensors without data that stand for them.

Widths of layers come out of such (RegNet's, for instance): guessed, they would be those of another model.
"""

import os
import sys
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

# What makes a tensor out of numbers alone.
_MAKERS = ("arange", "linspace", "logspace", "full", "zeros", "ones", "eye", "scalar_tensor")
_NOTHING_IN_IT = ("empty_like", "new_empty", "new_empty_strided")
_OF_PLACE = ("device", "layout", "pin_memory")  # where a tensor lies: its value is computed on the processor
_SMALL = 4096  # numbers

Given = Dict[int, Any]  # id of a tensor -> its value


class Values:
    """By the storage in which they would lie, so that each view of it, and each write, is one of the value as well."""

    def __init__(self) -> None:
        self._kept: Dict[int, Tuple[Any, Any]] = {}  # id of a storage -> weak reference to it, and the value's own

    def of(self, tensor: Any) -> Optional[Any]:
        """None where it is not known."""
        if not _is_plain(tensor):
            return None
        if type(tensor) in (torch.Tensor, torch.nn.Parameter):
            return tensor if tensor.device.type == "cpu" else None
        if not isinstance(tensor, FakeTensor):
            return None
        if tensor.constant is not None:
            return tensor.constant  # single numbers torch keeps by itself
        storage = tensor.untyped_storage()
        _, kept = self._kept.get(id(storage), (None, None))
        if kept is None or kept.nbytes() < storage.nbytes():  # it grew (resize_)
            return None
        where = tensor.storage_offset(), tuple(tensor.shape), tensor.stride()
        with _disable_current_modes():
            return torch.empty(0, dtype=tensor.dtype, device="cpu").set_(kept, *where)

    def given(self, args: Any, kwargs: Any) -> Optional[Given]:
        """Those of an operation's arguments, before it runs; None where one is not known."""
        found: Given = {}
        for one in _tensors((args, kwargs)):
            value = self.of(one)
            if value is None:
                return None
            found[id(one)] = value
        return found

    def computed(self, func: Any, args: Any, kwargs: Any, given: Optional[Given]) -> Optional[Any]:
        """What the operation says of known values; into those that it writes to, it writes."""
        if given is None or not isinstance(func, torch._ops.OpOverload) or not _is_computable(func, given):
            return None
        known = {name: one for name, one in kwargs.items() if name not in _OF_PLACE}
        args, known = tree_map(lambda one: given.get(id(one), one), (args, known))
        with _disable_current_modes(), torch.no_grad():
            try:
                return func(*args, **known)
            except (RuntimeError, TypeError, ValueError, IndexError):
                return None  # a processor cannot: then it is not known

    def follow(self, func: Any, args: Any, kwargs: Any, given: Optional[Given], out: Any) -> None:
        """After an operation: what came is known where its arguments were, and what was written to otherwise no more."""
        if not isinstance(func, torch._ops.OpOverload) or torch.Tag.inplace_view in func.tags:
            return  # the latter change how a value is seen
        written = _written(func, args, kwargs) if func._schema.is_mutable else []
        new = [one for one in written or _tensors(out) if not self._is_there(one, bool(written))]
        if not new:
            return
        small = all(_is_plain(one) for one in new)
        found = self.computed(func, args, kwargs, given) if small else None
        if found is None:
            for one in written:
                self._forget(one)
        elif not written:
            self.keep(out, found)
        else:
            self.keep(written, [(given or {})[id(one)] for one in written])

    def keep(self, tree: Any, values: Any) -> None:
        """Tensors without data, and their values."""
        with _disable_current_modes(), torch.no_grad():
            for one, value in zip(_tensors(tree), _tensors(values)):
                like = one.dtype is value.dtype and one.shape == value.shape  # quantized ones are not
                if like and one.constant is None and id(one.untyped_storage()) not in self._kept:
                    self._make_room(one.untyped_storage())
                    self.of(one).copy_(value)  # type: ignore[union-attr]  # there is room now

    def _make_room(self, storage: Any) -> None:
        key, room = id(storage), torch.UntypedStorage(storage.nbytes(), device="cpu")
        self._kept[key] = weakref.ref(storage, lambda _: self._kept.pop(key, None)), room

    def _is_there(self, tensor: Any, written: bool) -> bool:
        """Torch keeps it by itself, or it is a view of what is known."""
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
    if torch.Tag.nondeterministic_seeded in func.tags or name in _NOTHING_IN_IT:
        return False
    return bool(given) or (func.namespace == "aten" and name in _MAKERS)


def _written(func: Any, args: Any, kwargs: Any) -> List[Any]:
    """The arguments that it writes to."""
    names = [one.name for one in func._schema.arguments]
    named = {**dict(zip(names, args)), **kwargs}
    writes = [one.name for one in func._schema.arguments if one.alias_info is not None and one.alias_info.is_write]
    return _tensors([named.get(name) for name in writes])


def _tensors(tree: Any) -> List[Any]:
    return [one for one in tree_leaves(tree) if isinstance(one, torch.Tensor)]


aten = torch.ops.aten
VALUES = (aten._local_scalar_dense.default, aten.equal.default)
_TORCH = os.path.dirname(torch.__file__)
_HALF = torch.tensor(0.5, device="cpu")
# Between the user's line and us.
_BETWEEN = (
    "tensor_values.py",
    "dispatch_trace.py",
    "eval_frame.py",
    "_compile.py",
    "_tensor.py",
    "_python_dispatch.py",
)


class Guesses:
    """Answers where a program reads a value out of a tensor that has none: 1 and true; and what was guessed.

    A loop that waits for `false` gets it when it has asked `patience` times in a row.
    """

    def __init__(self, patience: int) -> None:
        self.said: List[str] = []
        self._patience = patience
        self._asked = (("", 0), 0)  # where, and how often in a row

    def value(self, func: Any, tensor: Any) -> Any:
        """What `tensor.item()`, or a question about it, returns."""
        known = getattr(tensor, "constant", None)
        if known is not None and func is not aten.equal.default:
            with _disable_current_modes():
                return known.item()  # a number that the program wrote down itself
        where = _caller()
        flag = tensor.dtype is torch.bool or func is aten.equal.default
        words = f"{where[0]}:{where[1]} reads a value out of a tensor: taken to be {'true' if flag else '1'}"
        of_torch = where[0].startswith(_TORCH)  # optimizers read their count of steps, for instance
        if words not in self.said and not of_torch:
            self.said.append(words)
        if not flag:
            return 1.0 if tensor.is_floating_point() else 1
        times = self._asked[1] + 1 if self._asked[0] == where else 1
        self._asked = where, times % self._patience
        return times < self._patience


def drawn(func: Any, out: Any) -> None:
    """A single random number decides what a model leaves out this time (LayerDrop): it is taken to be one half."""
    if func is aten.rand.default and out.dim() == 0:
        out.constant = _HALF


def _caller() -> Tuple[str, int]:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.endswith(_BETWEEN):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def _tolist(tensor: Any) -> Any:
    """Value by value: torch 2.4 makes symbols of them, for which it has no place here."""
    return tensor.item() if tensor.dim() == 0 else [_tolist(one) for one in tensor]


class Guessing(TorchDispatchMode):  # type: ignore[misc]  # torch is not there where types are checked
    """While a model is built: values that depend on data are guessed, and those that depend on none are known.

    `mode`: that of tensors without data; None where they have it.
    """

    def __init__(self, mode: Any) -> None:
        super().__init__()
        self.guesses = Guesses(patience=3)  # initial values are drawn again and again until they fit (trunc_normal_)
        self._mode = mode
        self._values = Values()
        self._tolist = FakeTensor.tolist

    def __enter__(self) -> "Guessing":
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
        given = self._values.given(args, kwargs)
        try:
            out = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            known = self._values.computed(func, args, kwargs, given)
            if known is not None:
                return self._without_data(known)
            if func not in VALUES:
                raise
            return self.guesses.value(func, args[0])
        self._values.follow(func, args, kwargs, given, out)
        return out

    def _without_data(self, known: Any) -> Any:
        """Of tensors, those that stand for them."""
        out = tree_map(lambda one: self._mode.from_tensor(one) if isinstance(one, torch.Tensor) else one, known)
        self._values.keep(out, known)
        return out
