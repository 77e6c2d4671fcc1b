"""Memory that cuDNN's convolutions take beside their results: copies in the layout that tensor cores read, and partial sums.

cuDNN chooses kernels by rules of its own. These were fitted to what torch 2.11 with cuDNN 9.19 took on an H200 (2026-11-15):
float32 is computed in TF32 there, by kernels that read channels last, so input and output are copied.
"""

from math import prod
from typing import Any, List, Sequence

import torch

from ownlab_guest.fit.request import Card

MIB = 1024**2


def forward_bytes(args: Sequence[Any], out: Any, card: Card) -> int:
    """Of aten.convolution."""
    inputs, weight, groups = args[0], args[1], int(args[8])
    if not _on_tensor_cores(inputs, weight, groups, card):
        return 0
    if _channels_last(inputs, weight):
        padded = _padded(inputs, int(inputs.shape[1]), 8)
        return padded if padded > _bytes(inputs) else 0
    places = prod(weight.shape[2:])
    if places == 1 and (prod(args[3]) == 1 or weight.shape[1] < 256):
        return 0
    if _few(inputs, weight) and inputs.dtype.itemsize == 2 and places < 256:
        return 0
    read = _padded(inputs, int(inputs.shape[1]), 8) + _padded(weight, int(weight.shape[1]), 8)
    return read if _writes_as_asked(inputs, out) else read + _bytes(out)


def backward_bytes(args: Sequence[Any], card: Card) -> List[int]:
    """Of aten.convolution_backward: for the gradient of the input, which comes first, and for that of the weight."""
    gradient, inputs, weight, groups, wanted = args[0], args[1], args[2], int(args[9]), args[10]
    contiguous = 0 if gradient.is_contiguous() or _channels_last(gradient, weight) else _bytes(gradient)
    if not _on_tensor_cores(inputs, weight, groups, card):
        return [contiguous, contiguous]
    partial = _partial_sums(weight, gradient)
    if _channels_last(inputs, weight):
        padded = _padded(inputs, int(inputs.shape[1]), 8)
        return [0, partial + (padded if padded > _bytes(inputs) else 0)]
    of_inputs = _bytes(gradient) + _bytes(inputs) if wanted[0] else 0
    copies = _bytes(gradient) + _padded(inputs, int(inputs.shape[1]), 4 if inputs.dtype.itemsize == 4 else 8)
    if not _plain_product(weight, args[4]):
        return [contiguous + of_inputs, contiguous + copies + partial]
    of_images = int(inputs.shape[0]) * weight.numel() * 4  # one product for each image, added up afterwards
    if of_images <= copies:
        return [contiguous, contiguous + of_images]
    return [contiguous + of_inputs, contiguous + min(of_images, copies + 4 * weight.numel() * 4)]


def _on_tensor_cores(inputs: Any, weight: Any, groups: int, card: Card) -> bool:
    """Kernels that need another layout; one group for each channel, and float32 of a first layer, have kernels of their own."""
    size = inputs.dtype.itemsize
    if size > 4 or card.capability < (8 if size == 4 else 7) or weight.dim() < 4:
        return False
    if groups > 1 and groups == inputs.shape[1]:
        return False
    return size == 2 or not _few(inputs, weight) or prod(weight.shape[2:]) >= 49


def _writes_as_asked(inputs: Any, out: Any) -> bool:
    """Whether the result needs no copy: seen for large float32 images whose few channels change their number."""
    channels = int(inputs.shape[1]), int(out.shape[1])
    places = int(out.shape[0]) * prod(out.shape[2:])
    return inputs.dtype.itemsize == 4 and channels[0] != channels[1] and 4 < min(channels) < 128 and places >= 2**17


def _few(inputs: Any, weight: Any) -> bool:
    """Colours, not channels: on either side."""
    return bool(min(inputs.shape[1], weight.shape[0]) <= 4)


def _plain_product(weight: Any, stride: Sequence[int]) -> bool:
    return prod(weight.shape[2:]) == 1 and prod(stride) == 1


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
