"""Single operations, to be compared with their traces: `operators.py OUT.json.gz` runs them on a card, forward and backward.

Each answer has the events of torch's allocator in the second call, as record_histories.py writes them. Needs torch and ownlab's
sources on the path. CASES has a function for each, which returns what is called and its arguments.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as f

FOLDER = Path(__file__).resolve().parent


class Case(NamedTuple):
    """What is called with which arguments; `autocast` is a dtype of a step in mixed precision."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    autocast: str | None = None


class Called(nn.Module):
    """A function, or a module, as the model of a step. Its arguments are weights if they are floating."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.inner = case.call if isinstance(case.call, nn.Module) else None
        self.call = case.call
        self.places: list[tuple[str, Any]] = []
        for number, given in enumerate(case.arguments):
            if isinstance(given, torch.Tensor) and given.is_floating_point():
                self.register_parameter(f"p{number}", nn.Parameter(given))
                self.places.append((f"p{number}", None))
            elif isinstance(given, torch.Tensor):
                self.register_buffer(f"b{number}", given)
                self.places.append((f"b{number}", None))
            else:
                self.places.append(("", given))

    def forward(self, _: torch.Tensor) -> Any:
        return self.call(*(getattr(self, name) if name else given for name, given in self.places))


def loss(out: Any) -> torch.Tensor:
    """A number of what an operation returns."""
    while isinstance(out, (tuple, list)):
        out = next(part for part in out if isinstance(part, (tuple, list)) or part.is_floating_point())
    if out.is_complex():
        out = torch.view_as_real(out)
    return out.float().mean() if out.dim() else out.float()


def _r(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype)


def _i(most: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, most, shape)


def _last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(memory_format=torch.channels_last)


HALF, BF16 = torch.float16, torch.bfloat16
B, N, D = 16, 2048, 512  # 64 MiB in float32

CASES: dict[str, Callable[[], Case]] = {
    # -- indexing
    "embedding_small": lambda: Case(f.embedding, (_i(100, B * N), _r(100, D))),
    "embedding_1k": lambda: Case(f.embedding, (_i(1000, B * N), _r(1000, D))),
    "embedding_8k": lambda: Case(f.embedding, (_i(8000, B * N), _r(8000, D))),
    "embedding_64k": lambda: Case(f.embedding, (_i(64000, B * N), _r(64000, D))),
    "embedding_300_4k": lambda: Case(f.embedding, (_i(300, 4000), _r(300, D))),
    "embedding_300_16k": lambda: Case(f.embedding, (_i(300, 16000), _r(300, D))),
    "embedding_padding": lambda: Case(lambda i, w: f.embedding(i, w, padding_idx=0), (_i(8000, B * N), _r(8000, D))),
    "embedding_frequency": lambda: Case(
        lambda i, w: f.embedding(i, w, scale_grad_by_freq=True), (_i(8000, B * N), _r(8000, D))
    ),
    "embedding_half": lambda: Case(f.embedding, (_i(8000, B * N), _r(8000, D, dtype=HALF))),
    "bag_mean": lambda: Case(lambda i, w: f.embedding_bag(i, w, mode="mean"), (_i(8000, B * N // 8, 8), _r(8000, D))),
    "bag_sum": lambda: Case(lambda i, w: f.embedding_bag(i, w, mode="sum"), (_i(100, B * N // 8, 8), _r(100, D))),
    "bag_max": lambda: Case(lambda i, w: f.embedding_bag(i, w, mode="max"), (_i(8000, B * N // 8, 8), _r(8000, D))),
    "gather": lambda: Case(lambda x, i: x.gather(1, i), (_r(B, N, D), _i(N, B, N // 2, D))),
    "take_along": lambda: Case(lambda x, i: torch.take_along_dim(x, i, 1), (_r(B, N, D), _i(N, B, N // 2, 1))),
    "index_rows": lambda: Case(lambda x, i: x[i], (_r(N * B, D), _i(N * B, 20000))),
    "index_pairs": lambda: Case(lambda x, i, j: x[i, j], (_r(B, N, D), _i(B, 20000), _i(N, 20000))),
    "index_middle": lambda: Case(lambda x, i: x[:, i], (_r(B, N, D), _i(N, 1000))),
    "index_last": lambda: Case(lambda x, i: x[..., i], (_r(B, N, D), _i(D, 200))),
    "index_2d": lambda: Case(lambda x, i: x[i], (_r(N, D), _i(N, 1000, 20))),
    "index_select": lambda: Case(lambda x, i: x.index_select(1, i), (_r(B, N, D), _i(N, 1000))),
    "index_half": lambda: Case(lambda x, i: x[i], (_r(N * B, D, dtype=HALF), _i(N * B, 20000))),
    "scatter_add": lambda: Case(
        lambda x, i: torch.zeros(1000, D, device=x.device).scatter_add(0, i[:, None].expand(-1, D), x),
        (_r(B * N, D), _i(1000, B * N)),
    ),
    "index_add": lambda: Case(
        lambda x, i: torch.zeros(1000, D, device=x.device).index_add(0, i, x), (_r(B * N, D), _i(1000, B * N))
    ),
    "scatter_mean": lambda: Case(
        lambda x, i: torch.zeros(1000, D, device=x.device).scatter_reduce(0, i[:, None].expand(-1, D), x, "mean"),
        (_r(B * N, D), _i(1000, B * N)),
    ),
    "scatter_max": lambda: Case(
        lambda x, i: torch.zeros(1000, D, device=x.device).scatter_reduce(0, i[:, None].expand(-1, D), x, "amax"),
        (_r(B * N, D), _i(1000, B * N)),
    ),
    "scatter": lambda: Case(lambda x, y, i: x.scatter(1, i, y), (_r(B, N, D), _r(B, N // 2, D), _i(N, B, N // 2, D))),
    "masked_fill": lambda: Case(lambda x, m: x.masked_fill(m, -1.0), (_r(B, N, D), _i(2, B, N, D).bool())),
    "where": lambda: Case(lambda x, m: torch.where(m, x, x * 2), (_r(B, N, D), _i(2, B, N, D).bool())),
    "masked_scatter": lambda: Case(
        lambda x, y, m: x.masked_scatter(m, y), (_r(B, N, D), _r(B, N, D), _i(2, B, N, D).bool())
    ),
    "index_copy": lambda: Case(lambda x, y, i: x.index_copy(1, i, y), (_r(B, N, D), _r(B, 8, D), torch.arange(8))),
    "repeat_interleave": lambda: Case(lambda x: x.repeat_interleave(2, 1), (_r(B, N, D),)),
    "repeat": lambda: Case(lambda x: x.repeat(1, 2, 1), (_r(B, N, D),)),
    "roll": lambda: Case(lambda x: x.roll((3, 5), (1, 2)), (_r(B, N, D),)),
    "flip": lambda: Case(lambda x: x.flip(1), (_r(B, N, D),)),
    "unfold_view": lambda: Case(lambda x: x.unfold(1, 16, 8) * 2, (_r(B, N, D // 4),)),
    "unfold": lambda: Case(lambda x: f.unfold(x, 3, padding=1), (_r(8, 32, 96, 96),)),
    "fold": lambda: Case(lambda x: f.fold(x, 96, 3, padding=1), (_r(8, 288, 9216),)),
    "pad_reflect": lambda: Case(lambda x: f.pad(x, (2, 2, 2, 2), mode="reflect"), (_r(16, 64, 128, 128),)),
    "pad_replicate": lambda: Case(lambda x: f.pad(x, (2, 2, 2, 2), mode="replicate"), (_r(16, 64, 128, 128),)),
    "pad_circular": lambda: Case(lambda x: f.pad(x, (2, 2, 2, 2), mode="circular"), (_r(16, 64, 128, 128),)),
    "pad_zero": lambda: Case(lambda x: f.pad(x, (2, 2, 2, 2)), (_r(16, 64, 128, 128),)),
    # -- order
    "sort": lambda: Case(lambda x: x.sort(-1).values, (_r(B, N, D),)),
    "sort_long": lambda: Case(lambda x: x.sort(-1).values, (_r(64, 100000),)),
    "sort_middle": lambda: Case(lambda x: x.sort(1).values, (_r(B, N, D),)),
    "argsort": lambda: Case(lambda x: x * x.argsort(-1), (_r(B, N, D),)),
    "topk": lambda: Case(lambda x: x.topk(20, -1).values, (_r(B, N, D),)),
    "topk_short": lambda: Case(lambda x: x.topk(4, -1).values, (_r(B * N, 64),)),
    "topk_long": lambda: Case(lambda x: x.topk(100, -1).values, (_r(64, 100000),)),
    "topk_middle": lambda: Case(lambda x: x.topk(100, -1).values, (_r(4096, 2000),)),
    "topk_few": lambda: Case(lambda x: x.topk(1000, -1).values, (_r(8, 500000),)),
    "topk_other": lambda: Case(lambda x: x.topk(20, 1).values, (_r(B, N, D),)),
    "max": lambda: Case(lambda x: x.max(1).values, (_r(B, N, D),)),
    "amax": lambda: Case(lambda x: x.amax(1), (_r(B, N, D),)),
    "median": lambda: Case(lambda x: x.median(-1).values, (_r(B, N, D),)),
    "kthvalue": lambda: Case(lambda x: x.kthvalue(9, -1).values, (_r(B, N, D),)),
    "quantile": lambda: Case(lambda x: x.quantile(0.9, -1), (_r(B, N, D),)),
    "cumsum": lambda: Case(lambda x: x.cumsum(1), (_r(B, N, D),)),
    "cumsum_last": lambda: Case(lambda x: x.cumsum(-1), (_r(B, N, D),)),
    "cumprod": lambda: Case(lambda x: x.sigmoid().cumprod(-1), (_r(B, N, D),)),
    "cummax": lambda: Case(lambda x: x.cummax(1).values, (_r(B, N, D),)),
    "logcumsumexp": lambda: Case(lambda x: x.logcumsumexp(1), (_r(B, N, D),)),
    # -- reductions and norms
    "sum_all": lambda: Case(torch.sum, (_r(B, N, D),)),
    "sum_first": lambda: Case(lambda x: x.sum(0), (_r(B * N, D),)),
    "mean_last": lambda: Case(lambda x: x.mean(-1), (_r(B, N, D),)),
    "mean_images": lambda: Case(lambda x: x.mean((2, 3)), (_r(64, 256, 32, 32),)),
    "var": lambda: Case(lambda x: x.var(-1), (_r(B, N, D),)),
    "std_all": lambda: Case(lambda x: x.std(), (_r(B, N, D),)),
    "norm": lambda: Case(lambda x: x.norm(dim=-1), (_r(B, N, D),)),
    "norm_one": lambda: Case(lambda x: x.norm(1, -1), (_r(B, N, D),)),
    "normalize": lambda: Case(lambda x: f.normalize(x, dim=-1), (_r(B, N, D),)),
    "logsumexp": lambda: Case(lambda x: x.logsumexp(-1), (_r(B, N, D),)),
    "prod": lambda: Case(lambda x: x.prod(-1), (_r(B, N, 64),)),
    "batch_norm": lambda: Case(nn.BatchNorm2d(64), (_r(32, 64, 96, 96),)),
    "batch_norm_last": lambda: Case(nn.BatchNorm2d(64), (_last(_r(32, 64, 96, 96)),)),
    "batch_norm_bf16": lambda: Case(nn.BatchNorm2d(64), (_last(_r(32, 64, 96, 96, dtype=BF16)),)),
    "batch_norm_half": lambda: Case(nn.BatchNorm2d(64), (_r(32, 64, 96, 96, dtype=HALF),)),
    "batch_norm_1d": lambda: Case(nn.BatchNorm1d(D), (_r(B * N, D),)),
    "batch_norm_1d_wide": lambda: Case(nn.BatchNorm1d(64), (_r(400000, 64),)),
    "batch_norm_3d": lambda: Case(nn.BatchNorm3d(32), (_r(4, 32, 32, 64, 64),)),
    "instance_norm": lambda: Case(nn.InstanceNorm2d(64, affine=True), (_r(32, 64, 96, 96),)),
    "instance_norm_plain": lambda: Case(nn.InstanceNorm3d(32), (_r(4, 32, 32, 64, 64),)),
    "group_norm": lambda: Case(nn.GroupNorm(8, 64), (_r(32, 64, 96, 96),)),
    "group_norm_last": lambda: Case(nn.GroupNorm(8, 64), (_last(_r(32, 64, 96, 96)),)),
    "layer_norm": lambda: Case(nn.LayerNorm(D), (_r(B, N, D),)),
    "layer_norm_t": lambda: Case(nn.LayerNorm(N), (_r(B, N, D).transpose(1, 2),)),
    "layer_norm_images": lambda: Case(lambda x: f.layer_norm(x, (64, 96, 96)), (_r(32, 64, 96, 96),)),
    "rms_norm": lambda: Case(nn.RMSNorm(D), (_r(B, N, D),)),
    "rms_norm_half": lambda: Case(nn.RMSNorm(D, dtype=HALF), (_r(B, N, D, dtype=HALF),)),
    "local_response": lambda: Case(nn.LocalResponseNorm(5), (_r(16, 64, 96, 96),)),
    "weight_norm": lambda: Case(nn.utils.parametrizations.weight_norm(nn.Linear(2048, 2048)), (_r(4096, 2048),)),
    "spectral_norm": lambda: Case(nn.utils.parametrizations.spectral_norm(nn.Linear(2048, 2048)), (_r(4096, 2048),)),
    "orthogonal": lambda: Case(nn.utils.parametrizations.orthogonal(nn.Linear(256, 256)), (_r(4096, 256),)),
    # -- activations, softmax, dropout
    "softmax": lambda: Case(lambda x: x.softmax(-1), (_r(B, N, D),)),
    "softmax_middle": lambda: Case(lambda x: x.softmax(1), (_r(B, N, D),)),
    "softmax_t": lambda: Case(lambda x: x.transpose(1, 2).softmax(-1), (_r(B, N, D),)),
    "log_softmax": lambda: Case(lambda x: x.log_softmax(-1), (_r(B, N, D),)),
    "log_softmax_last": lambda: Case(lambda x: x.log_softmax(1), (_last(_r(16, 64, 128, 128)),)),
    "gumbel_hard": lambda: Case(lambda x: f.gumbel_softmax(x, hard=True), (_r(B, N, D),)),
    "dropout": lambda: Case(nn.Dropout(0.1), (_r(B, N, D),)),
    "dropout2d": lambda: Case(nn.Dropout2d(0.1), (_r(64, 256, 32, 32),)),
    "alpha_dropout": lambda: Case(nn.AlphaDropout(0.1), (_r(B, N, D),)),
    "gelu": lambda: Case(f.gelu, (_r(B, N, D),)),
    "silu_in_place": lambda: Case(lambda x: f.silu(x * 2, inplace=True), (_r(B, N, D),)),
    "hardswish": lambda: Case(f.hardswish, (_r(B, N, D),)),
    "mish": lambda: Case(f.mish, (_r(B, N, D),)),
    "elu": lambda: Case(f.elu, (_r(B, N, D),)),
    "celu": lambda: Case(f.celu, (_r(B, N, D),)),
    "selu": lambda: Case(f.selu, (_r(B, N, D),)),
    "glu": lambda: Case(f.glu, (_r(B, N, D),)),
    "prelu": lambda: Case(nn.PReLU(64), (_r(16, 64, 128, 128),)),
    "rrelu": lambda: Case(nn.RReLU(), (_r(B, N, D),)),
    "logsigmoid": lambda: Case(f.logsigmoid, (_r(B, N, D),)),
    "softplus": lambda: Case(f.softplus, (_r(B, N, D),)),
    "softsign": lambda: Case(f.softsign, (_r(B, N, D),)),
    "tanhshrink": lambda: Case(f.tanhshrink, (_r(B, N, D),)),
    "hardtanh": lambda: Case(f.hardtanh, (_r(B, N, D),)),
    "relu6": lambda: Case(f.relu6, (_r(B, N, D),)),
    "clamp": lambda: Case(lambda x: x.clamp(-1, 1), (_r(B, N, D),)),
    "clamp_tensors": lambda: Case(lambda x, y: torch.minimum(x, y), (_r(B, N, D), _r(B, N, D))),
    "abs": lambda: Case(torch.abs, (_r(B, N, D),)),
    "pow": lambda: Case(lambda x: x.abs().pow(2.5), (_r(B, N, D),)),
    "sqrt": lambda: Case(lambda x: (x * x).sqrt(), (_r(B, N, D),)),
    "sin": lambda: Case(torch.sin, (_r(B, N, D),)),
    "atan2": lambda: Case(torch.atan2, (_r(B, N, D), _r(B, N, D))),
    "lerp": lambda: Case(lambda x, y: torch.lerp(x, y, 0.3), (_r(B, N, D), _r(B, N, D))),
    "addcmul": lambda: Case(torch.addcmul, (_r(B, N, D), _r(B, N, D), _r(B, N, D))),
    "broadcast": lambda: Case(lambda x, y: x * y, (_r(B, N, D), _r(D))),
    "broadcast_rows": lambda: Case(lambda x, y: x / y, (_r(B, N, D), _r(B, N, 1))),
    # -- losses
    "cross_entropy": lambda: Case(f.cross_entropy, (_r(B * N, D), _i(D, B * N))),
    "cross_entropy_smooth": lambda: Case(
        lambda x, y: f.cross_entropy(x, y, label_smoothing=0.1), (_r(B * N, D), _i(D, B * N))
    ),
    "cross_entropy_weight": lambda: Case(
        lambda x, y, w: f.cross_entropy(x, y, weight=w.detach()), (_r(B * N, D), _i(D, B * N), _r(D).abs())
    ),
    "cross_entropy_soft": lambda: Case(
        lambda x, y: f.cross_entropy(x, y.detach().softmax(-1)), (_r(B * N, D), _r(B * N, D))
    ),
    "cross_entropy_images": lambda: Case(f.cross_entropy, (_r(16, 32, 128, 128), _i(32, 16, 128, 128))),
    "cross_entropy_last": lambda: Case(f.cross_entropy, (_last(_r(16, 32, 128, 128)), _i(32, 16, 128, 128))),
    "cross_entropy_volumes": lambda: Case(f.cross_entropy, (_r(4, 16, 32, 64, 64), _i(16, 4, 32, 64, 64))),
    "cross_entropy_none": lambda: Case(
        lambda x, y: f.cross_entropy(x, y, reduction="none"), (_r(B * N, D), _i(D, B * N))
    ),
    "cross_entropy_view": lambda: Case(lambda x, y: f.cross_entropy(x.transpose(1, 2), y), (_r(B, N, D), _i(D, B, N))),
    "bce": lambda: Case(
        lambda x, y: f.binary_cross_entropy(x.sigmoid(), y.detach().sigmoid()), (_r(B, N, D), _r(B, N, D))
    ),
    "bce_logits": lambda: Case(
        lambda x, y: f.binary_cross_entropy_with_logits(x, y.detach().sigmoid()), (_r(B, N, D), _r(B, N, D))
    ),
    "bce_logits_weight": lambda: Case(
        lambda x, y, w: f.binary_cross_entropy_with_logits(x, y.detach().sigmoid(), pos_weight=w.detach().abs()),
        (_r(B, N, D), _r(B, N, D), _r(D)),
    ),
    "bce_logits_none": lambda: Case(
        lambda x, y: f.binary_cross_entropy_with_logits(x, y.detach().sigmoid(), reduction="none"),
        (_r(B, N, D), _r(B, N, D)),
    ),
    "mse": lambda: Case(lambda x, y: f.mse_loss(x, y.detach()), (_r(B, N, D), _r(B, N, D))),
    "mse_both": lambda: Case(f.mse_loss, (_r(B, N, D), _r(B, N, D))),
    "l1": lambda: Case(lambda x, y: f.l1_loss(x, y.detach()), (_r(B, N, D), _r(B, N, D))),
    "smooth_l1": lambda: Case(lambda x, y: f.smooth_l1_loss(x, y.detach()), (_r(B, N, D), _r(B, N, D))),
    "huber": lambda: Case(lambda x, y: f.huber_loss(x, y.detach()), (_r(B, N, D), _r(B, N, D))),
    "kl": lambda: Case(
        lambda x, y: f.kl_div(x.log_softmax(-1), y.detach().softmax(-1), reduction="batchmean"),
        (_r(B, N, D), _r(B, N, D)),
    ),
    "kl_log": lambda: Case(
        lambda x, y: f.kl_div(x.log_softmax(-1), y.detach().log_softmax(-1), log_target=True),
        (_r(B, N, D), _r(B, N, D)),
    ),
    "nll_gauss": lambda: Case(
        lambda x, y, v: f.gaussian_nll_loss(x, y.detach(), v.abs()), (_r(B, N, D), _r(B, N, D), _r(B, N, D))
    ),
    "poisson": lambda: Case(lambda x, y: f.poisson_nll_loss(x, y.detach().abs()), (_r(B, N, D), _r(B, N, D))),
    "soft_margin": lambda: Case(lambda x, y: f.soft_margin_loss(x, y.detach().sign()), (_r(B, N, D), _r(B, N, D))),
    "multi_label": lambda: Case(
        lambda x, y: f.multilabel_soft_margin_loss(x, y.detach().sigmoid()), (_r(B * N, D), _r(B * N, D))
    ),
    "hinge": lambda: Case(lambda x, y: f.hinge_embedding_loss(x, y.detach().sign()), (_r(B, N, D), _r(B, N, D))),
    "triplet": lambda: Case(f.triplet_margin_loss, (_r(B * N, D), _r(B * N, D), _r(B * N, D))),
    "cosine": lambda: Case(lambda x, y: f.cosine_similarity(x, y, -1), (_r(B, N, D), _r(B, N, D))),
    "cosine_loss": lambda: Case(
        lambda x, y, t: f.cosine_embedding_loss(x, y, t.detach().sign()), (_r(B * N, D), _r(B * N, D), _r(B * N))
    ),
    "margin": lambda: Case(
        lambda x, y, t: f.margin_ranking_loss(x, y, t.detach().sign()), (_r(B, N, D), _r(B, N, D), _r(B, N, D))
    ),
    "pairwise": lambda: Case(f.pairwise_distance, (_r(B * N, D), _r(B * N, D))),
    "cdist": lambda: Case(torch.cdist, (_r(8, 1024, 64), _r(8, 1024, 64))),
    "cdist_small": lambda: Case(torch.cdist, (_r(256, 20, 64), _r(256, 20, 64))),
    "cdist_one": lambda: Case(lambda x, y: torch.cdist(x, y, 1.0), (_r(8, 1024, 64), _r(8, 1024, 64))),
    "pdist": lambda: Case(f.pdist, (_r(4096, 64),)),
    "ctc": lambda: Case(
        lambda x, y: f.ctc_loss(x.log_softmax(-1), y, torch.full((32,), 400), torch.full((32,), 40)),
        (_r(400, 32, 128), _i(127, 32, 40) + 1),
    ),
    # -- images
    "nearest": lambda: Case(lambda x: f.interpolate(x, scale_factor=2), (_r(16, 64, 64, 64),)),
    "bilinear_image": lambda: Case(lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"), (_r(16, 64, 64, 64),)),
    "bilinear_last": lambda: Case(
        lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"), (_last(_r(16, 64, 64, 64)),)
    ),
    "bilinear_anti": lambda: Case(
        lambda x: f.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True), (_r(16, 64, 128, 128),)
    ),
    "bicubic": lambda: Case(lambda x: f.interpolate(x, scale_factor=2, mode="bicubic"), (_r(16, 64, 64, 64),)),
    "area": lambda: Case(lambda x: f.interpolate(x, size=30, mode="area"), (_r(16, 64, 64, 64),)),
    "trilinear": lambda: Case(lambda x: f.interpolate(x, scale_factor=2, mode="trilinear"), (_r(4, 16, 32, 32, 32),)),
    "nearest_3d": lambda: Case(lambda x: f.interpolate(x, scale_factor=2), (_r(4, 16, 32, 32, 32),)),
    "linear_1d": lambda: Case(lambda x: f.interpolate(x, scale_factor=4, mode="linear"), (_r(16, 64, 4096),)),
    "grid_sample": lambda: Case(
        lambda x, g: f.grid_sample(x, g.tanh(), align_corners=False), (_r(16, 64, 64, 64), _r(16, 96, 96, 2))
    ),
    "grid_sample_3d": lambda: Case(
        lambda x, g: f.grid_sample(x, g.tanh(), align_corners=False), (_r(2, 16, 32, 32, 32), _r(2, 32, 32, 32, 3))
    ),
    "affine_grid": lambda: Case(lambda t: f.affine_grid(t, [16, 3, 256, 256], align_corners=False), (_r(16, 2, 3),)),
    "pixel_shuffle": lambda: Case(lambda x: f.pixel_shuffle(x, 2), (_r(16, 64, 96, 96),)),
    "pixel_unshuffle": lambda: Case(lambda x: f.pixel_unshuffle(x, 2), (_r(16, 64, 96, 96),)),
    "channel_shuffle": lambda: Case(lambda x: f.channel_shuffle(x, 4), (_r(16, 64, 96, 96),)),
    "max_pool": lambda: Case(lambda x: f.max_pool2d(x, 2), (_r(16, 64, 128, 128),)),
    "max_pool_last": lambda: Case(lambda x: f.max_pool2d(x, 3, 2, 1), (_last(_r(16, 64, 128, 128)),)),
    "max_pool_1d": lambda: Case(lambda x: f.max_pool1d(x, 4), (_r(16, 64, 16384),)),
    "max_pool_3d": lambda: Case(lambda x: f.max_pool3d(x, 2), (_r(4, 32, 32, 64, 64),)),
    "avg_pool": lambda: Case(lambda x: f.avg_pool2d(x, 2), (_r(16, 64, 128, 128),)),
    "avg_pool_3d": lambda: Case(lambda x: f.avg_pool3d(x, 2), (_r(4, 32, 32, 64, 64),)),
    "adaptive_avg": lambda: Case(lambda x: f.adaptive_avg_pool2d(x, 7), (_r(16, 64, 128, 128),)),
    "adaptive_avg_last": lambda: Case(lambda x: f.adaptive_avg_pool2d(x, 7), (_last(_r(16, 64, 128, 128)),)),
    "adaptive_one": lambda: Case(lambda x: f.adaptive_avg_pool2d(x, 1), (_r(16, 64, 128, 128),)),
    "adaptive_max": lambda: Case(lambda x: f.adaptive_max_pool2d(x, 7), (_r(16, 64, 128, 128),)),
    "adaptive_1d": lambda: Case(lambda x: f.adaptive_avg_pool1d(x, 100), (_r(16, 64, 16384),)),
    "adaptive_3d": lambda: Case(lambda x: f.adaptive_avg_pool3d(x, 4), (_r(4, 32, 32, 64, 64),)),
    "lp_pool": lambda: Case(lambda x: f.lp_pool2d(x, 2, 2), (_r(16, 64, 128, 128),)),
    "unpool": lambda: Case(
        lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2), (_r(16, 64, 128, 128),)
    ),
    # -- products
    "linear": lambda: Case(nn.Linear(D, D), (_r(B, N, D),)),
    "linear_t": lambda: Case(nn.Linear(N, N), (_r(B, N, D).transpose(1, 2),)),
    "linear_twice": lambda: Case(Twice(), (_r(B, N, D),)),
    "bilinear": lambda: Case(nn.Bilinear(64, 64, 128), (_r(4096, 64), _r(4096, 64))),
    "matmul_broadcast": lambda: Case(torch.matmul, (_r(B, N, D), _r(D, D))),
    "matmul_heads": lambda: Case(lambda x, y: x.transpose(1, 2) @ y, (_r(B, N, D), _r(B, N, D))),
    "baddbmm": lambda: Case(torch.baddbmm, (_r(B, N, N // 4), _r(B, N, 64), _r(B, 64, N // 4))),
    "einsum_heads": lambda: Case(
        lambda x, y: torch.einsum("bnhd,bmhd->bhnm", x, y), (_r(4, 1024, 8, 64), _r(4, 1024, 8, 64))
    ),
    "einsum_outer": lambda: Case(lambda x, y: torch.einsum("bnd,bne->bde", x, y), (_r(B, N, D), _r(B, N, D))),
    "einsum_sum": lambda: Case(lambda x, y: torch.einsum("bnd,bnd->bn", x, y), (_r(B, N, D), _r(B, N, D))),
    "einsum_scale": lambda: Case(lambda x, y: torch.einsum("bnd,d->bnd", x, y), (_r(B, N, D), _r(D))),
    "einsum_amp": lambda: Case(
        lambda x, y: torch.einsum("bnhd,bmhd->bhnm", x, y), (_r(4, 1024, 8, 64), _r(4, 1024, 8, 64)), "bfloat16"
    ),
    "tensordot": lambda: Case(lambda x, y: torch.tensordot(x, y, ([2], [0])), (_r(B, N, D), _r(D, 8, 64))),
    "outer": lambda: Case(torch.outer, (_r(4096), _r(4096))),
    "addmv": lambda: Case(lambda x, y: x @ y, (_r(B * N, D), _r(D))),
    "mha": lambda: Case(Attends(), (_r(8, 512, D),)),
    "mha_weights": lambda: Case(Attends(True), (_r(8, 512, D),)),
    "sdpa": lambda: Case(f.scaled_dot_product_attention, tuple(_r(8, 8, 1024, 64) for _ in range(3))),
    "sdpa_bf16": lambda: Case(f.scaled_dot_product_attention, tuple(_r(8, 8, 1024, 64, dtype=BF16) for _ in range(3))),
    "sdpa_views": lambda: Case(
        lambda x: f.scaled_dot_product_attention(*(p.unflatten(2, (8, 64)).transpose(1, 2) for p in x.chunk(3, -1))),
        (_r(8, 1024, 1536),),
    ),
    "sdpa_views_bf16": lambda: Case(
        lambda x: f.scaled_dot_product_attention(*(p.unflatten(2, (8, 64)).transpose(1, 2) for p in x.chunk(3, -1))),
        (_r(8, 1024, 1536, dtype=BF16),),
    ),
    "sdpa_odd": lambda: Case(f.scaled_dot_product_attention, tuple(_r(8, 8, 1000, 36) for _ in range(3))),
    "sdpa_mask": lambda: Case(
        lambda q, k, v, m: f.scaled_dot_product_attention(q, k, v, m),
        (*(_r(8, 8, 1024, 64) for _ in range(3)), _i(2, 1024, 1024).bool()),
    ),
    "sdpa_bias": lambda: Case(
        f.scaled_dot_product_attention, (*(_r(8, 8, 1024, 64) for _ in range(3)), _r(8, 1024, 1024))
    ),
    "sdpa_49": lambda: Case(f.scaled_dot_product_attention, tuple(_r(64, 8, 49, 32) for _ in range(3))),
    "sdpa_197": lambda: Case(f.scaled_dot_product_attention, tuple(_r(16, 12, 197, 64) for _ in range(3))),
    # -- recurrent
    "gru_cell": lambda: Case(nn.GRUCell(D, D), (_r(8192, D), _r(8192, D))),
    "lstm_cell_module": lambda: Case(Cell(), (_r(8192, D),)),
    "rnn_cell": lambda: Case(nn.RNNCell(D, D), (_r(8192, D), _r(8192, D))),
    "gru_cell_amp": lambda: Case(nn.GRUCell(D, D), (_r(8192, D), _r(8192, D)), "bfloat16"),
    # -- sound and Fourier
    "rfft": lambda: Case(lambda x: torch.fft.rfft(x).abs(), (_r(64, 65536),)),
    "rfft2": lambda: Case(lambda x: torch.fft.rfft2(x).abs(), (_r(16, 16, 128, 128),)),
    "irfft2": lambda: Case(lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2), (_r(16, 16, 128, 128),)),
    "fft": lambda: Case(lambda x: torch.fft.fft(x).abs(), (_r(64, 65536),)),
    "fft_middle": lambda: Case(lambda x: torch.fft.fft(x, dim=1).abs(), (_r(16, 1024, 64),)),
    "stft": lambda: Case(
        lambda x: torch.stft(x, 1024, 256, window=torch.hann_window(1024, device=x.device), return_complex=True).abs(),
        (_r(16, 65536),),
    ),
    # -- linear algebra
    "inverse": lambda: Case(lambda x: torch.linalg.inv(x @ x.mT + torch.eye(64, device=x.device)), (_r(256, 64, 64),)),
    "solve": lambda: Case(
        lambda x, y: torch.linalg.solve(x @ x.mT + torch.eye(64, device=x.device), y), (_r(256, 64, 64), _r(256, 64, 8))
    ),
    "cholesky": lambda: Case(
        lambda x: torch.linalg.cholesky(x @ x.mT + 64 * torch.eye(64, device=x.device)), (_r(256, 64, 64),)
    ),
    "logdet": lambda: Case(lambda x: torch.logdet(x @ x.mT + torch.eye(64, device=x.device)), (_r(256, 64, 64),)),
    "svd": lambda: Case(lambda x: torch.linalg.svdvals(x), (_r(16, 64, 64),)),
    "eigh": lambda: Case(lambda x: torch.linalg.eigvalsh(x @ x.mT), (_r(16, 64, 64),)),
    "qr": lambda: Case(lambda x: torch.linalg.qr(x)[0], (_r(64, 64, 64),)),
    "matrix_exp": lambda: Case(torch.matrix_exp, (_r(64, 64, 64),)),
    # -- shapes
    "cat": lambda: Case(lambda x, y: torch.cat([x, y], 1), (_r(B, N, D), _r(B, N, D))),
    "stack": lambda: Case(lambda x, y: torch.stack([x, y]), (_r(B, N, D), _r(B, N, D))),
    "chunk": lambda: Case(lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1], (_r(B, N, D),)),
    "transpose_copy": lambda: Case(lambda x: x.transpose(1, 2).contiguous(), (_r(B, N, D),)),
    "expand_sum": lambda: Case(lambda x: (x[:, :, None] + x[:, None]).relu(), (_r(16, 256, 64),)),
    "slices": lambda: Case(lambda x: x[:, 1:] - x[:, :-1], (_r(B, N, D),)),
    "select": lambda: Case(lambda x: x[:, 0], (_r(B, N, D),)),
    "diagonal": lambda: Case(lambda x: x.diagonal(0, 1, 2) * 2, (_r(16, 1024, 1024),)),
    "tril": lambda: Case(torch.tril, (_r(16, 1024, 1024),)),
    "cast": lambda: Case(lambda x: x.half() * 2, (_r(B, N, D),)),
    "complex": lambda: Case(lambda x, y: torch.complex(x, y).abs(), (_r(B, N, D), _r(B, N, D))),
    "polar": lambda: Case(lambda x, y: torch.polar(x, y) * 2, (_r(B, N, D), _r(B, N, D))),
    "rotary": lambda: Case(
        lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * 1j).flatten(-2), (_r(B, N, D),)
    ),
    "unbind": lambda: Case(lambda x: sum(x.unbind(1)), (_r(B, 8, N // 8, D),)),
    "double_backward": lambda: Case(_penalty, (_r(B, N, D),)),
}


def _penalty(x: torch.Tensor) -> torch.Tensor:
    slope = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)[0]
    return (slope.norm(dim=-1) - 1).square().mean()


class Twice(nn.Module):
    """One layer, used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(D, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(self.layer(x).relu())


class Attends(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, weights: bool = False) -> None:
        super().__init__()
        self.inner, self.weights = nn.MultiheadAttention(D, 8, batch_first=True), weights

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x, x, x, need_weights=self.weights)[0]


class Cell(nn.Module):
    """Two steps of a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(D, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cell(x, self.cell(x))[0]


def record(name: str, device: str = "cuda:0") -> dict[str, Any]:
    """Run a case twice on a card, and return what its allocator did in the second call."""
    from record_histories import events_of

    torch.manual_seed(0)
    case = CASES[name]()
    model, given = Called(case).to(device), torch.zeros(1, device=device)

    def step() -> None:
        with torch.autocast("cuda", getattr(torch, case.autocast or "float16"), enabled=case.autocast is not None):
            out = loss(model(given))
        out.backward()
        model.zero_grad()

    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=100_000)
    step()
    torch.cuda.synchronize()
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(None)
    return {"before": before, "peak": torch.cuda.max_memory_allocated(), "events": events_of(trace)}


def main(out: Path, seconds: float) -> int:
    """Record all cases, and write what there is after each twenty."""
    sys.path.insert(0, str(FOLDER))
    rows: dict[str, Any] = {}
    end = time.monotonic() + seconds
    for number, name in enumerate(CASES):
        try:
            rows[name] = record(name) if time.monotonic() < end else {"failed": "no time was left"}
        except Exception as exc:  # noqa: BLE001  # the others are asked for
            rows[name] = {"failed": f"{type(exc).__name__}: {exc}"[:300]}
        torch.cuda.empty_cache()
        if number % 20 == 0 or number == len(CASES) - 1:
            about = {"card": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
            out.write_bytes(gzip.compress(json.dumps(about, separators=(",", ":")).encode(), mtime=0))
    failed = {name: row["failed"] for name, row in rows.items() if "failed" in row}
    sys.stdout.write(f"{len(rows) - len(failed)} recorded, {failed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 120.0))
