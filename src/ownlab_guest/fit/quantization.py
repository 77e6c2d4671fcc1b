"""Weights in 4 or 8 bits, by arithmetic: what each format stores for a layer, and what its products allocate.

`--weights nf4` replaces the linear layers of a model by layers that hold the tensors of the format, and nothing is quantized: the
values would not change any size. Sizes follow the libraries' own code: bitsandbytes 0.50 (nf4, fp4, int8), transformers'
FineGrainedFP8 (fp8), AutoGPTQ and AutoAWQ (gptq, awq). Which layers keep their weights follows transformers: the output layer,
embeddings, norms. Computed from these rules, not measured.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Set, Tuple

import torch

from ownlab_guest.fit.errors import FitError
from ownlab_guest.fit.request import Request
from ownlab_guest.text import listing, text

# The defaults of each format's library; `double`: scales of nf4 and fp4 are themselves stored in 8 bits.
FORMATS: Dict[str, Dict[str, int]] = {
    "nf4": {"block": 64, "double": 0},
    "fp4": {"block": 64, "double": 0},
    "int8": {},
    "fp8": {"block": 128},
    "gptq": {"bits": 4, "group": 128},
    "awq": {"bits": 4, "group": 128},
}
_ALLOWED = {
    "block": (32, 64, 128, 256, 512, 1024, 2048, 4096),
    "bits": (2, 3, 4, 8),
    "group": (16, 32, 64, 128, 256, 1024),
    "double": (0, 1),
}
_DOUBLE_BLOCK = 256  # scales that share a scale (bitsandbytes, quantize_4bit with compress_statistics)
_LEVELS_4BIT, _LEVELS_8BIT = 16, 256  # values of a code, in a table of float32
_FUSED_ROWS = 4  # up to this many rows, products read 4-bit weights without a copy in the dtype of the computation
Sizes = List[Tuple[str, Tuple[int, ...], Any]]  # name, shape and dtype of each tensor


class Format(NamedTuple):
    """A format and its arguments."""

    name: str
    arguments: Dict[str, int]


def parse_weights(given: str) -> Format:
    """Split `nf4:double=true` or `gptq:bits=8,group=32` into the format and its arguments."""
    name, _, rest = given.strip().lower().partition(":")
    if name not in FORMATS:
        raise FitError(
            "no-format",
            text(
                "Unknown format of weights {name}; known are {formats}",
                name=repr(name),
                formats=listing(FORMATS, "{items}, {last}"),
            ),
        )
    arguments = dict(FORMATS[name])
    for part in filter(None, (part.strip() for part in rest.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        number = {"true": 1, "false": 0}.get(value, int(value) if value.isdigit() else -1)
        if key not in arguments or number not in _ALLOWED[key]:
            known = "; ".join(f"{key}={'|'.join(map(str, _ALLOWED[key]))}" for key in FORMATS[name])
            raise FitError(
                "no-format",
                text(
                    "{format} does not take {argument}; it takes {known}",
                    format=name,
                    argument=repr(part),
                    known=known or "-",
                ),
            )
        arguments[key] = number
    return Format(name, arguments)


def stored(form: Format, outputs: int, inputs: int) -> Sizes:
    """Return the tensors that a layer of this size holds in this format, without its bias."""
    values, take = outputs * inputs, form.arguments
    if form.name in ("nf4", "fp4"):
        blocks = _ceil(values, take["block"])
        sizes: Sizes = [("packed", (_ceil(values, 2), 1), torch.uint8), ("code", (_LEVELS_4BIT,), torch.float32)]
        if not take["double"]:
            return [*sizes, ("absmax", (blocks,), torch.float32)]
        nested: Sizes = [
            ("absmax", (blocks,), torch.uint8),
            ("nested_absmax", (_ceil(blocks, _DOUBLE_BLOCK),), torch.float32),
            ("nested_code", (_LEVELS_8BIT,), torch.float32),
            ("offset", (1,), torch.float32),
        ]
        return sizes + nested
    if form.name == "int8":
        return [("packed", (outputs, inputs), torch.int8), ("scales", (outputs,), torch.float32)]
    if form.name == "fp8":
        scales = (_ceil(outputs, take["block"]), _ceil(inputs, take["block"]))
        return [("packed", (outputs, inputs), torch.uint8), ("scales", scales, torch.float32)]
    groups, bits = _ceil(inputs, take["group"]), take["bits"]
    sizes = [
        ("packed", (_ceil(inputs * bits, 32), outputs), torch.int32),
        ("zeros", (groups, _ceil(outputs * bits, 32)), torch.int32),
        ("scales", (groups, outputs), torch.float16),
    ]
    return [*sizes, ("g_idx", (inputs,), torch.int32)] if form.name == "gptq" else sizes


def quantize(model: Any, request: Request) -> None:
    """Replace the linear layers of the model by layers in the requested format."""
    form = parse_weights(request.weights)
    layers = list(_layers(model, request))
    if not layers:
        raise FitError(
            "no-format",
            text(
                "{model} has no linear layer whose weight could be stored as {format}",
                model=type(model).__name__,
                format=form.name,
            ),
        )
    trained = [layer for _, _, layer in layers if layer.weight.requires_grad]
    if request.train and trained and not request.lora:
        raise FitError(
            "nothing-to-train",
            text(
                "Weights in {format} cannot be trained: add adapters (--lora), or freeze them in build()",
                format=form.name,
            ),
        )
    for parent, name, layer in layers:
        setattr(parent, name, QuantizedLinear(layer, form, request))


def quantization_notes(request: Request) -> List[str]:
    """Return a note about weights that are simulated."""
    if not request.weights:
        return []
    return [
        text(
            "{format}: the sizes of its tensors and products are computed from the rules of its library; nothing was quantized",
            format=request.weights,
        )
    ]


def linear_sizes(layer: Any) -> Tuple[int, int]:
    """Return the outputs and inputs of a linear layer; transformers' Conv1D stores its weight the other way round."""
    if isinstance(layer, QuantizedLinear):
        return layer.out_features, layer.in_features
    outputs, inputs = layer.weight.shape
    return (int(outputs), int(inputs)) if isinstance(layer, torch.nn.Linear) else (int(inputs), int(outputs))


def is_linear(module: Any) -> bool:
    """Whether a module is a linear layer, as libraries replace them."""
    return isinstance(module, (torch.nn.Linear, QuantizedLinear)) or (
        type(module).__name__ == "Conv1D" and not isinstance(module, torch.nn.Conv1d)
    )


def output_layers(model: Any) -> Set[int]:
    """Return the ids of the modules that keep their weights: output embeddings and what is tied to them, else the last layer."""
    find = getattr(model, "get_output_embeddings", None)
    head = find() if callable(find) else None
    if head is None:
        named = [name for name, _ in model.named_parameters() if "lora_" not in name] if callable(find) else []
        head = model.get_submodule(named[-1].rpartition(".")[0]) if named else None
    kept = {id(head)} if head is not None else set()
    weight = getattr(head, "weight", None)
    return kept | {
        id(module) for module in model.modules() if weight is not None and getattr(module, "weight", None) is weight
    }


def _layers(model: Any, request: Request) -> Iterator[Tuple[Any, str, Any]]:
    """Yield the layers to replace, with their parents: of a model with adapters, or of a frozen one, only the frozen ones."""
    kept = output_layers(model)
    some_frozen = any(not parameter.requires_grad for parameter in model.parameters())
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if is_linear(layer) and id(layer) not in kept and not (some_frozen and layer.weight.requires_grad):
                yield parent, name, layer


class QuantizedLinear(torch.nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """A linear layer that holds the tensors of a format, and allocates what its products do."""

    def __init__(self, layer: Any, form: Format, request: Request) -> None:
        super().__init__()
        self.out_features, self.in_features = linear_sizes(layer)
        self.form = form
        self.dtype = getattr(torch, request.autocast or request.dtype or "float32")  # of products
        for name, shape, dtype in stored(form, self.out_features, self.in_features):
            self.register_buffer(name, torch.empty(shape, dtype=dtype, device=layer.weight.device))
        bias = getattr(layer, "bias", None)
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)

    @property
    def parameter_count(self) -> int:
        """The number of weights, and of values that hold them but are no parameters."""
        return self.out_features * self.in_features

    @property
    def stored_values(self) -> int:
        """The number of values in the tensors of the format."""
        return sum(buffer.numel() for buffer in self.buffers())

    def forward(self, inputs: Any) -> Any:
        """Multiply as bitsandbytes does: 4-bit layers compute in their own dtype and return that of the input."""
        if self.form.name == "int8":
            product: Any = _EightBitProduct.apply(inputs.reshape(-1, self.in_features), self)
            return product.reshape(*inputs.shape[:-1], self.out_features)
        return _Product.apply(inputs.to(self.dtype), self).to(inputs.dtype)

    def dequantized(self, dtype: Any) -> Any:
        """Return a copy of the weight in the dtype of the computation."""
        if self.form.name == "int8":
            scaled = self.scales.unsqueeze(1).mul(1.0 / 127.0)
            return self.packed.to(dtype, copy=True).mul_(scaled)
        if self.form.arguments.get("double"):
            scales = torch.empty(self.absmax.shape, dtype=torch.float32, device=self.packed.device)
            scales += self.offset
        return torch.zeros(self.out_features, self.in_features, dtype=self.dtype, device=self.packed.device).to(dtype)


class _Product(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """The product with a dequantized copy of the weight, which exists only during it; the input is not kept."""

    @staticmethod
    def forward(ctx: Any, inputs: Any, layer: Any) -> Any:
        ctx.layer = layer
        bias = None if layer.bias is None else layer.bias.to(inputs.dtype)
        if inputs.numel() // layer.in_features <= _FUSED_ROWS:
            weight = inputs.new_zeros(()).expand(layer.out_features, layer.in_features)
        else:
            weight = layer.dequantized(inputs.dtype)
        return torch.nn.functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return torch.matmul(gradient, ctx.layer.dequantized(gradient.dtype)), None


class _EightBitProduct(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """LLM.int8: the input in fp16 and in bytes, the product in int32; the input is kept. Outliers take no memory here."""

    @staticmethod
    def forward(ctx: Any, inputs: Any, layer: Any) -> Any:
        ctx.layer, ctx.inputs = layer, inputs if ctx.needs_input_grad[0] else None
        half = inputs.to(torch.float16)
        rounded, scales = torch.zeros_like(half, dtype=torch.int8), half.new_zeros(half.shape[0], dtype=torch.float32)
        del half
        whole = torch._int_mm(rounded, layer.packed.t())
        result = torch.zeros_like(whole, dtype=torch.float16)
        del rounded, scales, whole
        result = result.to(inputs.dtype)
        return result if layer.bias is None else result.add_(layer.bias.to(result.dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        copy = ctx.layer.dequantized(ctx.inputs.dtype)
        return torch.matmul(gradient.to(ctx.inputs.dtype), copy), None


def _ceil(values: int, by: int) -> int:
    return -(-values // by)
