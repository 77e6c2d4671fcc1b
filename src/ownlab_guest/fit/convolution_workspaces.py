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
    if prod(weight.shape[2:]) == 1 and (_one_place(call) or weight.shape[1] < 256):
        return _bytes(image) + _bytes(call.result) if _turned(call) else 0
    if _few(call) and _is_half(call) and prod(weight.shape[2:]) < 256:
        return 0
    read = _padded(image, int(image.shape[1]), 8) + _weight_copy(weight)
    return read if _writes_as_asked(call) else read + _bytes(call.result)


def _to_image(call: _Call, card: Card) -> int:
    """The gradient of the image."""
    if not _on_tensor_cores(call, card) or _channels_last(call.image, call.weight) or _is_product(call):
        return 0
    if _one_place(call) and not _image_is_turned(call):
        return 0
    return _bytes(call.result) + _bytes(call.image) + _weight_copy(call.weight)


def _to_weight(call: _Call, card: Card) -> int:
    """The gradient of the weight."""
    if _to_few(call):
        return _bytes(call.image) + _padded(call.result, int(call.result.shape[1]), 4)
    if not _on_tensor_cores(call, card) or _is_product(call):
        return 0
    partial = _partial_sums(call)
    if _channels_last(call.image, call.weight):
        padded = _padded(call.image, int(call.image.shape[1]), 8)
        return partial + (padded if padded > _bytes(call.image) else 0)
    if not _one_place(call):
        return _copies(call) + partial + (_weight_copy(call.weight) if _is_half(call) else 0)
    if _many_weights(call):
        return _copies(call)
    sums = 0 if _is_half(call) and _in_tiles(call.weight) else 4
    return min(_of_each_image(call), _copies(call) + sums * int(call.weight.numel()) * 4)


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
    many = _places(call) >= 2**17
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


def _is_half(call: _Call) -> bool:
    return bool(call.image.dtype.itemsize == 2)


def _in_tiles(weight: Any) -> bool:
    """Whether channels fill what a kernel computes at once; else sums in parts were seen (888 channels of a RegNet)."""
    return bool(weight.shape[0] % 64 == 0 and weight.shape[1] % 64 == 0)


def _places(call: _Call) -> int:
    """Of the result, in all images."""
    return int(call.result.shape[0] * prod(call.result.shape[2:]))


def _turned(call: _Call) -> bool:
    """Whether a product of place by place is computed with channels last: seen for many weights and few places.

    Halves: where an image has an odd number of places (7 x 7), and the next channel so begins within a word of 4 bytes.
    """
    if not _one_place(call):
        return _is_half(call) and not _few(call) and _places(call) < 2**13
    if _is_half(call):
        return prod(call.result.shape[2:]) % 2 == 1 and int(call.weight.numel()) >= 3 * 2**12
    return _many_weights(call) and (call.weight.numel() >= 2**21 or _places(call) < 2**13)


def _image_is_turned(call: _Call) -> bool:
    """The same, for the gradient of the image."""
    if not _is_half(call):
        return _many_weights(call) or _of_each_image(call) > _copies(call)
    wide = call.result.shape[1] >= call.image.shape[1] >= 256
    return _turned(call) or bool(wide and _places(call) >= 2**16)


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


def _partial_sums(call: _Call) -> int:
    """Of the weight's gradient, in float32: up to 15, fewer where the output is small, in 9 MiB unless one needs more.

    Halves: 13 where there are many places, as many as 9 MiB hold (4 MiB of one place); none below, and none of groups. Of many
    weights float16 takes one earlier than bfloat16 does.
    """
    one = int(call.weight.numel()) * 4
    if _is_half(call) and not _one_place(call):
        early = call.image.dtype is torch.float16 and one >= 8 * MIB
        many = call.groups == 1 and _places(call) >= (2**12 if early else 2**13)
        room = 4 * MIB if prod(call.weight.shape[2:]) == 1 else 9 * MIB
        return min(13, room // one) * one if many and one else 0
    count = max(1, min(15, _places(call) // 1792))
    return min(count * one, max(9 * MIB, one, min(2 * one, 18 * MIB)))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)
