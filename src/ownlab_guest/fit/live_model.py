"""A model that lives in this process: its step is traced on a copy without data, and the model stays as it is."""

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
from ownlab_guest.fit.errors import Refused, is_of_library, refused
from ownlab_guest.fit.request import Request, parsed
from ownlab_guest.fit.training_step import Built, loss_of

# Where a module keeps functions that are called beside its own.
_HOOKS = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
)


class Live(NamedTuple):
    """What a notebook gave."""

    model: Any
    inputs: Any = (
        None  # tensors in tuples, lists and dicts, or shapes in their places; None: what the model itself knows
    )
    loss: Optional[Callable[..., Any]] = None
    targets: Any = None  # where there are any, the loss is given them beside the output
    resize: Callable[[Any], Any] = lambda size: size  # where another batch is wanted than what was given


class Size(NamedTuple):
    """A tensor to be made."""

    shape: Tuple[int, ...]
    dtype: Any
    of: Any = None  # the tensor that was given: met again, in a loss for instance, it is this one


def whole_request(live: Live, said: Dict[str, Any]) -> Dict[str, Any]:
    """A request with all that the model and its inputs say of themselves."""
    try:
        request = prepared(live, parsed(said))[1]
    except Refused:  # so says the answer
        return said
    return {**request._asdict(), "card": request.card._asdict()}


def answer(live: Live, said: Dict[str, Any]) -> Dict[str, Any]:
    """The trace of a step, or what was wrong and where."""
    try:
        return traced(*prepared(live, parsed(said)))
    except Refused as exc:
        return exc.answer()


def prepared(live: Live, request: Request) -> Tuple[Live, Request]:
    """The model without what carries it, inputs as sizes, and a request that knows batch, length and precision."""
    model, _ = training_step.bare(live.model)
    if not isinstance(model, torch.nn.Module):
        raise Refused("bad-model", f"the model is no torch.nn.Module but {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise Refused("bad-model", "a TorchScript model cannot be followed: give the module that it was made from")
    dtype = _dtype_of(model)
    precision = {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
    if request.precision == "fp32" and precision is not None:
        request = request._replace(precision=precision)
    inputs = _known_inputs(model, request) if live.inputs is None else live.inputs
    if isinstance(inputs, torch.Tensor) or _is_shape(inputs):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) and not hasattr(inputs, "keys"):
        raise Refused(
            "bad-inputs", f"the inputs are {type(inputs).__name__}: tensors, shapes, a tuple or a dict is meant"
        )
    inputs = _sized(dict(inputs) if hasattr(inputs, "keys") else tuple(inputs), dtype)
    batch, seq = _batch_and_length(inputs)
    for name, asked, there in (("batch", request.batch, batch), ("seq", request.seq, seq)):
        if asked is not None and there is None:
            raise Refused("no-size", f"{name}={asked}: in these inputs it cannot be seen which size is meant")
    request = request._replace(target=type(model).__name__, batch=request.batch or batch, seq=request.seq or seq)
    # The notebook's own sizes are replaced by those that are asked for, wherever they stand.
    resize = _resized(batch, seq, request)
    targets = None if live.targets is None else tree_map(resize, _sized(live.targets, dtype), is_leaf=_is_size)
    return Live(model, tree_map(resize, inputs, is_leaf=_is_size), live.loss, targets, resize), request


def traced(live: Live, request: Request) -> Dict[str, Any]:
    """The trace of a step of what `prepared` made."""
    here = _Here(live.resize)
    left_out: List[str] = []

    def build(_: Request) -> Built:
        model = here.copied(live.model)
        left_out.extend(_without_hooks(model))
        inputs, targets = here.made(live.inputs), here.made(live.targets)
        loss: Callable[..., Any] = live.loss or loss_of
        return Built(model, inputs, loss if live.targets is None else lambda output: loss(output, targets))

    with _nothing_said(), torch.enable_grad(), torch.device("cpu"), here:
        found = trace.traced(request, build)
    return {**found, "guesses": left_out + found["guesses"]}


class _Here(TorchFunctionMode):  # type: ignore[misc]  # torch is not there where types are checked
    """While it lasts, whatever is on another device is met on the CPU, without data; and copies have no data."""

    def __init__(self, resize: Callable[[Any], Any]) -> None:
        super().__init__()
        self._resize = resize
        # By id: the tensor itself, which so keeps the id for its own, and its double.
        self._met: Dict[int, Tuple[Any, Any]] = {}

    def copied(self, model: Any) -> Any:
        """The model with weights that have no data."""
        memo: Dict[int, Any] = {}
        for module in model.modules():
            for held in (*module._parameters.values(), *module._buffers.values()):
                if held is not None:
                    memo[id(held)] = self._double(held)
        try:
            found = copy.deepcopy(model, memo)
        except Refused:
            raise
        except Exception as exc:
            raise refused(exc, "cannot-be-copied", f"copying {type(model).__name__} (copy.deepcopy)") from exc
        for module in found.modules():
            for name, value in list(vars(module).items()):
                if isinstance(value, FunctionType):
                    vars(module)[name] = _rebound(value, memo)
        return found

    def made(self, tree: Any) -> Any:
        """Tensors of these sizes."""

        def make(one: Any) -> Any:
            if not _is_size(one):
                return one
            if one.of is None:
                return torch.empty(one.shape, dtype=one.dtype, device="cpu")
            if one.shape != tuple(one.of.shape) and id(one.of) not in self._met:
                self._met[id(one.of)] = one.of, torch.empty(one.shape, dtype=one.dtype, device="cpu")
            return self._double(one.of)

        return tree_map(make, tree, is_leaf=_is_size)

    def _double(self, tensor: Any) -> Any:
        if id(tensor) not in self._met:
            if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
                raise Refused("bad-model", "the model has layers whose sizes are not known yet: call it once before")
            new = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, tensor.requires_grad)
            elif tensor.is_leaf and tensor.requires_grad:
                new.requires_grad_()
            self._met[id(tensor)] = tensor, new
        return self._met[id(tensor)][1]

    def _here(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if isinstance(value, FakeTensor) or (value.dim() == 0 and value.device.type == "cpu"):
                return value
            if id(value) not in self._met and not isinstance(value, torch.nn.Parameter):
                return self.made(self._resize(_sized(value, None)))  # targets that the loss knows by itself
            # The weights themselves are met where code holds the model by another name than the copy's functions do.
            return self._double(value)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return func(*args, **kwargs)  # questions for a shape, a device
        if func is torch.Tensor.__deepcopy__:
            return args[1].setdefault(id(args[0]), self._double(args[0]))
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], (str, int)):
            args = (args[0], torch.device("cpu"), *args[2:])
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        return func(*tree_map(self._here, args), **tree_map(self._here, kwargs))


def _rebound(function: FunctionType, memo: Dict[int, Any]) -> FunctionType:
    """A function that was put into the model, such as a forward written in a cell, knowing the copy by the model's name."""
    cells = tuple(CellType(memo.get(id(cell.cell_contents), cell.cell_contents)) for cell in function.__closure__ or ())
    here = {name: memo[id(value)] for name, value in function.__globals__.items() if id(value) in memo}
    names = {**function.__globals__, **here} if here else function.__globals__
    new = FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def _without_hooks(model: Any) -> Iterator[str]:
    """Functions of the notebook itself are not called: what they put aside would be tensors without data."""
    gone = 0
    for module in model.modules():
        for table in _HOOKS:
            hooks = getattr(module, table, None) or {}
            own = [
                key
                for key, hook in hooks.items()
                if isinstance(hook, FunctionType) and not is_of_library(hook.__code__.co_filename)
            ]
            for key in own:
                del hooks[key]
            gone += len(own)
    if gone:
        many = gone > 1
        yield f"{gone} hook{'s' * many} of this notebook left out: what {'they keep' if many else 'it keeps'} is not counted"


@contextmanager
def _nothing_said() -> Iterator[None]:
    """Random numbers go on afterwards as if nothing had been. What torch logs of a failure, the answer says."""
    numbers, plain = torch.get_rng_state(), random.getstate()
    log = logging.getLogger("torch._subclasses.fake_tensor")
    silent, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = silent
        torch.set_rng_state(numbers)
        random.setstate(plain)


# -- sizes


def _is_size(value: Any) -> bool:
    return isinstance(value, Size)


def _is_shape(value: Any) -> bool:
    """(16, 3, 224, 224), also with a type of torch's at its end."""
    if not isinstance(value, (tuple, list)) or not value:
        return False
    numbers = value[:-1] if isinstance(value[-1], torch.dtype) else value
    return bool(numbers) and all(isinstance(one, int) and not isinstance(one, bool) for one in numbers)


def _sized(tree: Any, dtype: Any) -> Any:
    """Tensors and shapes as sizes; whatever else a model is given stays."""
    if _is_size(tree):
        return tree
    if isinstance(tree, torch.Tensor):
        return Size(tuple(tree.shape), tree.dtype, tree)
    if _is_shape(tree):
        typed = isinstance(tree[-1], torch.dtype)
        shape = tuple(tree[:-1] if typed else tree)
        if min(shape) < 1:
            raise Refused("bad-inputs", f"no tensor has the shape {shape}")
        return Size(shape, tree[-1] if typed else dtype)
    if isinstance(tree, dict):
        return {key: _sized(value, dtype) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return tuple(_sized(value, dtype) for value in tree)
    return tree


def _batch_and_length(inputs: Any) -> Tuple[Optional[int], Optional[int]]:
    sizes = [one for one in torch.utils._pytree.tree_leaves(inputs, is_leaf=_is_size) if _is_size(one) and one.shape]
    tokens = [one for one in sizes if len(one.shape) == 2 and not one.dtype.is_floating_point]
    return (sizes[0].shape[0] if sizes else None), (tokens[0].shape[1] if tokens else None)


def _resized(batch: Optional[int], seq: Optional[int], request: Request) -> Callable[[Any], Any]:
    def resize(one: Any) -> Any:
        if not _is_size(one) or not one.shape:
            return one
        shape = list(one.shape)
        if shape[0] == batch and request.batch is not None:
            shape[0] = request.batch
        if len(shape) > 1 and shape[1] == seq and request.seq is not None:
            shape[1] = request.seq
        return one._replace(shape=tuple(shape))

    return resize


def _dtype_of(model: Any) -> Any:
    found = next((one.dtype for one in model.parameters() if one.is_floating_point()), None)
    return torch.get_default_dtype() if found is None else found


def _known_inputs(model: Any, request: Request) -> Any:
    """Of a model of transformers by its configuration, of a LightningModule its own example."""
    example = getattr(model, "example_input_array", None)
    if example is not None:
        return example
    if hasattr(model, "main_input_name") and hasattr(model, "config"):
        from torch._subclasses.fake_tensor import FakeTensorMode

        from ownlab_guest.fit import model_loader

        with FakeTensorMode():
            return _sized(model_loader.inputs_of(model, model.config, request), None)
    raise Refused(
        "no-inputs",
        f"what does {type(model).__name__} take? Give tensors or shapes: ownlab.fit(model, (16, 3, 224, 224))",
    )
