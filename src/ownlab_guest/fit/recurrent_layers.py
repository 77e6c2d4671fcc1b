"""Recurrent layers as cuDNN computes them: all steps and layers in one call, which keeps a reserve for its backward pass.

Sizes were fitted to cuDNN 9.19 on an H200 (207 shapes, float32 and float16; 2026-11-16). The reserve is exact; the workspace is
exact at the median, within 1.1 % for nine in ten shapes and 3.9 % at worst (torch's allocator rounds the measurement up to
1 MiB).
"""

from collections import Counter
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

aten = torch.ops.aten
MIB = 1024**2
_CUDNN_DTYPES = {torch.float16, torch.float32, torch.float64}  # CUDNN_TENSOR_DTYPES in torch/backends/cudnn


class Kind(NamedTuple):
    """Numbers of vectors of the hidden size: per layer and step; for the workspace, in all layers together."""

    gates: int
    kept: int  # for the backward pass; one less in the last layer
    narrow: int  # the largest hidden size for which cuDNN uses the algorithm with more workspace
    narrow_gates: int  # added to the gates then
    narrow_inputs: int  # added to the inputs then
    states: Tuple[int, int]  # for a single step, per layer: with one direction, with two


LSTM = Kind(4, 6, 128, 16, 12, (10, 24))
GRU = Kind(3, 7, 128, 14, 14, (5, 14))
RNN = Kind(1, 2, 300, 9, 9, (5, 14))


class Shape(NamedTuple):
    """The sizes of one call."""

    kind: Kind
    rows: int  # steps times sequences
    sequences: int
    inputs: int
    hidden: int
    projected: int  # output size of a step: `hidden`, unless proj_size is set
    layers: int
    directions: int
    dropout: bool
    itemsize: int

    @property
    def vector(self) -> int:
        """Bytes of the outputs of one layer at all steps."""
        return self.rows * self.hidden * self.directions * self.itemsize

    @property
    def reserve_bytes(self) -> int:
        """The reserve of cuDNN, kept for the backward pass."""
        masks = self.rows * self.hidden * self.directions // 8 * (self.layers - 1) if self.dropout else 0
        return self.vector * (self.kind.kept * self.layers - 1) + 256 + masks

    @property
    def narrow(self) -> bool:
        """Whether cuDNN uses the algorithm for narrow layers."""
        # Seen in float16 with 16 and 32 sequences, not with 50; never for the GRU.
        in_half = self.itemsize == 2 and self.layers == self.directions == 1 and self.sequences % 16 == 0
        return self.hidden <= self.kind.narrow or (in_half and self.kind is not GRU)

    def workspace_bytes(self, matrices: int) -> int:
        """The workspace of forward and backward; `matrices`: bytes of the weights without biases.

        8 MiB per layer and direction, and the larger of what the gates and what the inputs of the layers need.
        """
        outputs, given = self.rows * self.hidden, self.rows * self.inputs
        wider = max(outputs, given)
        if self.directions == 2:
            gates = 2 * (self.kind.gates + 3) * outputs + given
            inputs = (6 if self.layers == 1 else 8) * outputs + 2 * given + 4 * wider
        else:
            gates = (self.kind.gates + 1 + (self.dropout and self.layers > 1)) * outputs + given
            inputs = (3 if self.layers == 1 else 4) * outputs + 2 * given + wider
            if self.layers > 1 and not self.narrow:  # only some steps of two layers at a time
                inputs -= 2 * outputs - min(self.rows, (8 + 4 * self.layers) * self.sequences) * self.hidden
        if self.narrow:
            gates += self.kind.narrow_gates * outputs
            inputs += self.kind.narrow_inputs * outputs
        states = self.kind.states[self.directions - 1] * self.layers * self.sequences * self.hidden
        fixed = 8 * MIB * self.layers * self.directions + 256 + 8 * self.sequences
        return matrices + (max(gates, inputs) + states) * self.itemsize + fixed

    @property
    def flops(self) -> int:
        """FLOPs of the forward pass; the backward pass has twice as many."""
        widths = [self.inputs] + [self.projected * self.directions] * (self.layers - 1)
        projection = self.hidden * self.projected if self.projected != self.hidden else 0
        gates = self.kind.gates * self.hidden
        return sum(
            2 * self.rows * self.directions * (gates * (width + self.projected) + projection) for width in widths
        )


def operations(trace: Any) -> Dict[Any, Callable[..., Any]]:
    """Return replacements for torch's recurrent operations; they report their workspaces to `trace`."""

    def of(kind: Kind) -> Callable[..., Any]:
        return lambda *args: _batch_first_layer(trace, kind, *args)

    def packed(kind: Kind) -> Callable[..., Any]:
        return lambda data, sizes, states, *rest: _layer(trace, kind, data, states, *rest)

    replacements: Dict[Any, Callable[..., Any]] = {}
    for name, kind in (("lstm", LSTM), ("gru", GRU), ("rnn_tanh", RNN), ("rnn_relu", RNN)):
        replacements[getattr(aten, name).input] = of(kind)
        replacements[getattr(aten, name).data] = packed(kind)
    replacements[aten.gru_cell.default] = _gru_cell
    replacements[aten.lstm_cell.default] = _lstm_cell
    return replacements


def _gru_cell(
    inputs: Any, state: Any, to_gates: Any, of_state: Any, bias: Optional[Any] = None, other: Optional[Any] = None
) -> Any:
    """nn.GRUCell, whose gates are one kernel (GRUCell in ATen/native/RNN.cpp)."""
    return _GruCell.apply(*_gates(inputs, state, to_gates, of_state, state, bias, other))


def _lstm_cell(
    inputs: Any,
    states: Sequence[Any],
    to_gates: Any,
    of_state: Any,
    bias: Optional[Any] = None,
    other: Optional[Any] = None,
) -> Tuple[Any, Any]:
    """The same for nn.LSTMCell."""
    output, cell = _LstmCell.apply(*_gates(inputs, states[0], to_gates, of_state, states[1], bias, other))
    return output, cell


def _gates(
    inputs: Any,
    state: Any,
    to_gates: Any,
    of_state: Any,
    last: Any,
    *biases: Optional[Any],
) -> Tuple[Any, ...]:
    """Both products, and the other arguments of the kernel in their dtype."""
    linear = torch.nn.functional.linear
    products = linear(inputs, to_gates), linear(state, of_state)
    rest = (None if tensor is None else tensor.to(products[0].dtype) for tensor in (last, *biases))
    return (*products, *rest)


class _GruCell(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """_thnn_fused_gru_cell: allocations in the order of ATen/native/cuda/RNN.cu. Its products are kept for their gradient."""

    @staticmethod
    def forward(context: Any, *args: Any) -> Any:
        state = args[2]
        kept = state.new_empty((state.shape[0], 5 * state.shape[1]))
        output = state.new_empty(state.shape)
        context.biases = [bias is not None for bias in args[3:]]
        context.save_for_backward(*args, kept)
        return output

    @staticmethod
    def backward(context: Any, gradient: Any) -> Tuple[Any, ...]:
        kept = context.saved_tensors[-1]
        width = kept.shape[1] // 5 * 3
        to_inputs, to_states = (kept.new_empty((kept.shape[0], width)) for _ in range(2))
        to_state = torch.empty_like(gradient)
        sums = [tensor.sum(0) if biased else None for tensor, biased in zip((to_inputs, to_states), context.biases)]
        return (to_inputs, to_states, to_state, *sums)


class _LstmCell(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """_thnn_fused_lstm_cell, in the same way."""

    @staticmethod
    def forward(context: Any, *args: Any) -> Tuple[Any, Any]:
        gates, cell = args[0], args[2]
        kept = gates.new_empty(gates.shape)
        output, last = (cell.new_empty(cell.shape) for _ in range(2))
        context.biased = args[3] is not None
        context.set_materialize_grads(False)
        context.save_for_backward(*args, last, kept)
        return output, last

    @staticmethod
    def backward(context: Any, *_: Any) -> Tuple[Any, ...]:
        *saved, kept = context.saved_tensors
        gates, to_cell = kept.new_empty(kept.shape), saved[2].new_empty(saved[2].shape)
        of_bias = gates.sum(0) if context.biased else None
        return gates, gates, to_cell, of_bias, of_bias


def flatten_weights(model: Any) -> None:
    """Put the weights of each layer into one block, as RNNBase.flatten_parameters() does on a card for cuDNN.

    It does not if cuDNN lacks their dtype, or if another module shares one of them; then they stay as they are.
    """
    owners = Counter(id(parameter) for module in model.modules() for parameter in module._parameters.values())
    for module in model.modules():
        if isinstance(module, torch.nn.RNNBase):
            names = module._flat_weights_names
            weights = [getattr(module, name) for name in names]
            kinds = {weight.dtype for weight in weights}
            if len(kinds) == 1 and kinds <= _CUDNN_DTYPES and all(owners[id(weight)] == 1 for weight in weights):
                for name, weight, part in zip(names, weights, _parts(weights, weights[0].dtype)):
                    module._parameters[name] = torch.nn.Parameter(part.detach(), weight.requires_grad)
            module._flat_weights = [getattr(module, name) for name in names]


def is_flattened(module: Any) -> bool:
    """Whether the weights of a module are one block."""
    if not isinstance(module, torch.nn.RNNBase):
        return False
    return len({weight.untyped_storage()._cdata for weight in module._flat_weights}) == 1 < len(module._flat_weights)


def _batch_first_layer(trace: Any, kind: Kind, inputs: Any, *rest: Any) -> Tuple[Any, ...]:
    """`rest`: the arguments of `_layer`, then whether the first dimension is the batch and not the step."""
    *arguments, batch_first = rest
    steps_first = inputs.transpose(0, 1) if batch_first else inputs
    output, *last = _layer(trace, kind, steps_first, *arguments)
    return (output.transpose(0, 1) if batch_first else output, *last)


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
        # Autocast of cuDNN's layers always uses float16 (ATen/cudnn/AutocastRNN.cpp).
        inputs, *held = (tensor.to(torch.float16) for tensor in (inputs, *held))
        weights = list(_FlattenWeights.apply(*weights))
    rows = inputs.numel() // inputs.shape[-1]
    shape = Shape(
        kind,
        rows,
        held[0].shape[-2],
        inputs.shape[-1],
        held[-1].shape[-1],  # of the cell state, which is not projected
        held[0].shape[-1],
        layers,
        2 if both else 1,
        train and dropout > 0,
        inputs.dtype.itemsize,
    )
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (inputs, *held, *weights))
    result: Tuple[Any, ...] = _CudnnRnn.apply(trace, shape, wanted and train, len(held), inputs, *held, *weights)
    return result


class _FlattenWeights(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """Copies weights to float16, in one block."""

    @staticmethod
    def forward(context: Any, *weights: Any) -> Tuple[Any, ...]:
        context.dtypes = [weight.dtype for weight in weights]
        return tuple(_parts(weights, torch.float16))

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Tuple[Any, ...]:
        return tuple(tensor.to(dtype) for tensor, dtype in zip(gradients, context.dtypes))


def _parts(like: Sequence[Any], dtype: Any) -> List[Any]:
    """Return tensors of these shapes in one block."""
    sizes = [tensor.numel() for tensor in like]
    whole = like[0].new_empty(sum(sizes), dtype=dtype)
    return [part.view(tensor.shape) for part, tensor in zip(whole.split(sizes), like)]


class _CudnnRnn(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """One call of cuDNN. Allocations follow ATen/native/cudnn/RNN.cpp: their order decides which memory is reused."""

    @staticmethod
    def forward(
        context: Any, trace: Any, shape: Shape, keeps: bool, states: int, inputs: Any, *rest: Any
    ) -> Tuple[Any, ...]:
        held, weights = rest[:states], rest[states:]
        if shape.dropout:
            # States of the random numbers, one per thread of the card, shared by all layers and CPU threads.
            trace.keep_workspace("cuDNN's dropout", trace.card.multiprocessors * trace.card.threads * 24)
        in_order = inputs.contiguous()  # until the call ends
        output = inputs.new_empty((*inputs.shape[:-1], shape.projected * shape.directions))
        last = [torch.empty_like(tensor) for tensor in held]
        with trace.workspace(shape.workspace_bytes(_matrix_bytes(weights)), "aten._cudnn_rnn"):
            kept = inputs.new_empty(shape.reserve_bytes if keeps else 0, dtype=torch.uint8)
        del in_order
        trace.count_flops(shape.flops)
        context.trace, context.shape, context.held = trace, shape, held
        context.save_for_backward(inputs, output, kept, *weights)
        return (output, *last)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Tuple[Any, ...]:
        inputs, _, _, *weights = context.saved_tensors
        trace, shape = context.trace, context.shape
        size = shape.workspace_bytes(_matrix_bytes(weights))
        in_order = inputs.contiguous(), gradients[0].contiguous()
        to_inputs = inputs.new_empty(inputs.shape)
        to_held = [torch.empty_like(tensor) for tensor in context.held]
        trace.add_workspace(size, "aten._cudnn_rnn_backward")
        del in_order
        again = inputs.contiguous()
        parts = _parts(weights, inputs.dtype)
        trace.add_workspace(size, "aten._cudnn_rnn_backward")
        del again
        trace.count_flops(2 * shape.flops)
        return (None, None, None, None, to_inputs, *to_held, *parts)


def _matrix_bytes(weights: Sequence[Any]) -> int:
    """Bytes of the weights without biases."""
    return sum(int(weight.numel()) * weight.dtype.itemsize for weight in weights if weight.dim() > 1)
