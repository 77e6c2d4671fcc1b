"""Memory that cuDNN's convolutions take beside their results: copies in the layout that tensor cores read, and partial sums.

cuDNN chooses kernels by rules of its own. These were fitted to what torch 2.11 with cuDNN 9.19 took on an H200 (2026-11-15):
float32 is computed in TF32 there, by kernels that read channels last, so input and output are copied.
"""

from math import prod
from typing import Any, List, NamedTuple, Sequence

import torch

from ownlab_guest.fit.request import Card

MIB = 1024**2


class _Call(NamedTuple):
    """One convolution: `image` is what slides under the weights, `result` what comes of it."""

    image: Any
    result: Any
    weight: Any
    stride: Sequence[int]
    groups: int


def forward_bytes(args: Sequence[Any], out: Any, card: Card) -> int:
    """Of aten.convolution. A transposed one is computed as the gradient of the image of a plain one."""
    inputs, weight, stride, transposed, groups = args[0], args[1], args[3], bool(args[6]), int(args[8])
    if transposed:
        return _to_image(_Call(out, inputs, weight, stride, groups), card)
    return _to_result(_Call(inputs, out, weight, stride, groups), card)


def backward_bytes(args: Sequence[Any], card: Card) -> List[int]:
    """Of aten.convolution_backward: for the gradient of the input, which comes first, and for that of the weight."""
    gradient, inputs, weight, stride = args[0], args[1], args[2], args[4]
    transposed, groups, wanted = bool(args[7]), int(args[9]), args[10]
    image, result = (gradient, inputs) if transposed else (inputs, gradient)
    call = _Call(image, result, weight, stride, groups)
    contiguous = 0 if gradient.is_contiguous() or _channels_last(gradient, weight) else _bytes(gradient)
    of_inputs = 0
    if wanted[0]:
        of_inputs = _to_result(call, card) if transposed else _to_image(call, card)
    return [contiguous + of_inputs, contiguous + _to_weight(call, card)]


def _to_result(call: _Call, card: Card) -> int:
    """The convolution itself."""
    image, weight = call.image, call.weight
    if not _on_tensor_cores(call, card):
        return 0
    if _channels_last(image, weight):
        padded = _padded(image, int(image.shape[1]), 8)
        return padded if padded > _bytes(image) else 0
    if _is_product(call):
        return 0
    if prod(weight.shape[2:]) == 1 and (prod(call.stride) == 1 or weight.shape[1] < 256):
        return _bytes(image) + _bytes(call.result) if _turned(call) else 0
    if _few(call) and image.dtype.itemsize == 2 and prod(weight.shape[2:]) < 256:
        return 0
    read = _padded(image, int(image.shape[1]), 8) + _weight_copy(weight)
    return read if _writes_as_asked(call) else read + _bytes(call.result)


def _to_image(call: _Call, card: Card) -> int:
    """The gradient of the image."""
    if not _on_tensor_cores(call, card) or _channels_last(call.image, call.weight) or _is_product(call):
        return 0
    if _one_place(call) and not _many_weights(call) and _of_each_image(call) <= _copies(call):
        return 0
    return _bytes(call.result) + _bytes(call.image) + _weight_copy(call.weight)


def _to_weight(call: _Call, card: Card) -> int:
    """The gradient of the weight."""
    if _to_few(call):
        return _bytes(call.image) + _padded(call.result, int(call.result.shape[1]), 4)
    if not _on_tensor_cores(call, card) or _is_product(call):
        return 0
    partial = _partial_sums(call.weight, call.result)
    if _channels_last(call.image, call.weight):
        padded = _padded(call.image, int(call.image.shape[1]), 8)
        return partial + (padded if padded > _bytes(call.image) else 0)
    if not _one_place(call):
        return _copies(call) + partial
    if _many_weights(call):
        return _copies(call)
    return min(_of_each_image(call), _copies(call) + 4 * int(call.weight.numel()) * 4)


def _copies(call: _Call) -> int:
    """Of what the gradient of the weight reads."""
    channels = int(call.image.shape[1])
    return _bytes(call.result) + _padded(call.image, channels, 4 if call.image.dtype.itemsize == 4 else 8)


def _of_each_image(call: _Call) -> int:
    """One product for each image, added up afterwards."""
    return int(call.image.shape[0]) * int(call.weight.numel()) * 4


def _on_tensor_cores(call: _Call, card: Card) -> bool:
    """Kernels that need another layout; one group for each channel, and float32 of a first layer, have kernels of their own."""
    size, weight = call.image.dtype.itemsize, call.weight
    if size > 4 or card.capability < (8 if size == 4 else 7) or weight.dim() < 4:
        return False
    if call.groups > 1 and call.groups == call.image.shape[1]:
        return False
    return size == 2 or not _few(call) or prod(weight.shape[2:]) >= 49


def _writes_as_asked(call: _Call) -> bool:
    """Whether the result needs no copy: seen in float32 where few channels come in, or few change their number at many places."""
    channels = int(call.image.shape[1]), int(call.result.shape[1])
    if call.image.dtype.itemsize != 4 or min(channels) <= 4:
        return False
    many = int(call.result.shape[0]) * prod(call.result.shape[2:]) >= 2**17
    small = channels[0] <= 64 and prod(call.weight.shape[2:]) <= 16
    return (small and not many) or (channels[0] != channels[1] and min(channels) < 128 and many)


def _few(call: _Call) -> bool:
    """Colours, not channels: on either side."""
    return bool(min(call.image.shape[1], call.result.shape[1]) <= 4)


def _to_few(call: _Call) -> bool:
    """Channels become colours, place by place: seen in float32 for the gradient of the weight alone."""
    one = _one_place(call) and call.image.dtype.itemsize == 4 and not _channels_last(call.image, call.weight)
    return bool(one and call.result.shape[1] <= 4 < call.image.shape[1])


def _one_place(call: _Call) -> bool:
    """Each place of the result comes of one place of the image."""
    return prod(call.weight.shape[2:]) == 1 and prod(call.stride) == 1


def _is_product(call: _Call) -> bool:
    """The weights cover the whole image: all is one product of matrices, for which nothing is copied."""
    return bool(prod(call.result.shape[2:]) == 1 and prod(call.weight.shape[2:]) > 1)


def _many_weights(call: _Call) -> bool:
    return call.image.dtype.itemsize == 4 and int(call.weight.numel()) >= 2**20


def _turned(call: _Call) -> bool:
    """Whether a product of place by place is computed with channels last: seen for many weights and few places."""
    places = int(call.result.shape[0]) * prod(call.result.shape[2:])
    return _one_place(call) and _many_weights(call) and (call.weight.numel() >= 2**21 or places < 2**13)


def _weight_copy(weight: Any) -> int:
    """Weights of one place lie the same in both layouts."""
    return 0 if prod(weight.shape[2:]) == 1 else _padded(weight, int(weight.shape[1]), 8)


def _channels_last(*tensors: Any) -> bool:
    """Whether one of them lies with its channels last, and so all of the call does."""
    return any(
        one.dim() == 4 and not one.is_contiguous() and one.is_contiguous(memory_format=torch.channels_last)
        for one in tensors
    )


def _padded(tensor: Any, channels: int, to: int) -> int:
    """Channels of halves are filled up to what one load of a tensor core takes."""
    size = _bytes(tensor)
    return size if tensor.dtype.itemsize == 4 and to == 8 else size * (-(-channels // to) * to) // channels


def _partial_sums(weight: Any, gradient: Any) -> int:
    """Of the weight's gradient, in float32: up to 15, fewer where the output is small, in 9 MiB unless one needs more."""
    one = weight.numel() * 4
    count = max(1, min(15, int(gradient.shape[0]) * prod(gradient.shape[2:]) // 1792))
    return int(min(count * one, max(9 * MIB, one, min(2 * one, 18 * MIB))))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)
