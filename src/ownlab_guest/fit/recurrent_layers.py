"""Recurrent layers as cuDNN computes them: all steps and layers in one call, which keeps what its backward needs.

Sizes fitted to cuDNN 9.19 on an H200 (207 shapes, float32 and float16; 2026-11-16): what it keeps is exact, its workspace
exact at the median, within 1.1 % for nine in ten and 3.9 % at worst (torch's allocator rounds what was measured up to 1 MiB).
"""

from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch

aten = torch.ops.aten
MIB = 1024**2
_OF_CUDNN = {torch.float16, torch.float32, torch.float64}  # CUDNN_TENSOR_DTYPES in torch/backends/cudnn


class Kind(NamedTuple):
    """How many vectors of the hidden size, for each layer and step; for the workspace, in all layers together."""

    gates: int
    kept: int  # for the backward; one less in the last layer
    narrow: int  # widest layer, in hidden values, that cuDNN computes in the way that takes more workspace
    narrow_gates: int  # more in the workspace then, besides the gates
    narrow_inputs: int  # more in it then, besides what goes in
    states: Tuple[int, int]  # in it for one step alone, for each layer: in one direction, in two


LSTM = Kind(4, 6, 128, 16, 12, (10, 24))
GRU = Kind(3, 7, 128, 14, 14, (5, 14))
PLAIN = Kind(1, 2, 300, 9, 9, (5, 14))


class Shape(NamedTuple):
    """One call."""

    kind: Kind
    rows: int  # steps times sequences
    sequences: int
    inputs: int
    hidden: int
    projected: int  # of what it says at each step: as many, unless proj_size makes it less
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

    @property
    def narrow(self) -> bool:
        """Whether cuDNN takes the way of narrow layers."""
        # Seen in float16 with 16 and 32 sequences, not with 50; of the GRU not at all.
        in_half = self.itemsize == 2 and self.layers == self.directions == 1 and self.sequences % 16 == 0
        return self.hidden <= self.kind.narrow or (in_half and self.kind is not GRU)

    def workspace_bytes(self, matrices: int) -> int:
        """Of forward and backward alike; `matrices`: bytes of the weights without biases.

        8 MiB for each layer and direction, and the larger of what the gates and what the inputs of the layers need.
        """
        said, given = self.rows * self.hidden, self.rows * self.inputs
        wider = max(said, given)
        if self.directions == 2:
            gates = 2 * (self.kind.gates + 3) * said + given
            inputs = (6 if self.layers == 1 else 8) * said + 2 * given + 4 * wider
        else:
            gates = (self.kind.gates + 1 + (self.dropout and self.layers > 1)) * said + given
            inputs = (3 if self.layers == 1 else 4) * said + 2 * given + wider
            if self.layers > 1 and not self.narrow:  # only some steps of two of them at a time
                inputs -= 2 * said - min(self.rows, (8 + 4 * self.layers) * self.sequences) * self.hidden
        if self.narrow:
            gates += self.kind.narrow_gates * said
            inputs += self.kind.narrow_inputs * said
        states = self.kind.states[self.directions - 1] * self.layers * self.sequences * self.hidden
        fixed = 8 * MIB * self.layers * self.directions + 256 + 8 * self.sequences
        return matrices + (max(gates, inputs) + states) * self.itemsize + fixed

    @property
    def flops(self) -> int:
        """Of the forward; the backward has twice as many."""
        widths = [self.inputs] + [self.projected * self.directions] * (self.layers - 1)
        projection = self.hidden * self.projected if self.projected != self.hidden else 0
        gates = self.kind.gates * self.hidden
        return sum(2 * self.rows * self.directions * (gates * (one + self.projected) + projection) for one in widths)


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
        held[0].shape[-2],
        inputs.shape[-1],
        held[-1].shape[-1],  # of the cell, which is not projected
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
        said = inputs.new_empty((*inputs.shape[:-1], shape.projected * shape.directions))
        last = [torch.empty_like(one) for one in held]
        with trace.for_a_while(shape.workspace_bytes(_matrices(weights)), "aten._cudnn_rnn"):
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
        size = shape.workspace_bytes(_matrices(weights))
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


def _matrices(weights: Sequence[Any]) -> int:
    """Bytes of the weights that are no biases."""
    return sum(int(one.numel()) * one.dtype.itemsize for one in weights if one.dim() > 1)
