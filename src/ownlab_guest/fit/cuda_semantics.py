"""What CUDA does otherwise than the CPU, for tensors that have no data and are said to lie on the CPU.

Tensors without data cannot be on a CUDA device where torch was built without CUDA: autograd ends the process. So they are on
the CPU, and here the operations that would be others on a card are replaced by those.
"""

import contextlib
import importlib
import sys
import warnings
from typing import Any, Callable, Dict, Iterator

import torch
from torch.utils._pytree import tree_map

from ownlab_guest.fit.attention import Attention, whole_block, whole_layer
from ownlab_guest.fit.request import Card

aten = torch.ops.aten
Instead = Dict[Any, Callable[..., Any]]

# Autocast of CUDA, as in ATen/autocast_mode.h of torch 2.11. What both compute in half precision is the CPU's list already.
_TO_FLOAT32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor pow.Scalar
softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity
poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss
mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp
upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
upsample_bicubic2d _upsample_bicubic2d_aa
"""
_RESULT_FLOAT32 = "prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm sum sum.dim_IntList"
_HALVES = (torch.bfloat16, torch.float16)


@contextlib.contextmanager
def as_cuda(instead: Instead) -> Iterator[None]:
    """While it lasts, CPU tensors behave as a card's: autocast, the operations of `instead`, optimizers, transformers."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of each kernel that is replaced: this is what is meant
            _cast_as_cuda(library)
            for operation, function in instead.items():
                library.impl(operation, function, "AutogradCPU")
        with _many_at_once(), _no_one_traces():
            yield
    finally:
        library._destroy()


def _cast_as_cuda(library: Any) -> None:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and has(name, "AutocastCPU") and not has(name, "AutocastCUDA"):
            library.impl(name[6:], torch.library.fallthrough_kernel, "AutocastCPU")
    for names, make in ((_TO_FLOAT32, _with_float32), (_RESULT_FLOAT32, _to_float32)):
        for name in names.split():
            base, _, overload = name.partition(".")
            packet = getattr(aten, base, None)
            function = getattr(packet, overload or "default", None)
            if function is not None and has(function.name(), "AutocastCUDA"):
                library.impl(name, make(function), "AutocastCPU")


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in _HALVES


def _no_autocast() -> Any:
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU))


def _with_float32(function: Any) -> Callable[..., Any]:
    def cast(value: Any) -> Any:
        return value.to(torch.float32) if _is_half(value) else value

    def call(*args: Any, **kwargs: Any) -> Any:
        with _no_autocast():
            return function(*tree_map(cast, args), **tree_map(cast, kwargs))

    return call


def _to_float32(function: Any) -> Callable[..., Any]:
    """Halves go in as they are; only the result is said to be float32."""

    def call(*args: Any, **kwargs: Any) -> Any:
        names = [one.name for one in function._schema.arguments]
        given = kwargs.get("dtype", args[names.index("dtype")] if len(args) > names.index("dtype") else None)
        if given is None and _is_half(args[0]):
            kwargs = {**kwargs, "dtype": torch.float32}
            args = args[: names.index("dtype")]
        with _no_autocast():
            return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def _many_at_once() -> Iterator[None]:
    """Optimizers choose their foreach kernels by the device and by the exact type of the parameters."""
    optimizer: Any = importlib.import_module("torch.optim.optimizer")
    fake = importlib.import_module("torch._subclasses.fake_tensor").FakeTensor
    devices = optimizer._get_foreach_kernels_supported_devices
    optimizer._foreach_supported_types.append(fake)
    optimizer._get_foreach_kernels_supported_devices = lambda: [*devices(), "cpu"]
    try:
        yield
    finally:
        optimizer._foreach_supported_types.remove(fake)
        optimizer._get_foreach_kernels_supported_devices = devices


@contextlib.contextmanager
def _no_one_traces() -> Iterator[None]:
    """transformers takes tensors without data for a compiler's, and builds masks that it does not build otherwise."""
    module: Any = sys.modules.get("transformers.utils.import_utils")
    before = getattr(module, "is_fake_tensor", None)
    if before is None:
        yield
        return
    module.is_fake_tensor = lambda _: False
    try:
        yield
    finally:
        module.is_fake_tensor = before


def operations(card: Card) -> Instead:
    """Operations that are others on that card."""
    attention = Attention(card)
    return {
        **everywhere(),
        aten.scaled_dot_product_attention.default: attention,
        aten._native_multi_head_attention.default: whole_layer,
        aten._transformer_encoder_layer_fwd.default: whole_block,
    }


def everywhere() -> Instead:
    """Those that a processor can compute as well."""
    return {aten.dropout.default: _dropout, aten.linear.default: _linear}


def _dropout(inputs: Any, p: float, train: bool) -> Any:
    """CUDA keeps a mask of one byte for each value."""
    if not train or p == 0.0 or inputs.numel() == 0:
        return inputs
    return aten.native_dropout(inputs, p, train)[0]


def _linear(inputs: Any, weight: Any, bias: Any = None) -> Any:
    """A bias that is no part of the product is added in place; to tensors without data torch adds it otherwise."""

    def linear(*args: Any) -> Any:
        return aten.linear.default._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args)

    of_product = inputs.dim() == 2 or inputs.is_contiguous()
    if bias is None or of_product:
        return linear(inputs, weight, bias)
    return linear(inputs, weight, None).add_(bias)
