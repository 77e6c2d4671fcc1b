"""Traces a model that lives in this process, as in a notebook: on a copy without data, so that the model is not changed."""

import copy
import logging
import random
from contextlib import contextmanager
from types import CellType, FunctionType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ownlab_guest.fit import trace, training_step
from ownlab_guest.fit.errors import FitError, error_from, is_library_file
from ownlab_guest.fit.request import Request, parse_request
from ownlab_guest.fit.training_step import Built, default_loss
from ownlab_guest.text import plural, template, text

# Attributes of a module that hold hooks.
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)


class LiveModel(NamedTuple):
    """The arguments of `ownlab.fit`."""

    model: Any
    inputs: Any = (
        None  # tensors in tuples, lists and dicts, or shapes in their place; None: what the model itself defines
    )
    loss: Optional[Callable[..., Any]] = None
    targets: Any = None  # passed to the loss after the output, if given
    resize: Callable[[Any], Any] = lambda size: size  # changes a TensorSpec to the requested batch and length


class TensorSpec(NamedTuple):
    """A tensor to create."""

    shape: Tuple[int, ...]
    dtype: Any
    of: Any = None  # the tensor that was given: its other uses, in a loss for instance, get the same stand-in


def complete_request(live: LiveModel, fields: Dict[str, Any]) -> Dict[str, Any]:
    """Fill in what the model and its inputs define: batch, length and precision."""
    try:
        request = prepare(live, parse_request(fields))[1]
    except FitError:  # the trace will report it
        return fields
    return {**request._asdict(), "card": request.card._asdict()}


def answer(live: LiveModel, fields: Dict[str, Any]) -> Dict[str, Any]:
    """Return the trace of a step, or an error with its line."""
    try:
        return trace_step(*prepare(live, parse_request(fields)))
    except FitError as exc:
        return exc.answer()


def prepare(live: LiveModel, request: Request) -> Tuple[LiveModel, Request]:
    """Return the model without wrappers, its inputs as specs, and a request with batch, length and precision."""
    model, _ = training_step.unwrap(live.model)
    if not isinstance(model, torch.nn.Module):
        raise FitError("bad-model", text("The model must be a torch.nn.Module, not {type}", type=type(model).__name__))
    if isinstance(model, torch.jit.ScriptModule):
        raise FitError("bad-model", text("A TorchScript model cannot be traced: give the module that it was made from"))
    dtype = _dtype_of(model)
    precision = {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
    if request.precision == "fp32" and precision is not None:
        request = request._replace(precision=precision)
    inputs = _example_inputs(model, request) if live.inputs is None else live.inputs
    if isinstance(inputs, torch.Tensor) or _is_shape(inputs):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) and not hasattr(inputs, "keys"):
        raise FitError(
            "bad-inputs",
            text("The inputs are {type}; expected tensors, shapes, a tuple or a dict", type=type(inputs).__name__),
        )
    inputs = _to_specs(dict(inputs) if hasattr(inputs, "keys") else tuple(inputs), dtype)
    batch, seq = _batch_and_length(inputs)
    for name, asked, there in (("batch", request.batch, batch), ("seq", request.seq, seq)):
        if asked is not None and there is None:
            raise FitError(
                "no-size",
                text("{name}={value}: these inputs do not show which dimension it is", name=name, value=asked),
            )
    request = request._replace(target=type(model).__name__, batch=request.batch or batch, seq=request.seq or seq)
    # Replace the notebook's sizes by the requested ones, wherever they occur.
    resize = _make_resize(batch, seq, request)
    targets = None if live.targets is None else tree_map(resize, _to_specs(live.targets, dtype), is_leaf=_is_spec)
    return LiveModel(model, tree_map(resize, inputs, is_leaf=_is_spec), live.loss, targets, resize), request


def trace_step(live: LiveModel, request: Request) -> Dict[str, Any]:
    """Trace a step of what `prepare` returned."""
    here = _OnCpu(live.resize)
    left_out: List[str] = []

    def build(_: Request) -> Built:
        model = here.copy_model(live.model)
        left_out.extend(_remove_hooks(model))
        inputs, targets = here.make_tensors(live.inputs), here.make_tensors(live.targets)
        loss: Callable[..., Any] = live.loss or default_loss
        return Built(model, inputs, loss if live.targets is None else lambda output: loss(output, targets))

    with _quiet(), torch.enable_grad(), torch.device("cpu"), here:
        traced = trace.trace_step(request, build)
    return {**traced, "guesses": left_out + traced["guesses"]}


class _OnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch is not there where types are checked
    """Replaces tensors of other devices by stand-ins on the CPU without data; copies of tensors have no data, too."""

    def __init__(self, resize: Callable[[Any], Any]) -> None:
        super().__init__()
        self._resize = resize
        # By id: the tensor itself, so that its id is not reused, and its stand-in.
        self._stand_ins: Dict[int, Tuple[Any, Any]] = {}

    def copy_model(self, model: Any) -> Any:
        """Copy the model with weights that have no data."""
        memo: Dict[int, Any] = {}
        for module in model.modules():
            for held in (*module._parameters.values(), *module._buffers.values()):
                if held is not None:
                    memo[id(held)] = self._stand_in(held)
        try:
            copied = copy.deepcopy(model, memo)
        except FitError:
            raise
        except Exception as exc:
            message = template("copying {model} (copy.deepcopy) raised {error}")
            raise error_from(exc, "cannot-be-copied", message, model=type(model).__name__) from exc
        for module in copied.modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, FunctionType):
                    vars(module)[name] = _rebind(value, memo)
        return copied

    def make_tensors(self, tree: Any) -> Any:
        """Create the tensors of specs."""

        def make(spec: Any) -> Any:
            if not _is_spec(spec):
                return spec
            if spec.of is None:
                return torch.empty(spec.shape, dtype=spec.dtype, device="cpu")
            if spec.shape != tuple(spec.of.shape) and id(spec.of) not in self._stand_ins:
                self._stand_ins[id(spec.of)] = spec.of, torch.empty(spec.shape, dtype=spec.dtype, device="cpu")
            return self._stand_in(spec.of)

        return tree_map(make, tree, is_leaf=_is_spec)

    def _stand_in(self, tensor: Any) -> Any:
        if id(tensor) not in self._stand_ins:
            if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                raise FitError(
                    "bad-model", text("The model has layers without sizes (LazyLinear and similar): call it once first")
                )
            new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, tensor.requires_grad)
            elif tensor.is_leaf and tensor.requires_grad:
                new.requires_grad_()
            self._stand_ins[id(tensor)] = tensor, new
        return self._stand_ins[id(tensor)][1]

    def _here(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or (value.dim() == 0 and value.device.type == "cpu"):
                return value
            if id(value) not in self._stand_ins and not isinstance(value, torch.nn.Parameter):
                return self.make_tensors(self._resize(_to_specs(value, None)))  # targets that the loss itself holds
            # Code may hold the model itself under another name, and use its weights.
            return self._stand_in(value)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return func(*args, **kwargs)  # queries for a shape, a device
        if func is torch.Tensor.__deepcopy__:
            return args[1].setdefault(id(args[0]), self._stand_in(args[0]))
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], (str, int)):
            args = (args[0], torch.device("cpu"), *args[2:])
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        return func(*tree_map(self._here, args), **tree_map(self._here, kwargs))


def _rebind(function: FunctionType, memo: Dict[int, Any]) -> FunctionType:
    """Copy a function of the model, such as a forward written in a cell, so that it refers to the copied model."""
    cells = tuple(CellType(memo.get(id(cell.cell_contents), cell.cell_contents)) for cell in function.__closure__ or ())
    here = {name: memo[id(value)] for name, value in function.__globals__.items() if id(value) in memo}
    names = {**function.__globals__, **here} if here else function.__globals__
    new = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _remove_hooks(model: Any) -> Iterator[str]:
    """Remove hooks of the notebook itself, which would collect tensors without data; yield a note."""
    gone = 0
    for module in model.modules():
        for table in _HOOKS:
            hooks = getattr(module, table, None) or {}
            own = [
                key
                for key, hook in hooks.items()
                if isinstance(hook, FunctionType) and not is_library_file(hook.__code__.co_filename)
            ]
            for key in own:
                del hooks[key]
            gone += len(own)
    if gone:
        yield plural(
            gone,
            "1 hook of this notebook ignored: memory that hooks keep is not counted",
            "{n} hooks of this notebook ignored: memory that hooks keep is not counted",
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Restore the random state afterwards, and silence torch's log of failures, which the answer reports."""
    numbers, plain = torch.get_rng_state(), random.getstate()
    log = logging.getLogger("torch._subclasses.fake_tensor")
    silent, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = silent
        torch.set_rng_state(numbers)
        random.setstate(plain)


# -- specs of tensors


def _is_spec(value: Any) -> bool:
    return isinstance(value, TensorSpec)


def _is_shape(value: Any) -> bool:
    """Whether a value is a shape such as (16, 3, 224, 224), optionally with a dtype at its end."""
    if not isinstance(value, (tuple, list)) or not value:
        return False
    numbers = value[:-1] if isinstance(value[-1], torch.dtype) else value
    return bool(numbers) and all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)


def _to_specs(tree: Any, dtype: Any) -> Any:
    """Convert tensors and shapes to specs; keep all other arguments."""
    if _is_spec(tree):
        return tree
    if isinstance(tree, torch.Tensor):
        return TensorSpec(tuple(tree.shape), tree.dtype, tree)
    if _is_shape(tree):
        typed = isinstance(tree[-1], torch.dtype)
        shape = tuple(tree[:-1] if typed else tree)
        if min(shape) < 1:
            raise FitError("bad-inputs", text("Invalid shape {shape}: sizes must be positive", shape=shape))
        return TensorSpec(shape, tree[-1] if typed else dtype)
    if isinstance(tree, dict):
        return {key: _to_specs(value, dtype) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return tuple(_to_specs(value, dtype) for value in tree)
    return tree


def _batch_and_length(inputs: Any) -> Tuple[Optional[int], Optional[int]]:
    specs = [
        spec for spec in torch.utils._pytree.tree_leaves(inputs, is_leaf=_is_spec) if _is_spec(spec) and spec.shape
    ]
    tokens = [spec for spec in specs if len(spec.shape) == 2 and not spec.dtype.is_floating_point]
    return (specs[0].shape[0] if specs else None), (tokens[0].shape[1] if tokens else None)


def _make_resize(batch: Optional[int], seq: Optional[int], request: Request) -> Callable[[Any], Any]:
    def resize(spec: Any) -> Any:
        if not _is_spec(spec) or not spec.shape:
            return spec
        shape = list(spec.shape)
        if shape[0] == batch and request.batch is not None:
            shape[0] = request.batch
        if len(shape) > 1 and shape[1] == seq and request.seq is not None:
            shape[1] = request.seq
        return spec._replace(shape=tuple(shape))

    return resize


def _dtype_of(model: Any) -> Any:
    dtype = next((parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()), None)
    return torch.get_default_dtype() if dtype is None else dtype


def _example_inputs(model: Any, request: Request) -> Any:
    """Return example inputs: of a transformers model by its configuration, of a LightningModule its own."""
    example = getattr(model, "example_input_array", None)
    if example is not None:
        return example
    if hasattr(model, "main_input_name") and hasattr(model, "config"):
        from torch._subclasses.fake_tensor import FakeTensorMode

        from ownlab_guest.fit import model_loader

        with FakeTensorMode():
            return _to_specs(model_loader.make_transformers_inputs(model, model.config, request), None)
    raise FitError(
        "no-inputs",
        text(
            "Missing inputs of {model}. Give tensors or shapes: ownlab.fit(model, (16, 3, 224, 224))",
            model=type(model).__name__,
        ),
    )
