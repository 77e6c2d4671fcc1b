"""Floating-point operations of one call: 2 for a multiply-add; products, convolutions, attention and recurrent layers.

Work element by element is not counted, as everywhere. Causal attention is counted as the full square, and its backward with
the product that is computed again.
"""

from math import prod
from typing import Any, Callable, Dict, Sequence

Shape = Sequence[int]


def _product(a: Shape, b: Shape) -> int:
    return 2 * prod(a) * int(b[-1])


def _convolution(inputs: Shape, weight: Shape, outputs: Shape, transposed: bool) -> int:
    """Each weight meets each place of the output once; of the input, where it is transposed."""
    places = inputs if transposed else outputs
    return 2 * int(places[0]) * prod(places[2:]) * prod(weight)


def _convolution_forward(args: Sequence[Any], out: Any) -> int:
    return _convolution(args[0].shape, args[1].shape, out.shape, bool(args[6]))


def _convolution_backward(args: Sequence[Any], out: Any) -> int:
    gradient, inputs, weight, wanted = args[0], args[1], args[2], args[10]
    once = _convolution(inputs.shape, weight.shape, gradient.shape, bool(args[7]))
    return once * (int(wanted[0]) + int(wanted[1]))


def _attention(query: Shape, key: Shape, value: Shape) -> int:
    """Two products: of queries and keys, and of their scores and values."""
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
    "aten.addmm": lambda args, out: _product(args[1].shape, args[2].shape),
    "aten._addmm_activation": lambda args, out: _product(args[1].shape, args[2].shape),
    "aten.bmm": lambda args, out: _product(args[0].shape, args[1].shape),
    "aten.baddbmm": lambda args, out: _product(args[1].shape, args[2].shape),
    "aten._grouped_mm": lambda args, out: _product(args[0].shape, args[1].shape),  # each row meets one expert
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
    """Of one call of an operation that torch calls `aten.mm` …; 0 where nothing is counted."""
    count = _COUNTS.get(operation)
    return 0 if count is None else count(args, out)
