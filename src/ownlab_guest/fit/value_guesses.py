"""Values that a program reads out of tensors which have none."""

import os
import sys
from typing import Any, List, Tuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from ownlab_guest.fit.constant_values import Values

aten = torch.ops.aten
VALUES = (aten._local_scalar_dense.default, aten.equal.default)
_TORCH = os.path.dirname(torch.__file__)
_HALF = torch.tensor(0.5, device="cpu")
# Between the user's line and us.
_BETWEEN = (
    "value_guesses.py",
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
