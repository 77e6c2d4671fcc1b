"""The step that is traced without a card and measured on one: the same lines for both, else they could not be compared."""

import contextlib
import importlib
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Tuple

import torch

from ownlab_guest.fit.errors import Refused
from ownlab_guest.fit.request import Request

CARRIERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}
Tree = Any  # tensors in dicts, lists and tuples, as models take them


class Built(NamedTuple):
    """What `build()` returned."""

    model: Any
    inputs: Tree
    loss: Callable[[Any], Any]
    file: Optional[str] = None  # where the user's code is


def dtype_of(name: Optional[str]) -> Any:
    """torch's own type of that name."""
    return None if name is None else getattr(torch, name)


def moved(tree: Tree, device: str, request: Request) -> Tree:
    """Inputs on the device, in the type and layout of the weights."""
    if isinstance(tree, torch.Tensor):
        tensor = tree.to(device)
        dtype = dtype_of(request.dtype)
        if dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(dtype)
        if request.channels_last and tensor.dim() == 4:
            tensor = tensor.to(memory_format=torch.channels_last)
        return tensor
    if isinstance(tree, dict):
        return {key: moved(value, device, request) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [moved(value, device, request) for value in tree]
    return tree


def loss_of(output: Any) -> Any:
    """What is differentiated where build() names no loss: the model's own, else the mean of its first output."""
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if loss is not None:
        return loss
    if isinstance(output, dict):
        output = next(iter(output.values()))
    while isinstance(output, (list, tuple)):
        output = output[0]
    return output.float().mean()


def checkpointed(model: Any) -> None:
    """Turn the model's own gradient checkpointing on."""
    enable = getattr(model, "gradient_checkpointing_enable", None)
    if enable is None:
        raise Refused(
            "no-checkpointing",
            f"{type(model).__name__} has no gradient_checkpointing_enable(): its own code has to do it",
        )
    enable()


def optimizer_of(model: Any, request: Request) -> Any:
    """The optimizer by its name, with torch's defaults."""
    parameters = [one for one in model.parameters() if one.requires_grad]
    if not parameters:
        raise Refused("nothing-to-train", "no parameter of the model requires a gradient")
    kinds: Dict[str, Callable[..., Any]] = {
        "sgd": lambda **more: torch.optim.SGD(parameters, 1e-3, momentum=0.9, **more),
        "sgd-plain": lambda **more: torch.optim.SGD(parameters, 1e-3, **more),
        "adamw-8bit": lambda **more: _eight_bit(parameters, **more),
    }
    for name in (
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "Adamax",
        "AdamW",
        "ASGD",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
    ):
        if hasattr(torch.optim, name):  # Adafactor came with torch 2.5
            kinds[name.lower()] = lambda name=name, **more: getattr(torch.optim, name)(parameters, 1e-4, **more)
    if request.optimizer not in kinds:
        raise Refused(
            "no-optimizer", f"no optimizer is called {request.optimizer}; there are {', '.join(sorted(kinds))}"
        )
    more: Dict[str, bool] = {"fused": True} if request.fused else {}
    if request.foreach is not None:
        more["foreach"] = request.foreach
    try:
        return kinds[request.optimizer](**more)
    except (TypeError, RuntimeError) as exc:
        raise Refused(
            "no-optimizer", f"{request.optimizer} cannot be {' or '.join(more)} in this torch: {exc}"
        ) from exc


def bare(model: Any) -> Tuple[Any, List[str]]:
    """The model itself, where something carries it; and what is to be said of that."""
    said = []
    while type(model).__name__ in CARRIERS:
        if type(model).__name__ == "OptimizedModule":
            said.append("torch.compile: followed as if the model were not compiled")
        model = getattr(model, CARRIERS[type(model).__name__])
    return model, said


def guesses(request: Request) -> List[str]:
    """What of the step is not torch's own, and stands for something."""
    if request.train and request.optimizer == "adamw-8bit":
        return ["adamw-8bit: states of bitsandbytes' size, by its rules; it was not run"]
    return []


def _eight_bit(parameters: List[Any], **more: bool) -> Any:
    """bitsandbytes' own where there is a card to use it on; else what stands for it."""
    if more:
        raise TypeError("it has one form alone")
    if parameters[0].is_cuda:
        try:
            bitsandbytes = importlib.import_module("bitsandbytes")
        except ImportError as exc:
            raise Refused("no-optimizer", f"adamw-8bit needs bitsandbytes to run: {exc}") from exc
        return bitsandbytes.optim.AdamW8bit(parameters, 1e-4)
    return EightBitAdam(parameters)


def step_of(built: Built, inputs: Tree, request: Request, device: str) -> Callable[[], None]:
    """One step, to be called again and again. A model that has `optimizers` and `step` of its own is asked for them."""
    model = built.model
    kind = dtype_of(request.autocast)

    def autocast() -> ContextManager[Any]:
        return contextlib.nullcontext() if kind is None else torch.autocast(device, kind)

    def call() -> Any:
        return model(**inputs) if isinstance(inputs, dict) else model(*inputs)

    if not request.train:
        model.eval()

        def infer() -> None:
            with torch.inference_mode(), autocast():
                call()

        return infer
    model.train()
    if hasattr(model, "optimizers") and hasattr(model, "step"):
        optimizers: List[Any] = model.optimizers()
        return lambda: model.step(optimizers, *inputs)
    optimizer = optimizer_of(model, request)
    # It begins low: at torch's own 65,536 the first steps are left out, and the optimizer's state is not there yet.
    scaler = torch.amp.GradScaler(device, init_scale=128.0) if request.precision == "amp-fp16" else None

    def train() -> None:
        for _ in range(request.accumulate):
            with autocast():
                value = built.loss(call())
            (value if scaler is None else scaler.scale(value)).backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()

    return train


LEAST = 4096
BLOCK = 256
LEVELS = 256  # values that a byte stands for, in a table of float32


class EightBitAdam(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not there where types are checked
    """In place of bitsandbytes.optim.AdamW8bit, on tensors without data."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self._tables: Any = None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Optional[Callable[[], Any]] = None) -> None:
        """States come with the first step; nothing comes after."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self._begin(parameter)

    def _begin(self, parameter: Any) -> None:
        state, count = self.state[parameter], parameter.numel()
        if count < LEAST:
            for name in ("state1", "state2"):
                state[name] = torch.zeros_like(parameter, dtype=torch.float32)
            return
        if self._tables is None:
            self._tables = [parameter.new_zeros(LEVELS, dtype=torch.float32) for _ in range(2)]
        for name in ("1", "2"):
            state["state" + name] = torch.zeros_like(parameter, dtype=torch.uint8)
        for name in ("1", "2"):
            state["absmax" + name] = parameter.new_zeros(-(-count // BLOCK), dtype=torch.float32)
