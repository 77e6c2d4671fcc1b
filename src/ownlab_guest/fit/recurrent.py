"""Recurrent layers as cuDNN computes them: all steps and layers in one call, which keeps what its backward needs.

Sizes fitted to cuDNN 9.19 on an H200 (2026-11-15; 84 shapes, float32 and float16): what it keeps is exact, its workspace is
within some percent.
"""

from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch

aten = torch.ops.aten
MIB = 1024**2
_OF_CUDNN = {torch.float16, torch.float32, torch.float64}  # CUDNN_TENSOR_DTYPES in torch/backends/cudnn


class Kind(NamedTuple):
    """How many vectors of the hidden size, for each layer and step."""

    gates: int
    kept: int  # for the backward; one less in the last layer
    worked_on: int  # in the workspace, for all layers together


LSTM, GRU, PLAIN = Kind(4, 6, 6), Kind(3, 7, 5), Kind(1, 2, 4)


class Shape(NamedTuple):
    """One call."""

    kind: Kind
    rows: int  # steps times sequences
    inputs: int
    hidden: int
    layers: int
    directions: int
    dropout: bool
    itemsize: int

    @property
    def vector(self) -> int:
        """Bytes of what one layer says at all steps."""
        return self.rows * self.hidden * self.directions * self.itemsize

    @property
    def kept_bytes(self) -> int:
        """cuDNN's reserve."""
        masks = self.rows * self.hidden * self.directions // 8 * (self.layers - 1) if self.dropout else 0
        return self.vector * (self.kind.kept * self.layers - 1) + 256 + masks

    def workspace_bytes(self, weights: int) -> int:
        """Of forward and backward alike."""
        vectors = self.kind.worked_on + (1 if self.dropout and self.layers > 1 else 0)
        fixed = 8.25 * self.directions * self.layers + (6.5 if self.directions == 2 else 0)
        return weights + vectors * self.vector + int(fixed * MIB)

    @property
    def flops(self) -> int:
        """Of the forward; the backward has twice as many."""
        width = [self.inputs] + [self.hidden * self.directions] * (self.layers - 1)
        return sum(
            2 * self.rows * self.directions * self.kind.gates * self.hidden * (one + self.hidden) for one in width
        )


def operations(trace: Any) -> Dict[Any, Callable[..., Any]]:
    """torch's recurrent operations, by what they become; `trace` hears what they take."""

    def of(kind: Kind) -> Callable[..., Any]:
        return lambda *args: _whole(trace, kind, *args)

    def packed(kind: Kind) -> Callable[..., Any]:
        return lambda data, sizes, states, *rest: _layer(trace, kind, data, states, *rest)

    found: Dict[Any, Callable[..., Any]] = {}
    for name, kind in (("lstm", LSTM), ("gru", GRU), ("rnn_tanh", PLAIN), ("rnn_relu", PLAIN)):
        found[getattr(aten, name).input] = of(kind)
        found[getattr(aten, name).data] = packed(kind)
    return found


def join(model: Any) -> None:
    """Weights of each layer as parts of one piece: on a card RNNBase.flatten_parameters() copies them so, for cuDNN.

    Where it cannot (their type is none of cuDNN's, or something else has one of them too) they stay as they are.
    """
    owners = Counter(id(one) for module in model.modules() for one in module._parameters.values())
    for module in model.modules():
        if isinstance(module, torch.nn.RNNBase):
            names = module._flat_weights_names
            weights = [getattr(module, name) for name in names]
            kinds = {one.dtype for one in weights}
            if len(kinds) == 1 and kinds <= _OF_CUDNN and all(owners[id(one)] == 1 for one in weights):
                for name, weight, part in zip(names, weights, _parts(weights, weights[0].dtype)):
                    module._parameters[name] = torch.nn.Parameter(part.detach(), weight.requires_grad)
            module._flat_weights = [getattr(module, name) for name in names]


def is_joined(module: Any) -> bool:
    """Whether `join` did it."""
    if not isinstance(module, torch.nn.RNNBase):
        return False
    return len({one.untyped_storage()._cdata for one in module._flat_weights}) == 1 < len(module._flat_weights)


def _whole(
    trace: Any,
    kind: Kind,
    inputs: Any,
    states: Any,
    weights: List[Any],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> Tuple[Any, ...]:
    steps_first = inputs.transpose(0, 1) if batch_first else inputs
    said, *last = _layer(trace, kind, steps_first, states, weights, biases, layers, dropout, train, both)
    return (said.transpose(0, 1) if batch_first else said, *last)


def _layer(
    trace: Any,
    kind: Kind,
    inputs: Any,
    states: Any,
    weights: List[Any],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
) -> Tuple[Any, ...]:
    held = list(states) if kind is LSTM else [states]
    if torch.is_autocast_enabled("cpu"):
        # Autocast of cuDNN's layers knows float16 alone, whatever type was asked for (ATen/cudnn/AutocastRNN.cpp).
        inputs, *held = (one.to(torch.float16) for one in (inputs, *held))
        weights = list(_Flattened.apply(*weights))
    rows = inputs.numel() // inputs.shape[-1]
    shape = Shape(
        kind,
        rows,
        inputs.shape[-1],
        held[0].shape[-1],
        layers,
        2 if both else 1,
        train and dropout > 0,
        inputs.dtype.itemsize,
    )
    wanted = torch.is_grad_enabled() and any(one.requires_grad for one in (inputs, *held, *weights))
    result: Tuple[Any, ...] = _Recurrent.apply(trace, shape, wanted and train, len(held), inputs, *held, *weights)
    return result


class _Flattened(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """Weights in float16, as parts of one piece."""

    @staticmethod
    def forward(context: Any, *weights: Any) -> Tuple[Any, ...]:
        context.dtypes = [one.dtype for one in weights]
        return tuple(_parts(weights, torch.float16))

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Tuple[Any, ...]:
        return tuple(one.to(dtype) for one, dtype in zip(gradients, context.dtypes))


def _parts(like: Sequence[Any], dtype: Any) -> List[Any]:
    """Tensors of these shapes, one behind the other."""
    sizes = [one.numel() for one in like]
    whole = like[0].new_empty(sum(sizes), dtype=dtype)
    return [part.view(one.shape) for part, one in zip(whole.split(sizes), like)]


class _Recurrent(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """In the order of ATen/native/cudnn/RNN.cpp: what comes when decides which memory is used again."""

    @staticmethod
    def forward(
        context: Any, trace: Any, shape: Shape, keeps: bool, states: int, inputs: Any, *rest: Any
    ) -> Tuple[Any, ...]:
        held, weights = rest[:states], rest[states:]
        if shape.dropout:
            # The states of its random numbers, one for each thread of the card; there is one for all layers and threads.
            trace.keep("cuDNN's dropout", trace.card.multiprocessors * trace.card.threads * 24)
        in_order = inputs.contiguous()  # until the call ends
        said = inputs.new_empty((*inputs.shape[:-1], shape.hidden * shape.directions))
        last = [torch.empty_like(one) for one in held]
        with trace.for_a_while(shape.workspace_bytes(_bytes(weights)), "aten._cudnn_rnn"):
            kept = inputs.new_empty(shape.kept_bytes if keeps else 0, dtype=torch.uint8)
        del in_order
        trace.count(shape.flops)
        context.trace, context.shape, context.held = trace, shape, held
        context.save_for_backward(inputs, said, kept, *weights)
        return (said, *last)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Tuple[Any, ...]:
        inputs, _, _, *weights = context.saved_tensors
        trace, shape = context.trace, context.shape
        size = shape.workspace_bytes(_bytes(weights))
        in_order = inputs.contiguous(), gradients[0].contiguous()
        to_inputs = inputs.new_empty(inputs.shape)
        to_held = [torch.empty_like(one) for one in context.held]
        trace.temporary(size, "aten._cudnn_rnn_backward")
        del in_order
        again = inputs.contiguous()
        parts = _parts(weights, inputs.dtype)
        trace.temporary(size, "aten._cudnn_rnn_backward")
        del again
        trace.count(2 * shape.flops)
        return (None, None, None, None, to_inputs, *to_held, *parts)


def _bytes(tensors: Sequence[Any]) -> int:
    return sum(int(one.numel()) * one.dtype.itemsize for one in tensors)
