"""Memory that cuDNN's convolutions take besides their results: copies in the layout of tensor cores, and partial sums.

cuDNN chooses a kernel by its own rules, and each call takes one workspace. Most are sums of a few sizes: copies of the image,
the result and the weights with channels last, partial sums of the weights in float32, a fixed number of MiB. Which of these a
call takes is decided by trees over its sizes (`convolution_kernels.json`), grown on 104,865 convolutions in one to three
dimensions that torch 2.11 with cuDNN 9.19 ran on an H200 (2026-11-16), where float32 is
computed in TF32. tests_gpu/fit/ has the data and the scripts: measure_convolutions.py, and grow_convolution_trees.py, which
computes with the functions of this module.
"""

import json
import os
from math import prod
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

import torch

from ownlab_guest.fit.request import Card

MIB = 1024**2
_MOST_PRODUCT = 4  # one product for each image takes no more than this many times the copies that it avoids
_TILE = 128  # rows and columns of a kernel's tile
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "convolution_kernels.json")
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
# A leaf is a sum: which copies (capitals: channels padded to one load), and which extra. A split has a property, the largest
# value that goes left, and two trees.
Tree = Union[str, List[Any]]


class _Call(NamedTuple):
    """One convolution: `image` is its input, `result` its output (exchanged if it is transposed)."""

    image: Any
    result: Any
    weight: Any
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


def forward_workspace(args: Sequence[Any], out: Any, card: Card) -> int:
    """Return the workspace of aten.convolution. A transposed one is the input gradient of a plain one."""
    inputs, weight, stride, padding, dilation = args[0], args[1], args[3], args[4], args[5]
    transposed, groups = bool(args[6]), int(args[8])
    image, result = (out, inputs) if transposed else (inputs, out)
    call = _Call(image, result, weight, stride, padding, dilation, groups)
    return _workspace("input_gradient" if transposed else "forward", call, card)


def backward_workspaces(args: Sequence[Any], card: Card) -> List[Tuple[int, ...]]:
    """Return the workspaces of aten.convolution_backward: for the input gradient, which comes first, and the weight gradient.

    Each makes its own copy of a gradient that is not contiguous (a part of a concatenation), beside its workspace.
    """
    gradient, inputs, weight, stride, padding, dilation = args[0], args[1], args[2], args[4], args[5], args[6]
    transposed, groups, wanted = bool(args[7]), int(args[9]), args[10]
    image, result = (gradient, inputs) if transposed else (inputs, gradient)
    call = _Call(image, result, weight, stride, padding, dilation, groups)
    layout = _CHANNELS_LAST[inputs.dim()] if _channels_last(inputs, weight) else torch.contiguous_format
    contiguous = 0 if gradient.is_contiguous(memory_format=layout) else _bytes(gradient)
    of_inputs = _workspace("forward" if transposed else "input_gradient", call, card) if wanted[0] else 0
    of_weight = _workspace("weight_gradient", call, card) if wanted[1] else 0
    return [(contiguous if wanted[0] else 0, of_inputs), (contiguous if wanted[1] else 0, of_weight)]


def _workspace(work: str, call: _Call, card: Card) -> int:
    """Return the workspace of a kernel. Cards without tensor cores for the dtype read tensors as they lie."""
    size = int(call.image.dtype.itemsize)
    if size > 4 or card.capability < (8 if size == 4 else 7):
        return 0
    values = _properties(call)
    kind = "depthwise" if values["depthwise"] else "grouped"
    if call.groups == 1:
        kind = "last" if values["layout"] else "plain"
    node: Tree = _trees()[work]["float32" if size == 4 else "half"][kind]
    while not isinstance(node, str):
        name, most, left, right = node
        node = left if values[name] <= most else right
    if node.startswith("M"):  # one product for each image, or with copies, whichever is less
        return min(_extra("pb", call), _copies("IR", call) + _extra(f"p{node[1:]}", call))
    copies, _, extra = node.partition("+")
    if extra == "pb" and values["product"] > _MOST_PRODUCT:
        return _copies("IR", call)
    return _copies(copies, call) + _extra(extra or "0", call)


_loaded: Dict[str, Dict[str, Dict[str, Tree]]] = {}


def _trees() -> Dict[str, Dict[str, Dict[str, Tree]]]:
    """Return the trees by work, dtype and kind of groups."""
    if not _loaded:
        with open(_FILE, encoding="utf-8") as file:
            _loaded.update(json.load(file))
    return _loaded


def _properties(call: _Call) -> Dict[str, float]:
    """Return what the trees ask for: channels, sizes, and how they fit into tiles and words."""
    batch, channels = int(call.image.shape[0]), int(call.image.shape[1])
    out, kernel = int(call.result.shape[1]), [int(size) for size in call.weight.shape[2:]]
    image, result = [int(size) for size in call.image.shape[2:]], [int(size) for size in call.result.shape[2:]]
    weights, positions = int(call.weight.numel()), batch * prod(result)
    return {
        "batch": batch,
        "in": channels,
        "out": out,
        "least": min(channels, out),
        "most": max(channels, out),
        "in_group": channels // call.groups,
        "in%8": channels % 8,
        "out%8": out % 8,
        "in%64": channels % 64,
        "out%64": out % 64,
        "taps": prod(kernel),
        "kmax": max(kernel),
        "stride": prod(call.stride),
        "smax": max(call.stride),
        "dilation": max(call.dilation),
        "pad": int(any(call.padding)),
        "positions": positions,
        "image_positions": batch * prod(image),
        "result_each": prod(result),
        "each%2": prod(result) % 2,
        "each%8": prod(result) % 8,
        "iw": image[-1],
        "rw": result[-1],
        "weights": weights,
        "groups": call.groups,
        "depthwise": int(call.groups > 1 and call.groups == channels),
        "layout": int(_channels_last(call.image, call.weight)),
        "half16": int(call.image.dtype is torch.float16),
        "dims": len(kernel),
        "flops": positions * weights,
        "tiles": positions * out,
        "reduction": channels // call.groups * prod(kernel),
        "out_group": out // call.groups,
        "kmin": min(kernel),
        "image_each": prod(image),
        "waves": -(-positions // _TILE) * -(-out // _TILE),
        "weight_waves": -(-out // _TILE) * -(-(channels // call.groups * prod(kernel)) // _TILE),
        "product": 4 * batch * weights / max(1, _bytes(call.image) + _bytes(call.result)),
        "ratio": prod(image) / max(1, prod(result)) * channels / out,
    }


def _copies(which: str, call: _Call) -> int:
    """Return the bytes of copies: I, R and W of image, result and weights, with padded channels; small letters as they are."""
    load = 4 if call.image.dtype.itemsize == 4 else 8
    weight = call.weight
    padded = _up(int(weight.shape[0]), load) * _up(int(weight.shape[1]), load if call.groups == 1 else 1)
    sizes = {
        "0": 0,
        "I": _padded(call.image, load),
        "R": _padded(call.result, load),
        "W": padded * prod(weight.shape[2:]) * int(weight.dtype.itemsize),
        "i": _bytes(call.image),
        "r": _bytes(call.result),
        "w": _bytes(weight),
    }
    return sum(sizes[letter] for letter in which)


def _extra(which: str, call: _Call) -> int:
    """Return further bytes: a number of MiB, or p and a number of partial sums in float32, pb and b1 one for each image."""
    partial_sum, batch = int(call.weight.numel()) * 4, int(call.image.shape[0])
    if which == "pb":
        return batch * partial_sum
    if which == "b1":
        return batch * _bytes(call.weight)
    return int(which[1:]) * partial_sum if which.startswith("p") else int(which) * MIB


def _channels_last(*tensors: Any) -> bool:
    """Whether one of the tensors has channels last, and therefore the whole call does."""
    return any(
        tensor.dim() in _CHANNELS_LAST
        and not tensor.is_contiguous()
        and tensor.is_contiguous(memory_format=_CHANNELS_LAST[tensor.dim()])
        for tensor in tensors
    )


def _up(number: int, to: int) -> int:
    return -(-number // to) * to


def _padded(tensor: Any, to: int) -> int:
    """Bytes with channels padded to one load of a tensor core."""
    return _bytes(tensor) // max(1, int(tensor.shape[1])) * _up(int(tensor.shape[1]), to)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)
