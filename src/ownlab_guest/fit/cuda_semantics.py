"""Behaviour of CUDA that differs from the CPU, for tensors without data that are on the CPU.

Tensors without data cannot be on a CUDA device if torch was built without CUDA: autograd would abort the process. So they are
on the CPU, and operations that differ on a card are replaced here.
"""

import contextlib
import importlib
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ownlab_guest.fit.attention import Attention, multi_head_attention, transformer_encoder_layer
from ownlab_guest.fit.request import Card

aten = torch.ops.aten
Instead = Dict[Any, Callable[..., Any]]

# Autocast of CUDA, from ATen/autocast_mode.h of torch 2.11. Operations in half precision are the same as on the CPU.
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
# In the lower precision on a card, and not on the CPU. Products inside of others are in both lists already.
_TO_LOWER = "_convolution convolution addmv addr mv einsum chain_matmul linalg_multi_dot"
# In the widest type of the arguments.
_TO_WIDEST = """
addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
"""
_HALVES = (torch.bfloat16, torch.float16)


@contextlib.contextmanager
def emulate_cuda(instead: Instead) -> Iterator[None]:
    """Make CPU tensors behave as on a card: autocast, the operations of `instead`, optimizers, transformers."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about each kernel that is replaced, which is intended
            _autocast_as_cuda(library)
            for operation, function in instead.items():
                library.impl(operation, function, "AutogradCPU")
        with _allow_foreach(), _hide_fake_tensors():
            yield
    finally:
        library._destroy()


def _autocast_as_cuda(library: Any) -> None:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and has(name, "AutocastCPU") and not has(name, "AutocastCUDA"):
            library.impl(name[6:], torch.library.fallthrough_kernel, "AutocastCPU")
    for names, make in (
        (_TO_FLOAT32, _with_float32),
        (_RESULT_FLOAT32, _to_float32),
        (_TO_LOWER, _with_lower),
        (_TO_WIDEST, _with_widest),
    ):
        for name in names.split():
            base, _, overload = name.partition(".")
            packet = getattr(aten, base, None)
            function = getattr(packet, overload or "default", None)
            if function is not None and has(function.name(), "AutocastCUDA"):
                library.impl(name, make(function), "AutocastCPU")
                composite = getattr(packet, "vec", None)  # in inference mode its parts are called below autocast
                if composite is not None:
                    library.impl(f"{base}.vec", make(composite), "AutocastCPU")


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


def _with_lower(function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("cpu")

        def cast(value: Any) -> Any:
            lower = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype is not torch.float64
            return value.to(dtype) if lower else value

        with _no_autocast():
            return function(*tree_map(cast, args), **tree_map(cast, kwargs))

    return call


def _with_widest(function: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        found = {value.dtype for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)}
        dtype = torch.float32 if torch.float32 in found else torch.get_autocast_dtype("cpu")

        def cast(value: Any) -> Any:
            return value.to(dtype) if _is_half(value) else value

        with _no_autocast():
            return function(*tree_map(cast, args), **tree_map(cast, kwargs))

    return call


def _to_float32(function: Any) -> Callable[..., Any]:
    """Keep 16-bit arguments; only the result is float32."""

    def call(*args: Any, **kwargs: Any) -> Any:
        names = [argument.name for argument in function._schema.arguments]
        given = kwargs.get("dtype", args[names.index("dtype")] if len(args) > names.index("dtype") else None)
        if given is None and _is_half(args[0]):
            kwargs = {**kwargs, "dtype": torch.float32}
            args = args[: names.index("dtype")]
        with _no_autocast():
            return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def _allow_foreach() -> Iterator[None]:
    """Allow foreach kernels: optimizers choose them by the device and the exact type of the parameters."""
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
def _hide_fake_tensors() -> Iterator[None]:
    """Hide from transformers that tensors have no data: it would take them for a compiler's, and build extra masks."""
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
    """Return replacements for operations that differ on that card."""
    attention = Attention(card)
    fused_norm = getattr(aten, "_fused_rms_norm", None)  # since torch 2.9
    return {
        **common_operations(),
        **({} if fused_norm is None else {fused_norm.default: _FusedRmsNorm.call}),
        aten.cumprod.default: _CumulativeProduct.call,
        aten.scaled_dot_product_attention.default: attention,
        aten._native_multi_head_attention.default: multi_head_attention,
        aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
    }


class _CumulativeProduct(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """cumprod, whose gradient is computed as if no number were 0 (cumprod_backward in FunctionsManual.cpp): what data would show."""

    @staticmethod
    def call(inputs: Any, dim: int, *, dtype: Optional[Any] = None) -> Any:
        """Replaces aten.cumprod."""
        return _CumulativeProduct.apply(inputs if dtype is None else inputs.to(dtype), dim)

    @staticmethod
    def forward(context: Any, inputs: Any, dim: int) -> Any:
        output = torch.empty_like(inputs)
        context.dim = dim
        context.save_for_backward(inputs, output)
        return output

    @staticmethod
    def backward(context: Any, gradient: Any) -> Tuple[Any, None]:
        inputs, output = context.saved_tensors
        product = output * gradient
        zeros = inputs == 0
        result = product.flip(context.dim).cumsum(context.dim).flip(context.dim).div(inputs)
        del zeros
        return result, None


class _FusedRmsNorm(torch.autograd.Function):  # type: ignore[misc]  # torch is not there where types are checked
    """RMSNorm of CUDA, which is one kernel and keeps its input (rms_norm in ATen/native/layer_norm.cpp)."""

    @staticmethod
    def call(inputs: Any, shape: Sequence[int], weight: Any = None, eps: Optional[float] = None) -> Tuple[Any, Any]:
        """Replaces aten._fused_rms_norm."""
        result: Tuple[Any, Any] = _FusedRmsNorm.apply(inputs, len(shape), weight)
        return result

    @staticmethod
    def forward(context: Any, inputs: Any, dimensions: int, weight: Any) -> Tuple[Any, Any]:
        inputs = inputs.contiguous()
        roots = inputs.new_empty((*inputs.shape[: inputs.dim() - dimensions], *[1] * dimensions), dtype=torch.float32)
        context.save_for_backward(inputs, weight, roots)
        context.mark_non_differentiable(roots)
        return torch.empty_like(inputs), roots

    @staticmethod
    def backward(context: Any, gradient: Any, _: Any) -> Tuple[Any, ...]:
        inputs, weight, _ = context.saved_tensors
        gradient = gradient.contiguous()
        return torch.empty_like(inputs), None, None if weight is None else torch.empty_like(weight)


def common_operations() -> Instead:
    """Return the replacements that a processor can compute, too."""
    return {aten.dropout.default: _dropout, aten.linear.default: _linear, aten.group_norm.default: _group_norm}


def _group_norm(
    inputs: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, cudnn_enabled: bool = True
) -> Any:
    """Group norm of CUDA, whose kernel has channels first."""
    batch, channels = inputs.shape[:2]
    sizes = batch, channels, inputs.numel() // (batch * channels) if inputs.numel() else 0
    return aten.native_group_norm(inputs.contiguous(), weight, bias, *sizes, groups, eps)[0]


def _dropout(inputs: Any, p: float, train: bool) -> Any:
    """Dropout of CUDA, which keeps a mask of one byte per value."""
    if not train or p == 0.0 or inputs.numel() == 0:
        return inputs
    return aten.native_dropout(inputs, p, train)[0]


def _linear(inputs: Any, weight: Any, bias: Any = None) -> Any:
    """Linear of CUDA: a bias outside of the product is added in place, but not so to tensors without data."""

    def linear(*args: Any) -> Any:
        return aten.linear.default._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args)

    of_product = inputs.dim() == 2 or inputs.is_contiguous()
    if bias is None or of_product:
        return linear(inputs, weight, bias)
    return linear(inputs, weight, None).add_(bias)
