"""Attention as a card computes it: which of torch's kernels, by ATen/native/transformers/cuda/sdp_utils.cpp of torch 2.11."""

from typing import Any, Optional

import torch

from ownlab_guest.fit.request import Card

aten = torch.ops.aten
_HALVES = (torch.bfloat16, torch.float16)
_OF_CUDNN = (9.0, 10.0)  # cards where torch prefers cuDNN's


class Attention:
    """In place of torch.nn.functional.scaled_dot_product_attention."""

    def __init__(self, card: Card) -> None:
        self._card = card
        schema = aten._scaled_dot_product_cudnn_attention.default._schema
        # Before torch 2.5 cuDNN's took no mask, and was not chosen.
        self._has_cudnn = any(one.name == "attn_bias" for one in schema.arguments)

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
        kind = self._kind(query, key, value, attn_mask)
        wanted = torch.is_grad_enabled() and any(one.requires_grad for one in (query, key, value))
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

    def _kind(self, query: Any, key: Any, value: Any, mask: Optional[Any]) -> str:
        width = int(query.shape[-1])
        if query.dim() != 4 or query.dtype is torch.float64 or value.shape[-1] != width:
            return "plain"
        half = query.dtype in _HALVES
        learnt = mask is not None and mask.requires_grad  # a bias of positions, as T5's
        if (
            half
            and self._has_cudnn
            and self._card.capability in _OF_CUDNN
            and not learnt
            and width <= 128
            and width % 8 == 0
        ):
            return "cudnn"
        if half and self._card.capability >= 8 and mask is None and width <= 256:
            return "flash"
        return "efficient" if query.shape[1] == key.shape[1] else "plain"  # keys that heads share


def _as_numbers(mask: Optional[Any], dtype: Any) -> Optional[Any]:
    if mask is None or mask.dtype is not torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask.logical_not(), float("-inf"))
