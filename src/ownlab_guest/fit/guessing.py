"""Values that a program reads out of tensors which have none."""

import os
import sys
import weakref
from typing import Any, List, Tuple

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

aten = torch.ops.aten
VALUES = (aten._local_scalar_dense.default, aten.equal.default)
_TORCH = os.path.dirname(torch.__file__)
_HALF = torch.tensor(0.5, device="cpu")
# What makes a tensor out of numbers alone.
_MAKERS = ("arange", "linspace", "logspace", "full", "zeros", "ones", "eye", "scalar_tensor")
_SMALL = 4096  # numbers
# Between the user's line and us.
_BETWEEN = ("guessing.py", "tracing.py", "eval_frame.py", "_compile.py", "_tensor.py", "_python_dispatch.py")


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


class Knowing(FakeTensorMode):  # type: ignore[misc]  # torch is not there where types are checked
    """Tensors without data; but while `knows`, small ones that follow from numbers alone are computed, too.

    Widths of layers come out of such (RegNet's, for instance): guessed, they would be those of another model.
    """

    knows = False

    def may_turn_const(self, t: Any) -> bool:
        """Whether what was computed of a tensor is kept. torch keeps single numbers."""
        single: bool = super().may_turn_const(t)
        return single or (self.knows and t.numel() <= _SMALL and t.layout is torch.strided and not self.is_our_fake(t))


class Guessing(TorchDispatchMode):  # type: ignore[misc]
    """While a model is built: values that depend on data are guessed, and those that depend on none are known."""

    def __init__(self, mode: Any) -> None:
        super().__init__()
        self.guesses = Guesses(patience=3)  # initial values are drawn again and again until they fit (trunc_normal_)
        self._mode = mode if isinstance(mode, Knowing) else None
        self._known: List[Any] = []

    def __enter__(self) -> "Guessing":
        if self._mode is not None:
            self._mode.knows = True
        super().__enter__()
        return self

    def __exit__(self, *why: Any) -> None:
        """From here on nothing is known: steps write into the model's tensors."""
        super().__exit__(*why)
        if self._mode is not None:
            self._mode.knows = False
        for tensor in (reference() for reference in self._known):
            if tensor is not None:
                tensor.constant = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            out = func(*args, **(kwargs or {}))
        except DataDependentOutputException:
            if func not in VALUES:
                raise
            return self.guesses.value(func, args[0])
        if self._mode is not None:
            self._know(self._mode, func, args, kwargs or {}, out)
        return out

    def _know(self, mode: Knowing, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        if isinstance(out, FakeTensor) and out.constant is None and _makes(func) and out.numel() <= _SMALL:
            with _disable_current_modes():
                out.constant = func(*args, **{**kwargs, "device": torch.device("cpu")})
            mode.fake_tensor_converter.add_constant_storage_mapping(out)
        for one in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(one, FakeTensor) and one.constant is not None and one.numel() > 1:
                self._known.append(weakref.ref(one))


def _makes(func: Any) -> bool:
    return func.namespace == "aten" and str(func).split(".")[1] in _MAKERS
