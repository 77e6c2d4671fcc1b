"""Memory that cuDNN's convolutions take besides their results: copies in the layout of tensor cores, and partial sums.

cuDNN chooses kernels by its own rules. These rules were fitted to what torch 2.11 with cuDNN 9.19 allocated on an H200
(2026-11-15). There float32 is computed in TF32 by kernels that read channels last, so input and output are copied.
"""

from math import prod
from typing import Any, List, NamedTuple, Sequence

import torch

from ownlab_guest.fit.request import Card

MIB = 1024**2


class _Call(NamedTuple):
    """One convolution: `image` is its input, `result` its output (exchanged if it is transposed)."""

    image: Any
    result: Any
    weight: Any
    stride: Sequence[int]
    groups: int


def forward_workspace(args: Sequence[Any], out: Any, card: Card) -> int:
    """Return the workspace of aten.convolution. A transposed one is the input gradient of a plain one."""
    inputs, weight, stride, transposed, groups = args[0], args[1], args[3], bool(args[6]), int(args[8])
    if transposed:
        return _input_gradient_workspace(_Call(out, inputs, weight, stride, groups), card)
    return _forward_workspace(_Call(inputs, out, weight, stride, groups), card)


def backward_workspaces(args: Sequence[Any], card: Card) -> List[int]:
    """Return the workspaces of aten.convolution_backward: for the input gradient, which comes first, and the weight gradient."""
    gradient, inputs, weight, stride = args[0], args[1], args[2], args[4]
    transposed, groups, wanted = bool(args[7]), int(args[9]), args[10]
    image, result = (gradient, inputs) if transposed else (inputs, gradient)
    call = _Call(image, result, weight, stride, groups)
    contiguous = 0 if gradient.is_contiguous() or _channels_last(gradient, weight) else _bytes(gradient)
    of_inputs = 0
    if wanted[0]:
        of_inputs = _forward_workspace(call, card) if transposed else _input_gradient_workspace(call, card)
    return [contiguous + of_inputs, contiguous + _weight_gradient_workspace(call, card)]


def _forward_workspace(call: _Call, card: Card) -> int:
    """The forward pass."""
    image, weight = call.image, call.weight
    if not _on_tensor_cores(call, card):
        return 0
    if _channels_last(image, weight):
        padded = _padded(image, int(image.shape[1]), 8)
        return padded if padded > _bytes(image) else 0
    if _is_matrix_product(call):
        return 0
    if prod(weight.shape[2:]) == 1 and (_is_pointwise(call) or weight.shape[1] < 256):
        return _bytes(image) + _bytes(call.result) if _uses_channels_last(call) else 0
    if _has_few_channels(call) and _is_half(call) and prod(weight.shape[2:]) < 256:
        return 0
    read = _padded(image, int(image.shape[1]), 8) + _weight_copy(weight)
    return read if _writes_requested_layout(call) else read + _bytes(call.result)


def _input_gradient_workspace(call: _Call, card: Card) -> int:
    """The gradient of the image."""
    if not _on_tensor_cores(call, card) or _channels_last(call.image, call.weight) or _is_matrix_product(call):
        return 0
    if _is_pointwise(call) and not _gradient_uses_channels_last(call):
        return 0
    return _bytes(call.result) + _bytes(call.image) + _weight_copy(call.weight)


def _weight_gradient_workspace(call: _Call, card: Card) -> int:
    """The gradient of the weight."""
    if _reduces_to_few_channels(call):
        return _bytes(call.image) + _padded(call.result, int(call.result.shape[1]), 4)
    if not _on_tensor_cores(call, card) or _is_matrix_product(call):
        return 0
    partial = _partial_sums(call)
    if _channels_last(call.image, call.weight):
        padded = _padded(call.image, int(call.image.shape[1]), 8)
        return partial + (padded if padded > _bytes(call.image) else 0)
    if not _is_pointwise(call):
        return _layout_copies(call) + partial + (_weight_copy(call.weight) if _is_half(call) else 0)
    if _many_weights(call):
        return _layout_copies(call)
    sums = 0 if _is_half(call) and _fills_tiles(call.weight) else 4
    return min(_product_per_image(call), _layout_copies(call) + sums * int(call.weight.numel()) * 4)


def _layout_copies(call: _Call) -> int:
    """Copies of what the weight gradient reads."""
    channels = int(call.image.shape[1])
    return _bytes(call.result) + _padded(call.image, channels, 4 if call.image.dtype.itemsize == 4 else 8)


def _product_per_image(call: _Call) -> int:
    """One product per image, summed afterwards."""
    return int(call.image.shape[0]) * int(call.weight.numel()) * 4


def _on_tensor_cores(call: _Call, card: Card) -> bool:
    """Whether tensor cores compute it. Depthwise convolutions, and float32 in a first layer, have their own kernels."""
    size, weight = call.image.dtype.itemsize, call.weight
    if size > 4 or card.capability < (8 if size == 4 else 7) or weight.dim() < 4:
        return False
    if call.groups > 1 and call.groups == call.image.shape[1]:
        return False
    return size == 2 or not _has_few_channels(call) or prod(weight.shape[2:]) >= 49


def _writes_requested_layout(call: _Call) -> bool:
    """Whether the result needs no copy: seen in float32 with few input channels, or with many positions and changed channels."""
    channels = int(call.image.shape[1]), int(call.result.shape[1])
    if call.image.dtype.itemsize != 4 or min(channels) <= 4:
        return False
    many = _output_positions(call) >= 2**17
    small = channels[0] <= 64 and prod(call.weight.shape[2:]) <= 16
    return (small and not many) or (channels[0] != channels[1] and min(channels) < 128 and many)


def _has_few_channels(call: _Call) -> bool:
    """Whether either side has at most 4 channels, such as colours."""
    return bool(min(call.image.shape[1], call.result.shape[1]) <= 4)


def _reduces_to_few_channels(call: _Call) -> bool:
    """A pointwise convolution to at most 4 channels: seen in float32, for the weight gradient only."""
    pointwise = _is_pointwise(call) and call.image.dtype.itemsize == 4 and not _channels_last(call.image, call.weight)
    return bool(pointwise and call.result.shape[1] <= 4 < call.image.shape[1])


def _is_pointwise(call: _Call) -> bool:
    """Whether each position of the result depends on one position of the image."""
    return prod(call.weight.shape[2:]) == 1 and prod(call.stride) == 1


def _is_matrix_product(call: _Call) -> bool:
    """Whether the weights cover the whole image: a single matrix product, without copies."""
    return bool(prod(call.result.shape[2:]) == 1 and prod(call.weight.shape[2:]) > 1)


def _many_weights(call: _Call) -> bool:
    return call.image.dtype.itemsize == 4 and int(call.weight.numel()) >= 2**20


def _is_half(call: _Call) -> bool:
    return bool(call.image.dtype.itemsize == 2)


def _fills_tiles(weight: Any) -> bool:
    """Whether channels fill the tiles of a kernel; else partial sums were seen (888 channels of a RegNet)."""
    return bool(weight.shape[0] % 64 == 0 and weight.shape[1] % 64 == 0)


def _output_positions(call: _Call) -> int:
    """Positions of the result, over all images."""
    return int(call.result.shape[0] * prod(call.result.shape[2:]))


def _uses_channels_last(call: _Call) -> bool:
    """Whether a pointwise convolution is computed with channels last: seen with many weights and few positions.

    16 bits: if an image has an odd number of positions (7 x 7), so that the next channel begins within a word of 4 bytes.
    """
    if not _is_pointwise(call):
        return _is_half(call) and not _has_few_channels(call) and _output_positions(call) < 2**13
    if _is_half(call):
        return prod(call.result.shape[2:]) % 2 == 1 and int(call.weight.numel()) >= 3 * 2**12
    return _many_weights(call) and (call.weight.numel() >= 2**21 or _output_positions(call) < 2**13)


def _gradient_uses_channels_last(call: _Call) -> bool:
    """The same, for the gradient of the image."""
    if not _is_half(call):
        return _many_weights(call) or _product_per_image(call) > _layout_copies(call)
    wide = call.result.shape[1] >= call.image.shape[1] >= 256
    return _uses_channels_last(call) or bool(wide and _output_positions(call) >= 2**16)


def _weight_copy(weight: Any) -> int:
    """Bytes of the copied weights; pointwise weights are equal in both layouts."""
    return 0 if prod(weight.shape[2:]) == 1 else _padded(weight, int(weight.shape[1]), 8)


def _channels_last(*tensors: Any) -> bool:
    """Whether one of the tensors has channels last, and therefore the whole call does."""
    return any(
        tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
        for tensor in tensors
    )


def _padded(tensor: Any, channels: int, to: int) -> int:
    """Bytes with channels padded to one load of a tensor core (16-bit types)."""
    size = _bytes(tensor)
    return size if tensor.dtype.itemsize == 4 and to == 8 else size * (-(-channels // to) * to) // channels


def _partial_sums(call: _Call) -> int:
    """Partial sums of the weight gradient in float32: up to 15, fewer for small outputs, within 9 MiB unless one needs more.

    16 bits: up to 13 with many positions, within 9 MiB (4 MiB if pointwise); none with fewer positions or with groups. With
    many weights float16 needs fewer positions than bfloat16.
    """
    partial_sum = int(call.weight.numel()) * 4
    if _is_half(call) and not _is_pointwise(call):
        early = call.image.dtype is torch.float16 and partial_sum >= 8 * MIB
        many = call.groups == 1 and _output_positions(call) >= (2**12 if early else 2**13)
        room = 4 * MIB if prod(call.weight.shape[2:]) == 1 else 9 * MIB
        return min(13, room // partial_sum) * partial_sum if many and partial_sum else 0
    count = max(1, min(15, _output_positions(call) // 1792))
    return min(count * partial_sum, max(9 * MIB, partial_sum, min(2 * partial_sum, 18 * MIB)))


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)
