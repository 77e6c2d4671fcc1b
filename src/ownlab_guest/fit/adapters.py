"""LoRA adapters as peft makes them: `--lora r=16,targets=q_proj,v_proj` freezes a model and adds two small matrices to layers.

Layers, dtypes and casts follow peft 0.21 (tuners/lora/layer.py and bnb.py), so that a prediction is that of `get_peft_model`:
adapters stay in float32 where the weights have 16 bits or fewer, and the input of a layer is cast to it.
"""

from typing import Any, Dict, List, NamedTuple, Set, Tuple

import torch

from ownlab_guest.fit import quantization
from ownlab_guest.fit.errors import FitError
from ownlab_guest.fit.request import Request
from ownlab_guest.text import listing, text

ALL_LINEAR = "all-linear"  # peft's name for every linear layer except the output layer


class Lora(NamedTuple):
    """The arguments of peft's LoraConfig that decide sizes."""

    rank: int = 8
    targets: Tuple[str, ...] = (ALL_LINEAR,)
    dropout: float = 0.0


def parse_lora(given: str) -> Lora:
    """Read `r=16,targets=q_proj,v_proj,dropout=0.05`; names without a key belong to the key before them."""
    values: Dict[str, List[str]] = {}
    key = ""
    for part in filter(None, (part.strip() for part in given.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        key = name if equals else key
        values.setdefault(key, []).append(value if equals else name)
    try:
        rank, dropout = int(values.pop("r", ["8"])[0]), float(values.pop("dropout", ["0"])[0])
    except ValueError:
        rank, dropout = 0, 0.0
    targets = tuple(values.pop("targets", [ALL_LINEAR]))
    if values or rank < 1 or not 0 <= dropout < 1:
        raise FitError(
            "no-adapters",
            text(
                "{given} does not describe adapters: write r=16,targets=q_proj,v_proj,dropout=0.05", given=repr(given)
            ),
        )
    return Lora(rank, targets, dropout)


def add_adapters(model: Any, request: Request) -> None:
    """Freeze the model, and add adapters to the layers with these names."""
    lora = parse_lora(request.lora)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    kept = quantization.output_layers(model)
    names: Set[str] = set()
    for parent_name, parent in list(model.named_modules()):
        for name, layer in list(parent.named_children()):
            if not quantization.is_linear(layer) or id(layer) in kept:
                continue
            names.add(name)
            path = f"{parent_name}.{name}" if parent_name else name
            if lora.targets == (ALL_LINEAR,) or any(
                path == target or path.endswith("." + target) for target in lora.targets
            ):
                setattr(parent, name, LoraLinear(layer, lora))
    if not any(isinstance(module, LoraLinear) for module in model.modules()):
        shown = listing(sorted(names), "{items}, {last}") or "-"
        raise FitError(
            "no-adapters",
            text(
                "{model} has no linear layer named {targets}; it has {names}",
                model=type(model).__name__,
                targets=" or ".join(lora.targets),
                names=shown,
            ),
        )


def float32_adapters(model: Any) -> Set[int]:
    """Return the ids of the parameters that a model of peft trains in float32, whatever dtype the model is moved to."""
    if not hasattr(model, "peft_config"):
        return set()
    return {id(weight) for weight in model.parameters() if weight.requires_grad and weight.dtype is torch.float32}


class LoraLinear(torch.nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """A frozen linear layer with a trained correction of low rank beside it."""

    def __init__(self, layer: Any, lora: Lora) -> None:
        super().__init__()
        self.base_layer = layer
        outputs, inputs = quantization.linear_sizes(layer)
        device = next(iter((*layer.parameters(), *layer.buffers()))).device
        self.lora_dropout = torch.nn.Dropout(lora.dropout) if lora.dropout else torch.nn.Identity()
        self.lora_A = torch.nn.Linear(inputs, lora.rank, bias=False, device=device, dtype=torch.float32)
        self.lora_B = torch.nn.Linear(lora.rank, outputs, bias=False, device=device, dtype=torch.float32)
        torch.nn.init.zeros_(self.lora_B.weight)
        self.scaling = 2.0

    def forward(self, inputs: Any) -> Any:
        """Add the correction, with the casts of peft."""
        result = self.base_layer(inputs)
        dtype = result.dtype
        quantized = isinstance(self.base_layer, quantization.QuantizedLinear)
        if quantized and self.base_layer.form.name in ("nf4", "fp4"):
            result = result.clone()
        if not quantized or not torch.is_autocast_enabled("cpu" if inputs.device.type == "cpu" else "cuda"):
            inputs = inputs.to(self.lora_A.weight.dtype)
        correction = self.lora_B(self.lora_A(self.lora_dropout(inputs))) * self.scaling
        if quantized:
            correction = correction.to(dtype)
        return (result + correction).to(dtype)
