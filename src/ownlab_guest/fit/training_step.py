"""The step that is traced without a card and measured on one: the same code for both, so that they can be compared."""

import contextlib
import importlib
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple, Optional, Tuple, Union

import torch

from ownlab_guest.fit.errors import FitError
from ownlab_guest.fit.request import Request
from ownlab_guest.text import listing, template, text

WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}
Tree = Any  # tensors in dicts, lists and tuples
Argument = Union[bool, float]


class Built(NamedTuple):
    """The values that `build()` returned."""

    model: Any
    inputs: Tree
    loss: Callable[[Any], Any]
    file: Optional[str] = None  # the file of the user's code


def torch_dtype(name: Optional[str]) -> Any:
    """Return torch's dtype of that name."""
    return None if name is None else getattr(torch, name)


def to_device(tree: Tree, device: str, request: Request) -> Tree:
    """Move inputs to the device, in the dtype and layout of the weights."""
    if isinstance(tree, torch.Tensor):
        tensor = tree.to(device)
        dtype = torch_dtype(request.dtype)
        if dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(dtype)
        if request.channels_last and tensor.dim() == 4:
            tensor = tensor.to(memory_format=torch.channels_last)
        return tensor
    if isinstance(tree, dict):
        return {key: to_device(value, device, request) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [to_device(value, device, request) for value in tree]
    return tree


def default_loss(output: Any) -> Any:
    """The loss if build() returns none: the model's own, else the mean of its first output."""
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if loss is not None:
        return loss
    if isinstance(output, dict):
        output = next(iter(output.values()))
    while isinstance(output, (list, tuple)):
        output = output[0]
    return output.float().mean()


def enable_checkpointing(model: Any) -> None:
    """Turn the model's own gradient checkpointing on."""
    enable = getattr(model, "gradient_checkpointing_enable", None)
    if enable is None:
        raise FitError(
            "no-checkpointing",
            text(
                "{model} has no gradient_checkpointing_enable(): use checkpointing in its own code",
                model=type(model).__name__,
            ),
        )
    enable()


def make_optimizer(model: Any, request: Request) -> Any:
    """Make the optimizer of this name, with the given arguments, else torch's defaults."""
    optimizer, arguments = parse_optimizer(request.optimizer)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        raise FitError("nothing-to-train", text("No parameter of the model requires a gradient"))
    kinds: Dict[str, Callable[..., Any]] = {
        "sgd": lambda **more: torch.optim.SGD(parameters, **{"lr": 1e-3, **more}),
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
            kinds[name.lower()] = lambda name=name, **more: getattr(torch.optim, name)(
                parameters, **{"lr": 1e-4, **more}
            )
    if optimizer not in kinds:
        import difflib

        message = template("Unknown optimizer {optimizer}; known are {optimizers}")
        near = difflib.get_close_matches(optimizer, kinds, n=1)
        if near:
            message = template("Unknown optimizer {optimizer}. Did you mean {near}? Known are {optimizers}")
        names = listing(sorted(kinds), "{items}, {last}")
        raise FitError("no-optimizer", message.fill(optimizer=optimizer, optimizers=names, near="".join(near)))
    if request.fused:
        arguments["fused"] = True
    if request.foreach is not None:
        arguments["foreach"] = request.foreach
    try:
        return kinds[optimizer](**arguments)
    except (TypeError, RuntimeError, ValueError) as exc:
        options = " or ".join(arguments)
        raise FitError(
            "no-optimizer",
            text(
                "{optimizer} does not support {options} in this torch: {reason}",
                optimizer=optimizer,
                options=options,
                reason=exc,
            ),
        ) from exc


def parse_optimizer(given: str) -> Tuple[str, Dict[str, Argument]]:
    """Split `sgd:momentum=0.9,nesterov=true` into the name and the arguments, which are torch's."""
    name, _, rest = given.strip().lower().partition(":")
    arguments: Dict[str, Argument] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        try:
            arguments[key] = {"true": True, "false": False}[value] if value.isalpha() else float(value)
        except (KeyError, ValueError) as exc:
            raise FitError(
                "no-optimizer",
                text(
                    "Argument {argument} of the optimizer is not NAME=NUMBER, NAME=true or NAME=false",
                    argument=repr(part),
                ),
            ) from exc
    return "sgd" if name == "sgd-plain" else name, arguments


def unwrap(model: Any) -> Tuple[Any, List[str]]:
    """Return the model without wrappers, and notes about them."""
    notes: List[str] = []
    while type(model).__name__ in WRAPPERS:
        if type(model).__name__ == "OptimizedModule":
            notes.append(text("torch.compile: traced as if the model were not compiled"))
        model = getattr(model, WRAPPERS[type(model).__name__])
    return model, notes


def optimizer_notes(request: Request) -> List[str]:
    """Return notes about an optimizer that is simulated."""
    if request.train and parse_optimizer(request.optimizer)[0] == "adamw-8bit":
        return [text("adamw-8bit: its states have the sizes of bitsandbytes, computed from its rules; it was not run")]
    return []


def _eight_bit(parameters: List[Any], **more: Argument) -> Any:
    """Make the optimizer of bitsandbytes on a card, else its stand-in."""
    if more:
        raise TypeError(text("it has only one implementation"))
    if parameters[0].is_cuda:
        try:
            bitsandbytes = importlib.import_module("bitsandbytes")
        except ImportError as exc:
            raise FitError("no-optimizer", text("adamw-8bit needs bitsandbytes to run: {reason}", reason=exc)) from exc
        return bitsandbytes.optim.AdamW8bit(parameters, 1e-4)
    return EightBitAdam(parameters)


def make_step(
    built: Built,
    inputs: Tree,
    request: Request,
    device: str,
    on_optimizer: Optional[Callable[[Any], None]] = None,
) -> Callable[[], None]:
    """Return a function that runs one step. A model with its own `optimizers` and `step` uses these.

    `on_optimizer` is called with each optimizer before the first step.
    """
    model = built.model
    kind = torch_dtype(request.autocast)

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
        if on_optimizer is not None:
            for one in optimizers:
                on_optimizer(one)
        return lambda: model.step(optimizers, *inputs)
    optimizer = make_optimizer(model, request)
    if on_optimizer is not None:
        on_optimizer(optimizer)
    # A low initial scale: with torch's 65,536 the first steps are skipped, and the optimizer has no state yet.
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


MIN_8BIT_VALUES = 4096
BLOCK_8BIT = 256
LEVELS_8BIT = 256  # values of a byte, in a table of float32


class EightBitAdam(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not installed where types are checked
    """Stand-in for bitsandbytes.optim.AdamW8bit on tensors without data: it allocates the same, and learns nothing.

    Sizes follow bitsandbytes' optim/optimizer.py (Optimizer2State.init_state): two bytes per value, a float32 per block of 256
    (since 0.44; 2048 before) and state; parameters of fewer than 4096 values keep float32. Its kernels work in place.
    Computed from these rules, not measured.
    """

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})
        self._tables: Any = None

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Optional[Callable[[], Any]] = None) -> None:
        """Allocate the states in the first step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self._begin(parameter)

    def _begin(self, parameter: Any) -> None:
        state, count = self.state[parameter], parameter.numel()
        if count < MIN_8BIT_VALUES:
            for name in ("state1", "state2"):
                state[name] = torch.zeros_like(parameter, dtype=torch.float32)
            return
        if self._tables is None:
            self._tables = [parameter.new_zeros(LEVELS_8BIT, dtype=torch.float32) for _ in range(2)]
        for name in ("1", "2"):
            state["state" + name] = torch.zeros_like(parameter, dtype=torch.uint8)
        for name in ("1", "2"):
            state["absmax" + name] = parameter.new_zeros(-(-count // BLOCK_8BIT), dtype=torch.float32)
