"""Memory that cuDNN's convolutions take besides their results: copies in the layout of tensor cores, and partial sums.

cuDNN chooses a kernel by its own rules, and each call takes one workspace. Most are sums of a few sizes: copies of the image,
the result and the weights with channels last, partial sums of the weights in float32, a fixed number of MiB. Which of these a
call takes is decided by forests over its sizes (`convolution_kernels.json.gz`), grown on 209,776 convolutions in one to three
dimensions that torch 2.11 with cuDNN 9.19 ran on an H200 (2026-11-16 and 2026-11-19), where float32 is computed in TF32. The trees
of a forest vote; where they disagree, a prediction tries each answer (`Estimate`). tests_gpu/fit/ has the data and the scripts:
measure_convolutions.py, and grow_convolution_forests.py, which computes with the functions of this module.
"""

import gzip
import json
import os
from collections import Counter
from math import prod
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from ownlab_guest.fit.request import Card

MIB = 1024**2
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "convolution_kernels.json.gz")
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
_MOST_COPIES = 4  # a workspace of a forward pass, in copies of all arguments
# Rows and columns of kernels' tiles: how many a product has, and how long its sums are for each, decides how they are split.
_TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (128, 256), (256, 128), (256, 64), (64, 256))


class Estimate(int):
    """The most likely number of bytes, and all that were thought of: one for each tree of a forest."""

    likely: Tuple[int, ...]

    @classmethod
    def of(cls, likely: Sequence[int]) -> "Estimate":
        """Return what most trees say; of several such numbers the one in the middle."""
        votes = Counter(likely)
        most = max(votes.values())
        best = sorted(size for size, count in votes.items() if count == most)
        estimate = cls(best[len(best) // 2])
        estimate.likely = tuple(likely)
        return estimate


class Forest(NamedTuple):
    """What the file has for one kind of work: `leaves` are sums, `copies+extra`, and trees are lists of numbers.

    A split is a property, the largest value that goes left, and the length of the left part, which follows; then comes the right
    part. A leaf is -1 minus its place in `leaves`.
    """

    leaves: List[str]
    trees: List[List[float]]

    def answers(self, values: Sequence[float]) -> List[str]:
        """Return the leaf of each tree."""
        return [self.leaves[_leaf(tree, values)] for tree in self.trees]


def _leaf(tree: List[float], values: Sequence[float]) -> int:
    place = 0
    while tree[place] >= 0:
        goes_left = values[int(tree[place])] <= tree[place + 1]
        place += 3 if goes_left else 3 + int(tree[place + 2])
    return -1 - int(tree[place])


class _Call(NamedTuple):
    """One convolution: `image` is its input, `result` its output (exchanged if it is transposed)."""

    image: Any
    result: Any
    weight: Any
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int


def forward_workspaces(args: Sequence[Any], out: Any, card: Card) -> Tuple[int, ...]:
    """Return the copies of arguments that are not contiguous, and the workspace of aten.convolution.

    A transposed one is the input gradient of a plain one.
    """
    inputs, weight, stride, padding, dilation = args[0], args[1], args[3], args[4], args[5]
    transposed, groups = bool(args[6]), int(args[8])
    image, result = (out, inputs) if transposed else (inputs, out)
    call = _Call(image, result, weight, stride, padding, dilation, groups)
    layout = _layout(inputs, weight)
    copied = _copy(inputs, layout), _copy(weight, layout)
    return (*copied, workspace("input_gradient" if transposed else "forward", call, card))


def backward_workspaces(args: Sequence[Any], card: Card) -> List[Tuple[int, ...]]:
    """Return the workspaces of aten.convolution_backward: for the input gradient, which comes first, and the weight gradient.

    Each makes its own copy of a gradient or an argument that is not contiguous (a part of a concatenation), beside its workspace.
    """
    gradient, inputs, weight, stride, padding, dilation = args[0], args[1], args[2], args[4], args[5], args[6]
    transposed, groups, wanted = bool(args[7]), int(args[9]), args[10]
    image, result = (gradient, inputs) if transposed else (inputs, gradient)
    call = _Call(image, result, weight, stride, padding, dilation, groups)
    layout = _layout(inputs, weight)
    of_gradient = _copy(gradient, layout)
    to_inputs: Tuple[int, ...] = (0,)
    to_weight: Tuple[int, ...] = (0,)
    if wanted[0]:
        work = "forward" if transposed else "input_gradient"
        to_inputs = of_gradient, _copy(weight, layout), workspace(work, call, card)
    if wanted[1]:
        to_weight = of_gradient, _copy(inputs, layout), workspace("weight_gradient", call, card)
    return [to_inputs, to_weight]


def workspace(work: str, call: _Call, card: Card) -> int:
    """Return the workspace of a kernel. Cards without tensor cores for the dtype read tensors as they lie."""
    size = int(call.image.dtype.itemsize)
    if size > 4 or card.capability < (8 if size == 4 else 7):
        return 0
    forest = forests()[work]["float32" if size == 4 else "half"][kind_of(call)]
    known = sizes(call)
    likely = [leaf_bytes(leaf, known) for leaf in forest.answers(properties(work, call))]
    if work != "weight_gradient":
        # Only gradients of weights have partial sums of them: what trees say so far from all that was measured is none.
        most = _MOST_COPIES * (known["I"] + known["R"] + known["W"])
        likely = [size if size <= most else 0 for size in likely]
    return Estimate.of(likely)


_loaded: Dict[str, Dict[str, Dict[str, Forest]]] = {}


def forests() -> Dict[str, Dict[str, Dict[str, Forest]]]:
    """Return the forests by work, dtype and kind of groups."""
    if not _loaded:
        with gzip.open(_FILE, "rt", encoding="utf-8") as file:
            for work, by_dtype in json.load(file).items():
                _loaded[work] = {
                    dtype: {kind: Forest(**forest) for kind, forest in by_kind.items()}
                    for dtype, by_kind in by_dtype.items()
                }
    return _loaded


def kind_of(call: _Call) -> str:
    """Return which forest answers: by groups, and by layout without any."""
    if call.groups > 1:
        return "depthwise" if call.groups == int(call.image.shape[1]) else "grouped"
    return "last" if _channels_last(call.image, call.weight) else "plain"


def properties(work: str, call: _Call) -> List[float]:
    """Return what the trees ask for by its place: channels, sizes, and how they fit into tiles and words. The order is the file's."""
    batch, channels, out = int(call.image.shape[0]), int(call.image.shape[1]), int(call.result.shape[1])
    kernel = [int(size) for size in call.weight.shape[2:]]
    image, result = [int(size) for size in call.image.shape[2:]], [int(size) for size in call.result.shape[2:]]
    weights, positions, inside = int(call.weight.numel()), batch * prod(result), channels // call.groups
    words = [number % step for step in (4, 8, 32, 64) for number in (channels, out)]
    return [
        *(batch, channels, out, min(channels, out), max(channels, out), inside, out // call.groups, call.groups),
        *words,
        *(prod(kernel), max(kernel), min(kernel), kernel[0], prod(call.stride), max(call.stride), call.stride[0]),
        *(max(call.dilation), int(any(call.padding)), len(kernel), int(call.image.dtype is torch.float16)),
        *(positions, batch * prod(image), prod(result), prod(result) % 2, prod(result) % 8, prod(image)),
        *(image[-1], result[-1], image[0], weights, positions * weights, positions * out, inside * prod(kernel)),
        int(_channels_last(call.image, call.weight)),
        4 * batch * weights / max(1, _bytes(call.image) + _bytes(call.result)),
        prod(image) / max(1, prod(result)) * channels / out,
        *_tiling(*_product(work, call)),
    ]


def _product(work: str, call: _Call) -> Tuple[int, int, int]:
    """Return rows, columns and the length of the sums of the matrix product that a kernel computes."""
    batch, channels, out = int(call.image.shape[0]), int(call.image.shape[1]), int(call.result.shape[1])
    taps = prod(int(size) for size in call.weight.shape[2:])
    positions = batch * prod(int(size) for size in call.result.shape[2:])
    if work == "weight_gradient":
        return out, channels // call.groups * taps, positions
    if work == "forward":
        return positions, out, channels // call.groups * taps
    return batch * prod(int(size) for size in call.image.shape[2:]), channels, out // call.groups * taps


def _tiling(rows: int, columns: int, length: int) -> List[float]:
    values: List[float] = [length, rows * columns]
    for high, wide in _TILES:
        tiles = -(-rows // high) * -(-columns // wide)
        values += [tiles, length / max(1, tiles)]
    return values


def sizes(call: _Call) -> Dict[str, int]:
    """Return the sizes that leaves add up: I, R and W are copies of image, result and weights with padded channels, small letters
    the same as they are; p is one partial sum of the weights in float32, pb one for each image, b1 the weights for each image."""
    load = 4 if call.image.dtype.itemsize == 4 else 8
    weight, batch = call.weight, int(call.image.shape[0])
    padded = _up(int(weight.shape[0]), load) * _up(int(weight.shape[1]), load if call.groups == 1 else 1)
    partial_sum = int(weight.numel()) * 4
    return {
        "I": _padded(call.image, load),
        "R": _padded(call.result, load),
        "W": padded * prod(int(size) for size in weight.shape[2:]) * int(weight.dtype.itemsize),
        "i": _bytes(call.image),
        "r": _bytes(call.result),
        "w": _bytes(weight),
        "p": partial_sum,
        "pb": batch * partial_sum,
        "b1": batch * _bytes(weight),
    }


def leaf_bytes(leaf: str, known: Dict[str, int]) -> int:
    """Return the bytes of a leaf such as IRW+p4: copies, and a number of MiB or of partial sums."""
    copies, _, extra = leaf.partition("+")
    copied = sum(known[letter] for letter in copies if letter != "0")
    if extra in known:
        return copied + known[extra]
    return copied + (int(extra[1:]) * known["p"] if extra.startswith("p") else int(extra) * MIB)


def _layout(*tensors: Any) -> Any:
    return _CHANNELS_LAST[tensors[0].dim()] if _channels_last(*tensors) else torch.contiguous_format


def _copy(tensor: Any, layout: Any) -> int:
    """Bytes of the copy that is made of a tensor of another layout."""
    return 0 if tensor.is_contiguous(memory_format=layout) else _bytes(tensor)


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
