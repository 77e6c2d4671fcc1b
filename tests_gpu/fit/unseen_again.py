"""Twenty more steps, chosen and committed on 2026-11-19 before anything of them was measured; half of them are convolutional.

The rules for workspaces and for the band had been made with the steps of unseen.py and practice.py before. `ownlab fit
unseen_again.py:NAME` asks for one; CONFIGURATIONS has the settings of each. Only torch is needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from unseen_again_images import gated_unet, image_translation, nested_unet, residual_volumes, wide_kernels
from unseen_again_others import (
    click_crosses,
    cloud_graph,
    diffusion_transformer,
    grouped_decoder,
    latent_queries,
    linear_attention,
    pairs,
    query_detector,
    recognizer,
    summarizer,
)

__all__ = [
    "CONFIGURATIONS",
    "click_crosses",
    "cloud_graph",
    "diffusion_transformer",
    "gated_unet",
    "grouped_decoder",
    "image_translation",
    "latent_queries",
    "linear_attention",
    "nested_unet",
    "pairs",
    "query_detector",
    "recognizer",
    "residual_volumes",
    "summarizer",
    "wide_kernels",
]

Made = tuple[Any, ...]

# Settings as a Request has them. The first ten are convolutional.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "residual_volumes": {"precision": "amp-bf16", "optimizer": "adamw"},
    "gated_unet": {"optimizer": "adamw"},
    "nested_unet": {"train": False},
    "wide_kernels": {"train": False, "precision": "fp16"},
    "vocoder": {"precision": "amp-fp16", "optimizer": "adam"},
    "causal_stack": {"optimizer": "adam"},
    "centre_heads": {"precision": "amp-bf16", "optimizer": "sgd:momentum=0.9"},
    "pooled_scene": {"precision": "amp-fp16", "channels_last": True, "optimizer": "sgd:momentum=0.9"},
    "image_translation": {"optimizer": "adam"},
    "two_speeds": {"optimizer": "sgd:momentum=0.9"},
    "grouped_decoder": {"precision": "amp-bf16", "fused": True},
    "recognizer": {"train": False, "precision": "fp16"},
    "latent_queries": {"optimizer": "adamw"},
    "click_crosses": {"optimizer": "adagrad"},
    "linear_attention": {"precision": "amp-bf16"},
    "cloud_graph": {"optimizer": "adam"},
    "pairs": {"precision": "amp-bf16", "accumulate": 2},
    "summarizer": {"optimizer": "adam"},
    "query_detector": {"precision": "amp-fp16"},
    "diffusion_transformer": {"precision": "bf16", "optimizer": "adamw"},
}
CONVOLUTIONAL = 10


# -- sound


class Spread(nn.Module):
    """Dilated convolutions of one kernel size, each beside the identity."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.wide = nn.ModuleList(
            [nn.Conv1d(width, width, kernel, padding=each * (kernel // 2), dilation=each) for each in (1, 3, 5)]
        )
        self.same = nn.ModuleList([nn.Conv1d(width, width, kernel, padding=kernel // 2) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for wide, same in zip(self.wide, self.same, strict=True):
            x = x + same(functional.leaky_relu(wide(functional.leaky_relu(x, 0.1)), 0.1))
        return x


class Vocoder(nn.Module):
    """Spectra to sound, and the loss of the sound's spectrum in steps."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, width, 7, padding=3)
        self.grow, self.spread = nn.ModuleList(), nn.ModuleList()
        for rate in (8, 8, 2, 2):
            self.grow.append(nn.ConvTranspose1d(width, width // 2, 2 * rate, rate, padding=rate // 2))
            width //= 2
            self.spread.append(nn.ModuleList([Spread(width, kernel) for kernel in (3, 7, 11)]))
        self.last = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for grow, spread in zip(self.grow, self.spread, strict=True):
            x = grow(functional.leaky_relu(x, 0.1))
            x = sum(each(x) for each in spread) / len(spread)
        return torch.tanh(self.last(functional.leaky_relu(x)))


def vocoder(batch: int = 16) -> Made:
    sound = torch.randn(batch, 1, 8192)
    return Vocoder(), (torch.randn(batch, 80, 32),), lambda out: functional.l1_loss(out.float(), sound.to(out.device))


class CausalLayer(nn.Module):
    """Gated, padded on the left alone, with a condition."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.gate = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.condition, self.out = nn.Conv1d(40, 2 * width, 1, bias=False), nn.Conv1d(width, 2 * width, 1)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = self.gate(functional.pad(x, (2 * self.dilation, 0))) + self.condition(condition)
        stay, skip = self.out(functional.glu(both, 1)).chunk(2, 1)
        return (x + stay) * 0.7071, skip


class CausalStack(nn.Module):
    """Autoregressive sound that is conditioned on features."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList([CausalLayer(width, 2 ** (number % 8)) for number in range(16)])
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 30, 1))

    def forward(self, sound: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        condition = functional.interpolate(condition, size=sound.shape[-1])
        x, skips = self.first(sound), []
        for layer in self.layers:
            x, skip = layer(x, condition)
            skips.append(skip)
        return self.last(torch.stack(skips).sum(0))


def causal_stack(batch: int = 5) -> Made:
    return (
        CausalStack(),
        (torch.randn(batch, 1, 14400), torch.randn(batch, 40, 60)),
        lambda out: -functional.log_softmax(out, 1)[:, 0].mean(),
    )


# -- detection, scenes, video


def _normed(inside: int, outside: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(True),
    )


class Bottleneck(nn.Module):
    """The block of deep residual networks."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        middle = outside // 4
        self.inner = nn.Sequential(_normed(inside, middle, 1), _normed(middle, middle, 3, stride))
        self.out = nn.Sequential(nn.Conv2d(middle, outside, 1, bias=False), nn.BatchNorm2d(outside))
        self.around = nn.Identity()
        if stride != 1 or inside != outside:
            self.around = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.out(self.inner(x)) + self.around(x), inplace=True)


def _stages(widths: tuple[int, ...], depths: tuple[int, ...]) -> nn.ModuleList:
    stages = []
    for level, (inside, outside, depth) in enumerate(zip((64, *widths[:-1]), widths, depths, strict=True)):
        blocks = [
            Bottleneck(inside if at == 0 else outside, outside, 2 if at == 0 and level else 1) for at in range(depth)
        ]
        stages.append(nn.Sequential(*blocks))
    return nn.ModuleList(stages)


class CentreHeads(nn.Module):
    """Objects as points: heat, size and offset at a quarter of the resolution, and at each level of a pyramid."""

    def __init__(self, classes: int = 80, width: int = 128) -> None:
        super().__init__()
        sizes = (256, 512, 1024)
        self.first = nn.Sequential(_normed(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.stages = _stages(sizes, (2, 3, 3))
        self.across = nn.ModuleList([nn.Conv2d(size, width, 1) for size in sizes])
        self.heads = nn.ModuleList(
            [
                nn.Sequential(
                    *(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(32, width), nn.ReLU(True)),
                    *(nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(32, width), nn.ReLU(True)),
                    nn.Conv2d(width, out, 1),
                )
                for out in (classes, 2, 2)
            ]
        )

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x, levels = self.first(x), []
        for stage, across in zip(self.stages, self.across, strict=True):
            x = stage(x)
            levels.append(across(x))
        for low in range(len(levels) - 2, -1, -1):
            levels[low] = levels[low] + functional.interpolate(levels[low + 1], scale_factor=2.0)
        return [torch.cat([head(level).flatten(2) for level in levels], 2) for head in self.heads]


def centre_heads(batch: int = 6) -> Made:
    def loss(out: list[torch.Tensor]) -> torch.Tensor:
        heat, size, offset = out
        heat = functional.binary_cross_entropy_with_logits(heat, torch.zeros_like(heat))
        return heat + functional.l1_loss(size.float(), torch.ones_like(size).float()) + offset.float().abs().mean()

    return CentreHeads(), (torch.randn(batch, 3, 512, 640),), loss


class PooledScene(nn.Module):
    """A scene at an eighth of the resolution, seen together with its averages over coarser and coarser grids."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        self.first = nn.Sequential(_normed(3, 32, 3, 2), _normed(32, 64), nn.MaxPool2d(3, 2, 1))
        self.stages = _stages((128, 320, 640), (2, 2, 2))
        self.bins = (1, 2, 3, 6)
        self.pooled = nn.ModuleList([_normed(640, 160, 1) for _ in self.bins])
        self.last = nn.Sequential(_normed(1280, 256), nn.Dropout2d(0.1), nn.Conv2d(256, classes, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size, x = x.shape[2:], self.first(x)
        for stage in self.stages:
            x = stage(x)
        seen = [x]
        for bins, pooled in zip(self.bins, self.pooled, strict=True):
            seen.append(
                functional.interpolate(pooled(functional.adaptive_avg_pool2d(x, bins)), x.shape[2:], mode="bilinear")
            )
        return functional.interpolate(self.last(torch.cat(seen, 1)), size, mode="bilinear")


def pooled_scene(batch: int = 8) -> Made:
    labels = torch.randint(0, 19, (batch, 384, 768))
    return (
        PooledScene(),
        (torch.randn(batch, 3, 384, 768),),
        lambda out: functional.cross_entropy(out.float(), labels.to(out.device)),
    )


class TwoSpeeds(nn.Module):
    """Few frames with many channels beside many frames with few, joined after each stage."""

    def __init__(self, classes: int = 60) -> None:
        super().__init__()
        self.slow, self.fast, self.join = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        slow, fast = 3, 3
        for level, (wide, narrow) in enumerate(((48, 8), (128, 16), (256, 32), (384, 48))):
            kernel, stride = ((1, 7, 7), (1, 2, 2)) if level == 0 else ((3 if level > 1 else 1, 3, 3), (1, 2, 2))
            self.slow.append(self._unit(slow, wide, kernel, stride))
            self.fast.append(self._unit(fast, narrow, (5 if level == 0 else 3, *kernel[1:]), stride))
            self.join.append(nn.Conv3d(narrow, 2 * narrow, (5, 1, 1), (4, 1, 1), (2, 0, 0), bias=False))
            slow, fast = wide + 2 * narrow, narrow
        self.last = nn.Linear(slow + fast, classes)

    @staticmethod
    def _unit(inside: int, outside: int, kernel: tuple[int, ...], stride: tuple[int, ...]) -> nn.Module:
        padding = [taps // 2 for taps in kernel]
        return nn.Sequential(
            *(nn.Conv3d(inside, outside, kernel, stride, padding, bias=False), nn.BatchNorm3d(outside), nn.ReLU(True)),
            *(nn.Conv3d(outside, outside, (1, 3, 3), 1, (0, 1, 1), bias=False), nn.BatchNorm3d(outside), nn.ReLU(True)),
        )

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        slow, fast = frames[:, :, ::4], frames
        for wide, narrow, join in zip(self.slow, self.fast, self.join, strict=True):
            slow, fast = wide(slow), narrow(fast)
            slow = torch.cat([slow, join(fast)], 1)
        return self.last(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1))


def two_speeds(batch: int = 4) -> Made:
    labels = torch.randint(0, 60, (batch,))
    return (
        TwoSpeeds(),
        (torch.randn(batch, 3, 32, 160, 160),),
        lambda out: functional.cross_entropy(out, labels.to(out.device)),
    )
