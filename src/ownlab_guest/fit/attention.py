"""Attention as a card computes it: which kernel torch chooses (ATen/native/transformers/cuda/sdp_utils.cpp of torch 2.11)."""

from typing import Any, Optional, Set, Tuple

import torch

from ownlab_guest.fit.request import Card

aten = torch.ops.aten
_HALVES = (torch.bfloat16, torch.float16)
_CUDNN_CAPABILITIES = (9.0, 10.0)  # capabilities of cards where torch prefers cuDNN
_WIDEST = 256  # width of a head
# cuDNN 9.10, which came with torch 2.8, supports heads wider than 128 on Hopper.
_IS_LATE = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


class Attention:
    """Replaces torch.nn.functional.scaled_dot_product_attention."""

    def __init__(self, card: Card) -> None:
        self._card = card
        schema = aten._scaled_dot_product_cudnn_attention.default._schema
        # Before torch 2.5 cuDNN's kernel took no mask, and was not chosen.
        self._has_cudnn = any(argument.name == "attn_bias" for argument in schema.arguments)

    def __call__(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Optional[Any] = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: Optional[float] = None,
        **more: bool,
    ) -> Any:
        kind = self.kernel(query, key, value, attn_mask, dropout_p, is_causal)
        wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
        if kind == "flash":
            flash = aten._scaled_dot_product_flash_attention
            return flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        if kind == "plain":
            plain = aten._scaled_dot_product_attention_math
            return plain(query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, **more)[0]
        mask = _as_numbers(attn_mask, query.dtype)
        if kind == "cudnn":
            cudnn = aten._scaled_dot_product_cudnn_attention
            return cudnn(query, key, value, mask, wanted, dropout_p, is_causal, False, scale=scale)[0]
        if mask is not None:
            mask = mask.expand(*query.shape[:-1], key.shape[-2])
        efficient = aten._scaled_dot_product_efficient_attention
        return efficient(query, key, value, mask, wanted, dropout_p, is_causal, scale=scale)[0]

    def kernel(self, query: Any, key: Any, value: Any, mask: Optional[Any], dropout: float, causal: bool) -> str:
        """Return the kernel that torch chooses: cudnn, flash, efficient or plain."""
        if query.dim() != 4 or query.dtype is torch.float64:
            return "plain"
        half = query.dtype in _HALVES
        square, same_heads = query.shape[-2] == key.shape[-2], query.shape[1] == key.shape[1]
        widths = {int(query.shape[-1]), int(value.shape[-1])}
        # The last dimension of a mask may not be its innermost one, as in T5's position bias in some versions of transformers.
        straight = all(tensor.stride(-1) == 1 for tensor in (query, key, value, mask) if tensor is not None)
        if half and straight and self._takes_cudnn(query, key, mask, dropout, widths):
            return "cudnn"
        flash = half and straight and self._card.capability >= 8 and mask is None and (square or not causal)
        if flash and len(widths) == 1 and max(widths) <= _WIDEST:
            return "flash"
        even = all(width % (8 if half else 4) == 0 for width in widths)
        return "efficient" if same_heads and even and straight else "plain"

    def _takes_cudnn(self, query: Any, key: Any, mask: Optional[Any], dropout: float, widths: Set[int]) -> bool:
        if not self._has_cudnn or self._card.capability not in _CUDNN_CAPABILITIES:
            return False
        learnt = mask is not None and mask.requires_grad  # a position bias, as in T5
        short = key.shape[-2] == 1 or (dropout > 0 and query.shape[-2] == 1)
        widest = _WIDEST if self._card.capability == 9 and _IS_LATE else _WIDEST // 2
        return not learnt and not short and all(width <= widest and width % 8 == 0 for width in widths)


def _as_numbers(mask: Optional[Any], dtype: Any) -> Optional[Any]:
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), float("-inf"))


def multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Optional[Any] = None,
    need_weights: bool = True,
    *_: Any,
) -> Tuple[Any, Any]:
    """nn.MultiheadAttention in inference, which is one operation in torch: what it does on a card, with and without a fused
    kernel (native_multi_head_attention_cuda in ATen/native/transformers/cuda/attention.cu)."""
    if query is key and key is value:
        parts = torch.nn.functional.linear(query, weight, bias).chunk(3, -1)
    else:
        pairs = zip((query, key, value), weight.chunk(3), bias.chunk(3))
        parts = [torch.nn.functional.linear(tensor, *learnt) for tensor, *learnt in pairs]
    split = [tensor.view(tensor.shape[0], -1, heads, width // heads).transpose(1, 2) for tensor in parts]
    if mask is None and not need_weights:
        output, shares = torch.nn.functional.scaled_dot_product_attention(*split), None
    else:
        shares = torch.softmax(split[0] @ split[1].transpose(-2, -1), -1)
        output = shares @ split[2]
    joined = output.transpose(1, 2).reshape(query.shape[0], -1, width)
    return torch.nn.functional.linear(joined, out_weight, out_bias), shares


def transformer_encoder_layer(
    x: Any,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    out_weight: Any,
    out_bias: Any,
    gelu: bool,
    norm_first: bool,
    eps: float,
    *learnt: Any,
) -> Any:
    """nn.TransformerEncoderLayer in inference (transformer_encoder_layer_forward in ATen/native/transformers)."""
    norms, inner, mask = learnt[:4], learnt[4:8], learnt[8] if len(learnt) > 8 else None
    functional = torch.nn.functional

    def norm(tensor: Any, place: int) -> Any:
        return functional.layer_norm(tensor, (width,), norms[place], norms[place + 1], eps)

    inside = norm(x, 0) if norm_first else x
    output = multi_head_attention(
        inside, inside, inside, width, heads, weight, bias, out_weight, out_bias, mask, False
    )[0]
    x = output.add_(x) if norm_first else norm(output.add_(x), 0)
    inside = norm(x, 2) if norm_first else x
    rows = inside.reshape(-1, width)
    grown = aten._addmm_activation(inner[1], rows, inner[0].t(), use_gelu=gelu)
    output = functional.linear(grown, inner[2], inner[3]).view(x.shape).add_(x)
    return output if norm_first else norm(output, 2)
