"""Memory that operations take on a card besides their results, by operation, shapes and card. No dispatch shows it.

Each rule names its source. "H200": fitted to measurements with torch 2.11 and cuDNN 9.19 there, 2026-11-15.
"""

from math import prod
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ownlab_guest.fit.convolution_workspaces import backward_workspaces, forward_workspaces
from ownlab_guest.fit.request import Card

KIB, MIB = 1024, 1024**2
_MULTIPLIES = frozenset(
    f"aten.{name}" for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "_addmm_activation")
)
_LOSSES = frozenset(("aten.mse_loss", "aten.smooth_l1_loss"))
_WHOLE = {"aten.binary_cross_entropy": 3}  # losses that are made whole once, and the place of `reduction`
_REDUCES = frozenset(f"aten.{name}" for name in ("sum", "mean", "amax", "amin", "linalg_vector_norm", "norm"))
_NO_SORT = 3072  # embeddings with fewer indices do not sort (ATen/native/cuda/Embedding.cu)
_ROWS_OF_THREAD = 10  # NROWS_PER_THREAD in EmbeddingBackwardKernel.cu
_REPEATS = 43  # how often an index comes on average, from which on there are no partial sums


class Around(NamedTuple):
    """What an operation allocates before its results: `held` until it ends, and `sort`, which is freed before the results."""

    held: Tuple[int, ...] = ()
    sort: Tuple[int, ...] = ()


def persistent_workspaces(operation: str, args: Sequence[Any], card: Card) -> List[Tuple[str, int]]:
    """Return workspaces that a library allocates per thread at its first use, and keeps (ATen/cuda/CublasHandlePool.cpp).

    cuBLAS: 32 MiB since Hopper, else 8.125 MiB. cuBLASLt, for products with a bias: 1 MiB (H200).
    """
    if operation == "aten._grouped_mm" and not _is_one_grouped_kernel(args, card):
        return [("cuBLAS", _cublas_bytes(card))]
    if operation not in _MULTIPLIES:
        return []
    if operation in ("aten.addmm", "aten._addmm_activation") and args[0].dim() == 1:
        return [("cuBLAS", _cublas_bytes(card)), ("cuBLASLt", MIB)]
    return [("cuBLAS", _cublas_bytes(card))]


def _is_one_grouped_kernel(args: Sequence[Any], card: Card) -> bool:
    """Whether grouped products are one CUTLASS kernel, else one after the other (_grouped_mm_cuda in ATen/native/cuda)."""
    return str(args[0].dtype) == "torch.bfloat16" and int(card.capability) in (9, 10)


def _cublas_bytes(card: Card) -> int:
    if card.cublas_bytes is not None:
        return card.cublas_bytes
    return 32 * MIB if card.capability >= 9 else 8 * MIB + 128 * KIB


def workspace_bytes(operation: str, args: Sequence[Any], out: Any, card: Card) -> List[Tuple[int, ...]]:
    """Return the workspaces of one call in order: the first ones beside the first result, the last ones beside all results.

    Those of one tuple exist at the same time. Beside a single result all tuples follow each other.
    """
    if operation in _REDUCES:
        over = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
        # Whole numbers and flags are converted to the type of their sum first (amax and amin count equals in the backward pass).
        size = 0 if args[0].is_floating_point() or args[0].is_complex() else int(out.dtype.itemsize)
        copied = args[0].numel() * size if out.dtype is not args[0].dtype else 0
        # Sums of whole numbers have 64 bits.
        wider = 2 if size == 8 else 1
        return [(copied, wider * reduction_workspace(args[0], over, card))]
    if operation in ("aten.max", "aten.min") and len(args) > 1 and isinstance(args[1], int):
        return [(), (4 * reduction_workspace(args[0], (args[1],), card),)]  # a value and its place: 16 bytes
    if operation == "aten.convolution":
        return [forward_workspaces(args, out, card)]
    if operation == "aten.convolution_backward":
        return backward_workspaces(args, card)
    if operation == "aten._scaled_dot_product_efficient_attention_backward":
        return _efficient_attention_backward(args)
    if operation in _LOSSES and _is_reduced(args):
        return [(_loss_bytes(args), reduction_workspace(args[0], (), card))]
    if operation in _STAGES:
        return _STAGES[operation](args)
    rule = _RULES.get(operation)
    return [] if rule is None else [(rule(args),)]


def result_bytes(operation: str, args: Sequence[Any]) -> Optional[int]:
    """Return the bytes of a result that takes more memory than its size says: a loss that is made whole and then reduced in place."""
    if operation == "aten.col2im":
        return _bytes(args[0])  # H200
    if operation in _WHOLE and (len(args) <= _WHOLE[operation] or args[_WHOLE[operation]] != 0):
        return _loss_bytes(args)
    return _loss_bytes(args) if operation in _LOSSES and _is_reduced(args) else None


def in_order(operation: str, results: List[Any]) -> List[Tuple[int, Any]]:
    """Return the results with their places, in the order in which a card allocates them."""
    numbered = list(enumerate(results))
    return numbered[::-1] if operation in _LAST_FIRST else numbered


EMPTY = {"aten.log_sigmoid_forward": 1}  # results that a card does not make, by their place
_LAST_FIRST = frozenset(("aten.native_dropout",))  # the mask comes first


def _is_last(tensor: Any) -> bool:
    """Whether a tensor has channels last, and not first, too."""
    return bool(
        tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
    )


def _batch_norm(inputs: Any, weight: Any, backward: bool) -> int:
    """cuDNN's batch norm with channels last (cudnn_batch_norm; fitted to 12 shapes in float16 and one in float32 on an H200).

    Other layouts need none, and bfloat16 has torch's own kernels.
    """
    channels = int(inputs.shape[1]) if inputs.dim() > 1 else 1
    each = _BYTES_OF_POSITION.get(inputs.dtype)
    if not _is_last(inputs) or each is None or weight is None or channels % 4:
        return 0
    return -(-channels // 64) * int(each[backward] * (int(inputs.numel()) // channels) + 1100)


# Of 64 channels, forward and backward.
_BYTES_OF_POSITION = {torch.float16: (3.2255, 2.65), torch.float32: (8.063, 5.334)}


def _like(gradient: Any, inputs: Any) -> int:
    """The copy of a gradient whose channels do not lie where those of the inputs do."""
    if inputs.dtype is torch.bfloat16 or _is_last(gradient) == _is_last(inputs):
        return 0
    return _bytes(gradient)


def _is_reduced(args: Sequence[Any]) -> bool:
    return len(args) < 3 or args[2] != 0


def _loss_bytes(args: Sequence[Any]) -> int:
    """Bytes of a loss of two tensors before its reduction (ATen/native/Loss.cpp: the structured kernel makes it twice)."""
    return int(prod(torch.broadcast_shapes(args[0].shape, args[1].shape)) * args[0].dtype.itemsize)


def _bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.dtype.itemsize)


def _copy(tensor: Any) -> int:
    """Bytes of the copy that a kernel makes of an argument that is not contiguous."""
    return 0 if tensor.is_contiguous() else _bytes(tensor)


def _image_copy(tensor: Any) -> int:
    """The same for kernels that read images with channels last, too."""
    return 0 if tensor.is_contiguous(memory_format=torch.channels_last) else _copy(tensor)


def _sort_bytes(rows: int) -> int:
    """What sorting pairs of 64 bits takes: both again, and histograms (cub's radix sort; H200)."""
    return 16 * rows + rows // 5 + 18 * KIB


def _sorted_sums(rows: int, width: int, weights: int, places: int) -> Tuple[int, ...]:
    """embedding_backward_cuda_kernel: `places` lists of a place for each index, and as many float32 sums as there can be."""
    segments = min(rows, weights)
    parts = rows // _ROWS_OF_THREAD + segments
    return (*[8 * rows] * places, 8 * segments, 8 * segments, 8 * parts, parts * width * 4)


def _embedding_backward(args: Sequence[Any]) -> List[Tuple[int, ...]]:
    gradient, rows = args[0], args[1].numel()
    if rows <= _NO_SORT:
        return []
    if rows >= _REPEATS * args[2]:  # another kernel (H200)
        return [(8 * rows, 8 * rows)]
    return [_sorted_sums(rows, gradient.shape[-1], args[2], 1)]


def _embedding_sort(args: Sequence[Any]) -> Around:
    """A copy of the gradient; many indices are sorted first."""
    rows, copied = args[1].numel(), _copy(args[0])
    if rows <= _NO_SORT:
        return Around((copied,))
    return Around((copied, 8 * rows, 8 * rows), (8 * rows, _sort_bytes(rows)))


def _index_put(args: Sequence[Any]) -> List[Tuple[int, ...]]:
    """Values that are added where an index may come twice, as gradients of indexing are: lists of places, a copy of the values
    and the sort (index_put_with_sort_kernel in ATen/native/cuda/Indexing.cu; H200)."""
    if len(args) < 4 or not args[3]:
        return []
    rows = max((index.numel() for index in args[1] if index is not None), default=0)
    return [(8 * rows,), (8 * rows, _copy(args[2]), *[8 * rows] * 3, _sort_bytes(rows))]


_MAXIMUM = 2  # the mode of an embedding bag that keeps its places


def _bag_backward(args: Sequence[Any]) -> List[Tuple[int, ...]]:
    if args[8] == _MAXIMUM:
        return []
    return [_sorted_sums(args[1].numel(), args[0].shape[-1], args[6], 1)]


def _bag_sort(args: Sequence[Any]) -> Around:
    rows = args[1].numel()
    return Around() if args[8] == _MAXIMUM else Around((8 * rows, 8 * rows), (8 * rows, _sort_bytes(rows)))


_SHORT = 4096  # rows that are sorted in place


def _sort(args: Sequence[Any]) -> List[Tuple[int, ...]]:
    """Places and values of long rows, twice (launch_stable_sort_kernel in ATen/native/cuda; H200)."""
    inputs = args[0]
    where = args[2] if len(args) > 1 and isinstance(args[1], bool) else args[1] if len(args) > 1 else -1
    if inputs.dim() == 0 or inputs.shape[int(where)] <= _SHORT:
        return []
    count, size = int(inputs.numel()), _bytes(inputs)
    return [(), (8 * count, 8 * count, size, 8 * count + size + size // 20)]


_LONG_TRANSFORM = 1 << 15


def _fourier(args: Sequence[Any]) -> int:
    """A copy for a transform along another than the last dimension, or for long ones (cuFFT; H200)."""
    inputs, dimensions = args[0], [int(number) % args[0].dim() for number in args[1]]
    longest = max((int(inputs.shape[number]) for number in dimensions), default=0)
    along = max(dimensions, default=inputs.dim() - 1) == inputs.dim() - 1
    return 0 if along and longest <= _LONG_TRANSFORM else _bytes(inputs)


_DIGITS = 256  # of a radix


def _topk(args: Sequence[Any]) -> List[Tuple[int, ...]]:
    """Histograms of many blocks for each row, if rows are long (should_use_multiblock in ATen/native/cuda/TensorTopK.cu)."""
    inputs, dimension = args[0], int(args[2]) if len(args) > 2 else -1
    if inputs.dim() == 0 or inputs.numel() == 0:
        return []
    length = int(inputs.shape[dimension])
    rows = int(inputs.numel()) // length
    least = next((least for most, least in _LONG_ROWS if rows <= most), 400)
    if length < least:
        return []
    blocks = rows * -(-length // (_DIGITS * 16))
    return [(), (_DIGITS * 2 * blocks, _DIGITS * 4 * rows)]


_LONG_ROWS = ((20, 20_000), (40, 10_000), (80, 8_000), (199, 5_000), (799, 3_000), (4_000, 800))


def _cudnn_attention_backward(args: Sequence[Any]) -> int:
    """Gradients of queries are summed in float32; those of shared keys and values are first made per head (H200)."""
    query, key, value = args[1], args[2], args[3]
    shared = 0 if key.shape[1] == query.shape[1] else (_bytes(key) + _bytes(value)) * query.shape[1] // key.shape[1]
    return int(query.numel() * 4 + prod(query.shape[:-1]) * 4 + 256 + shared)


def _flash_attention_backward(args: Sequence[Any]) -> int:
    """FlashAttention 2 sums the gradients of queries in float32, with padded rows and widths."""
    query, key, value = args[1], args[2], args[3]
    rows = prod(query.shape[:-2]) * (-(-query.shape[-2] // 128) * 128)
    shared = 0 if key.shape[1] == query.shape[1] else (_bytes(key) + _bytes(value)) * query.shape[1] // key.shape[1]
    return int(rows * (-(-query.shape[-1] // 32) * 32) * 4 + shared)


def _efficient_attention_backward(args: Sequence[Any]) -> List[Tuple[int, ...]]:
    """Two workspaces after the three results (attention_backward.cu).

    First the product of the output and its gradient with its row sums, twice; then, in float32, a part of the gradient of the
    queries for each block of them.
    """
    query = args[1]
    rows = prod(query.shape[:-1]) * 4
    return [(), (), (query.numel() * 4, rows, rows), (rows, _gradient_parts(query))]


def _gradient_parts(query: Any) -> int:
    """GradQTempStorage of kernel_backward.h: a tile and a lock for each block of queries; 16-bit kernels keep it in registers."""
    if query.dtype.itemsize < 4:
        return 0
    tile = 64 if query.shape[-1] <= 64 else 128
    tiles = -(-query.shape[-2] // tile) * -(-query.shape[-1] // tile)
    each = tiles * (tile * tile + 4)  # numbers of four bytes
    return int(prod(query.shape[:-2]) * -(-each // 8) * 8 * 4)


_STAGES: Dict[str, Callable[[Sequence[Any]], List[Tuple[int, ...]]]] = {
    "aten.embedding_dense_backward": _embedding_backward,
    "aten._embedding_bag_backward": _bag_backward,
    "aten.index_put": _index_put,
    "aten.index_put_": _index_put,
    "aten._unsafe_index_put": _index_put,
    "aten.topk": _topk,
    "aten.sort": _sort,
}
_RULES: Dict[str, Callable[[Sequence[Any]], int]] = {
    "aten._scaled_dot_product_cudnn_attention_backward": _cudnn_attention_backward,
    "aten._scaled_dot_product_flash_attention_backward": _flash_attention_backward,
    "aten._safe_softmax": lambda args: int(
        args[0].numel() + args[0].numel() // max(1, args[0].shape[-1])
    ),  # rows of -inf
    "aten._softmax_backward_data": lambda args: _bytes(args[0]),  # gradient times output (SoftMax.cu)
    "aten.logsumexp": lambda args: _bytes(args[0]),  # what exp() is taken of (ATen/native/ReduceOps.cpp)
    "aten.native_batch_norm": lambda args: _batch_norm(args[0], args[1], False) if args[5] else 0,
    "aten.native_batch_norm_backward": lambda args: _batch_norm(args[1], args[2], True) if args[7] else 0,
    "aten.max_pool2d_with_indices_backward": lambda args: _like(args[0], args[1]),
    # A difference for each pair and each of its numbers (DistanceKernel.cu).
    "aten._cdist_backward": lambda args: _bytes(args[4]) * int(args[1].shape[-1]),
    "aten._pdist_backward": lambda args: (int(args[1].shape[0]) - 1) * _bytes(args[1]),
    "aten.huber_loss": lambda args: _loss_bytes(args) if _is_reduced(args) else 0,
    "aten.abs": lambda args: _bytes(args[0]) if args[0].is_complex() else 0,
    "aten._fft_r2c": _fourier,
    "aten._fft_c2c": _fourier,
    "aten._fft_c2r": lambda args: _bytes(args[0]),
    "aten.roll": lambda args: _bytes(args[0]) if len(args[1]) > 1 else 0,  # one direction after the other
}
# Copies of arguments that are not contiguous, and what else exists before the results.
_AROUND: Dict[str, Callable[[Sequence[Any]], Around]] = {
    "aten.embedding_dense_backward": _embedding_sort,
    "aten._embedding_bag_backward": _bag_sort,
    "aten._scaled_dot_product_efficient_attention_backward": lambda args: Around((_copy(args[0].transpose(1, 2)),)),
    "aten.native_batch_norm_backward": lambda args: Around((_like(args[0], args[1]),)),
    "aten.native_layer_norm": lambda args: Around((_copy(args[0]),)),
    "aten.native_layer_norm_backward": lambda args: Around((_copy(args[0]), _copy(args[1]))),
    "aten.native_group_norm": lambda args: Around((_copy(args[0]),)),
    "aten.native_group_norm_backward": lambda args: Around((_copy(args[0]), _copy(args[1]))),
    "aten._softmax": lambda args: Around((_copy(args[0]),)),
    "aten._log_softmax": lambda args: Around((_copy(args[0]),)),
    "aten._softmax_backward_data": lambda args: Around((_copy(args[0]), _copy(args[1]))),
    "aten._log_softmax_backward_data": lambda args: Around((_copy(args[0]), _copy(args[1]))),
    "aten.upsample_nearest2d_backward": lambda args: Around((_image_copy(args[0]),)),
    "aten.upsample_bilinear2d_backward": lambda args: Around((_image_copy(args[0]),)),
    "aten.upsample_bicubic2d_backward": lambda args: Around((_copy(args[0]),)),
}


def around(operation: str, args: Sequence[Any]) -> Around:
    """Return what an operation allocates before its results."""
    rule = _AROUND.get(operation)
    return Around() if rule is None else rule(args)


WARP = 32
MAX_THREADS = 512
VECTOR = 4  # values per load of a thread
MIN_VALUES, MAX_VALUES = 16, 256  # values that one thread adds


def reduction_workspace(tensor: Any, over: Sequence[int], card: Card) -> int:
    """Return the workspace of a sum over the dimensions `over` (empty: all), with sums in float32.

    Many blocks work on one result then. Follows setReduceConfig in ATen/native/cuda/Reduce.cuh (the same from torch 1.7 to
    2.11). Exact on an H200 for bias gradients, which take up to 1 MiB per multiprocessor.
    """
    kept, reduced = _merge_dimensions(tensor, over)
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
    threads = MAX_THREADS // vector
    width, height = _block(wide, high, threads)
    step = width if along else 1
    per_thread = -(-each // step)
    if per_thread < min(height * 16, MAX_VALUES):
        return 0  # each warp has its own result
    per_thread = -(-each // (step * height))
    grid = -(-(results // vector) // (1 if along else width))
    target = card.multiprocessors * (card.threads // (width * height))
    if per_thread < MAX_VALUES or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-per_thread // MIN_VALUES)), -(-per_thread // MAX_VALUES))
    if blocks <= 1:
        return 0
    return 4 * results * blocks * (1 if along else width * vector)


Dimensions = List[Tuple[int, int]]  # size and stride


def _merge_dimensions(tensor: Any, over: Sequence[int]) -> Tuple[Dimensions, Dimensions]:
    """Return kept and reduced dimensions; contiguous neighbours are merged, as TensorIterator does."""
    dimensions = tensor.dim()
    gone = {dimension % dimensions for dimension in over} if over else set(range(dimensions))
    kept: Dimensions = []
    reduced: Dimensions = []
    order = sorted(range(dimensions), key=lambda dimension: (tensor.stride(dimension), -dimension))
    for dimension in order:
        size, stride = int(tensor.shape[dimension]), int(tensor.stride(dimension))
        if size == 1:
            continue
        there = reduced if dimension in gone else kept
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
    fast = min(kept, key=lambda dimension: dimension[1])
    for number in (fast[0], *(stride for _, stride in kept + reduced if stride != 1)):
        while number % vector:
            vector //= 2
    return vector


def _block(wide: int, high: int, threads: int) -> Tuple[int, int]:
    wide_power = _power_of_two_below(wide) if wide < threads else threads
    high_power = _power_of_two_below(high) if high < threads else threads
    width = min(wide_power, WARP)
    height = min(high_power, threads // width)
    return min(wide_power, threads // height), height


def _power_of_two_below(number: int) -> int:
    """Return the largest power of 2 that is not greater."""
    return 1 << max(0, number.bit_length() - 1)
