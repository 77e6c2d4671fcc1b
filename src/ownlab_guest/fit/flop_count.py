"""FLOPs of one operation: products, convolutions, attention and recurrent layers; a multiply-add counts as 2.

Elementwise work is not counted, as is usual. Causal attention counts as the full square, and its backward pass includes the
product that is computed again.
"""

from math import prod
from typing import Any, Callable, Dict, Sequence

Shape = Sequence[int]


def _product(a: Shape, b: Shape) -> int:
    return 2 * prod(a) * int(b[-1])


def _convolution(inputs: Shape, weight: Shape, outputs: Shape, transposed: bool) -> int:
    """Each weight is used once per position of the output; of the input, if it is transposed."""
    places = inputs if transposed else outputs
    return 2 * int(places[0]) * prod(places[2:]) * prod(weight)


def _convolution_forward(args: Sequence[Any], out: Any) -> int:
    return _convolution(args[0].shape, args[1].shape, out.shape, bool(args[6]))


def _convolution_backward(args: Sequence[Any], out: Any) -> int:
    gradient, inputs, weight, wanted = args[0], args[1], args[2], args[10]
    once = _convolution(inputs.shape, weight.shape, gradient.shape, bool(args[7]))
    return once * (int(wanted[0]) + int(wanted[1]))


def _attention(query: Shape, key: Shape, value: Shape) -> int:
    """Two products: queries with keys, and scores with values."""
    return 2 * prod(query[:-1]) * int(key[-2]) * (int(query[-1]) + int(value[-1]))


def _attention_backward(query: Shape, key: Shape, value: Shape) -> int:
    """Five products: the scores again, and the gradients of scores, values, queries and keys."""
    return 2 * prod(query[:-1]) * int(key[-2]) * (3 * int(query[-1]) + 2 * int(value[-1]))


def _forward_of_attention(args: Sequence[Any], out: Any) -> int:
    return _attention(args[0].shape, args[1].shape, args[2].shape)


def _backward_of_attention(args: Sequence[Any], out: Any) -> int:
    return _attention_backward(args[1].shape, args[2].shape, args[3].shape)


_COUNTS: Dict[str, Callable[[Sequence[Any], Any], int]] = {
    "aten.mm": lambda args, out: _product(args[0].shape, args[1].shape),
    "aten._int_mm": lambda args, out: _product(args[0].shape, args[1].shape),
    "aten.addmm": lambda args, out: _product(args[1].shape, args[2].shape),
    "aten._addmm_activation": lambda args, out: _product(args[1].shape, args[2].shape),
    "aten.bmm": lambda args, out: _product(args[0].shape, args[1].shape),
    "aten.baddbmm": lambda args, out: _product(args[1].shape, args[2].shape),
    "aten._grouped_mm": lambda args, out: _product(args[0].shape, args[1].shape),  # each row uses one expert
    "aten.mv": lambda args, out: 2 * prod(args[0].shape),
    "aten.addmv": lambda args, out: 2 * prod(args[1].shape),
    "aten.convolution": _convolution_forward,
    "aten.convolution_backward": _convolution_backward,
    "aten._scaled_dot_product_cudnn_attention": _forward_of_attention,
    "aten._scaled_dot_product_efficient_attention": _forward_of_attention,
    "aten._scaled_dot_product_flash_attention": _forward_of_attention,
    "aten._scaled_dot_product_cudnn_attention_backward": _backward_of_attention,
    "aten._scaled_dot_product_efficient_attention_backward": _backward_of_attention,
    "aten._scaled_dot_product_flash_attention_backward": _backward_of_attention,
}


def flops(operation: str, args: Sequence[Any], out: Any) -> int:
    """Return the FLOPs of one call of an operation such as `aten.mm`; 0 if it is not counted."""
    count = _COUNTS.get(operation)
    return 0 if count is None else count(args, out)
