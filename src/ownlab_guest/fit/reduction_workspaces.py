"""Memory that a reduction takes on a card, where many blocks work on one result.

Follows setReduceConfig in ATen/native/cuda/Reduce.cuh (the same from torch 1.7 to 2.11): seen to be exact on an H200 for the
gradients of biases, which take up to a mebibyte for each multiprocessor.
"""

from typing import Any, List, Sequence, Tuple

from ownlab_guest.fit.request import Card

WARP = 32
MOST_THREADS = 512
VECTOR = 4  # values that a thread loads at once
LEAST_VALUES, MOST_VALUES = 16, 256  # that one thread adds up


def reduction_bytes(tensor: Any, over: Sequence[int], card: Card) -> int:
    """Of a sum of `tensor` over the dimensions `over` (all, where none is named); its sums are float32."""
    kept, reduced = _merged(tensor, over)
    results = _count(kept)
    each = _count(reduced)
    if results == 0 or each <= 1:
        return 0
    fast_kept = min((stride for _, stride in kept), default=None)
    fast_reduced = min(stride for _, stride in reduced)
    along = fast_kept is None or fast_reduced < fast_kept
    vector = 1
    if along:
        wide, high = each, results
        if fast_reduced == 1 and wide > 128 and len(kept) + len(reduced) == 1:
            wide //= VECTOR
    else:
        vector = _vector(kept, reduced) if fast_kept == 1 else 1
        wide, high = results // vector, each
    threads = MOST_THREADS // vector
    width, height = _block(wide, high, threads)
    step = width if along else 1
    per_thread = -(-each // step)
    if per_thread < min(height * 16, MOST_VALUES):
        return 0  # each warp has a result of its own
    per_thread = -(-each // (step * height))
    grid = -(-(results // vector) // (1 if along else width))
    target = card.multiprocessors * (card.threads // (width * height))
    if per_thread < MOST_VALUES or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-per_thread // LEAST_VALUES)), -(-per_thread // MOST_VALUES))
    if blocks <= 1:
        return 0
    return 4 * results * blocks * (1 if along else width * vector)


Dimensions = List[Tuple[int, int]]  # size and stride


def _merged(tensor: Any, over: Sequence[int]) -> Tuple[Dimensions, Dimensions]:
    """Dimensions that stay and that go; neighbours that lie behind each other are one, as TensorIterator makes them."""
    dimensions = tensor.dim()
    gone = {one % dimensions for one in over} if over else set(range(dimensions))
    kept: Dimensions = []
    reduced: Dimensions = []
    order = sorted(range(dimensions), key=lambda one: (tensor.stride(one), -one))
    for one in order:
        size, stride = int(tensor.shape[one]), int(tensor.stride(one))
        if size == 1:
            continue
        there = reduced if one in gone else kept
        if there and there[-1][0] * there[-1][1] == stride:
            there[-1] = (there[-1][0] * size, there[-1][1])
        else:
            there.append((size, stride))
    return kept, reduced or [(1, 1)]


def _count(dimensions: Dimensions) -> int:
    count = 1
    for size, _ in dimensions:
        count *= size
    return count


def _vector(kept: Dimensions, reduced: Dimensions) -> int:
    vector = VECTOR
    fast = min(kept, key=lambda one: one[1])
    for number in (fast[0], *(stride for _, stride in kept + reduced if stride != 1)):
        while number % vector:
            vector //= 2
    return vector


def _block(wide: int, high: int, threads: int) -> Tuple[int, int]:
    wide_power = _power(wide) if wide < threads else threads
    high_power = _power(high) if high < threads else threads
    width = min(wide_power, WARP)
    height = min(high_power, threads // width)
    return min(wide_power, threads // height), height


def _power(number: int) -> int:
    """The greatest power of 2 that is not above it."""
    return 1 << max(0, number.bit_length() - 1)
