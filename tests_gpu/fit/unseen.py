"""Twenty steps that were chosen before anything of them was predicted or measured; half of them are convolutional.

The rules for workspaces and for the band were changed after that without a look at these, on other shapes. `ownlab fit
unseen.py:NAME` asks for one; CONFIGURATIONS has the settings of each. Only torch is needed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from unseen_sequences import (
    conformer,
    denoiser,
    interactions,
    low_rank,
    masked_patches,
    neighbours,
    rotary_decoder,
    tagger,
    translation,
)

__all__ = [
    "CONFIGURATIONS",
    "conformer",
    "denoiser",
    "interactions",
    "low_rank",
    "masked_patches",
    "neighbours",
    "rotary_decoder",
    "tagger",
    "translation",
]

Made = tuple[Any, ...]

# Settings as a Request has them. The first ten are convolutional.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "volume_unet": {"optimizer": "adam"},
    "volume_segments": {"train": False},
    "wide_unet": {"optimizer": "rmsprop"},
    "half_unet": {"train": False, "precision": "fp16"},
    "wavenet": {"optimizer": "adam"},
    "audio_codec": {"precision": "amp-bf16"},
    "inverted_blocks": {"optimizer": "adamw"},
    "separable": {"precision": "amp-fp16", "channels_last": True, "optimizer": "rmsprop"},
    "pyramid_detector": {"optimizer": "adamw"},
    "video_factored": {"precision": "amp-bf16", "optimizer": "adam"},
    "conformer": {"precision": "amp-bf16"},
    "proposals": {"optimizer": "adamw"},
    "low_rank": {"precision": "amp-bf16"},
    "translation": {"optimizer": "adam"},
    "interactions": {"optimizer": "adagrad"},
    "tagger": {"optimizer": "adam"},
    "denoiser": {"precision": "amp-bf16", "fused": True},
    "rotary_decoder": {"precision": "bf16", "optimizer": "adamw"},
    "masked_patches": {"precision": "tf32"},
    "neighbours": {"optimizer": "adam"},
}
CONVOLUTIONAL = 10


# -- volumes


def _volume_block(inside: int, outside: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width in (inside, outside):
        layers += [nn.Conv3d(width, outside, 3, padding=1), nn.InstanceNorm3d(outside, affine=True), nn.LeakyReLU(0.01)]
    return nn.Sequential(*layers)


class VolumeUNet(nn.Module):
    """Strided pooling down, transposed convolutions up."""

    def __init__(self, widths: tuple[int, ...], inside: int, outside: int) -> None:
        super().__init__()
        self.down = nn.ModuleList([_volume_block(a, b) for a, b in zip((inside, *widths[:-1]), widths, strict=True)])
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.grow = nn.ModuleList([nn.ConvTranspose3d(a, b, 2, 2) for a, b in pairs])
        self.up = nn.ModuleList([_volume_block(2 * b, b) for _, b in pairs])
        self.last = nn.Conv3d(widths[0], outside, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, block in enumerate(self.down):
            x = block(x if number == 0 else functional.max_pool3d(x, 2))
            kept.append(x)
        kept.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([grow(x), kept.pop()], 1))
        return self.last(x)


def volume_unet(batch: int = 2) -> Made:
    labels = torch.randint(0, 3, (batch, 80, 96, 80))
    model = VolumeUNet((24, 48, 96, 192, 256), 1, 3)
    return model, (torch.randn(batch, 1, 80, 96, 80),), lambda out: functional.cross_entropy(out, labels.to(out.device))


def volume_segments(batch: int = 1) -> Made:
    return VolumeUNet((32, 64, 128, 256), 4, 4), (torch.randn(batch, 4, 128, 128, 96),)


# -- images to images


def _image_block(inside: int, outside: int) -> nn.Module:
    layers: list[nn.Module] = []
    for width in (inside, outside):
        layers += [nn.Conv2d(width, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True)]
    return nn.Sequential(*layers)


class ImageUNet(nn.Module):
    """The classic one, five levels."""

    def __init__(self, width: int, classes: int, bilinear: bool) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(5)]
        self.down = nn.ModuleList([_image_block(a, b) for a, b in zip([3, *sizes[:-1]], sizes, strict=True)])
        pairs = list(zip(sizes[:0:-1], sizes[-2::-1], strict=True))
        grown = [nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(a, b, 1)) for a, b in pairs]
        self.grow = nn.ModuleList(grown if bilinear else [nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs])
        self.up = nn.ModuleList([_image_block(2 * b, b) for _, b in pairs])
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for number, block in enumerate(self.down):
            x = block(x if number == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        kept.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat([kept.pop(), grow(x)], 1))
        return self.last(x)


def wide_unet(batch: int = 4) -> Made:
    labels = torch.randint(0, 5, (batch, 384, 512))
    model = ImageUNet(48, 5, False)
    return model, (torch.randn(batch, 3, 384, 512),), lambda out: functional.cross_entropy(out, labels.to(out.device))


def half_unet(batch: int = 6) -> Made:
    return ImageUNet(64, 2, True), (torch.randn(batch, 3, 512, 512),)


# -- sound


class WaveNet(nn.Module):
    """Gated dilated convolutions, twice ten of them."""

    def __init__(self, width: int = 64, skip: int = 128) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        dilations = [2**level for _ in range(2) for level in range(10)]
        self.gates = nn.ModuleList([nn.Conv1d(width, 2 * width, 2, dilation=each) for each in dilations])
        self.stay = nn.ModuleList([nn.Conv1d(width, width, 1) for _ in dilations])
        self.skip = nn.ModuleList([nn.Conv1d(width, skip, 1) for _ in dilations])
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, 256, 1), nn.ReLU(), nn.Conv1d(256, 256, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, total = self.first(x), None
        for gate, stay, skip in zip(self.gates, self.stay, self.skip, strict=True):
            left, right = gate(functional.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            inner = torch.tanh(left) * torch.sigmoid(right)
            total = skip(inner) if total is None else total + skip(inner)
            x = x + stay(inner)
        return self.last(total)


def wavenet(batch: int = 6) -> Made:
    labels = torch.randint(0, 256, (batch, 12000))
    return WaveNet(), (torch.randn(batch, 1, 12000),), lambda out: functional.cross_entropy(out, labels.to(out.device))


class Residual1d(nn.Module):
    """A dilated and a pointwise convolution beside the identity."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        wide = nn.Conv1d(width, width // 2, 3, dilation=dilation, padding=dilation)
        self.inner = nn.Sequential(nn.ELU(), wide, nn.ELU(), nn.Conv1d(width // 2, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


def audio_codec(batch: int = 12) -> Made:
    strides, width = (2, 4, 5, 8), 32
    layers: list[nn.Module] = [nn.Conv1d(1, width, 7, padding=3)]
    for stride in strides:
        layers += [Residual1d(width, 1), Residual1d(width, 3), nn.ELU()]
        layers.append(nn.Conv1d(width, 2 * width, 2 * stride, stride, padding=stride // 2))
        width *= 2
    layers += [nn.Conv1d(width, 128, 7, padding=3), nn.Conv1d(128, width, 7, padding=3)]
    for stride in reversed(strides):
        layers.append(nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, padding=stride // 2))
        width //= 2
        layers += [Residual1d(width, 1), Residual1d(width, 3), nn.ELU()]
    layers.append(nn.Conv1d(width, 1, 7, padding=3))
    return nn.Sequential(*layers), (torch.randn(batch, 1, 32000),), lambda out: out.float().abs().mean()


# -- classes of images


class Inverted(nn.Module):
    """Depthwise 7 x 7, then two linear layers with channels last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.spatial = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.channels = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.channels(self.spatial(x).permute(0, 2, 3, 1)) * self.scale
        return x + inner.permute(0, 3, 1, 2)


def inverted_blocks(batch: int = 24) -> Made:
    layers: list[nn.Module] = [nn.Conv2d(3, 80, 4, 4)]
    for depth, (inside, outside) in zip((2, 2, 6, 2), ((80, 160), (160, 320), (320, 640), (640, 0)), strict=True):
        layers += [Inverted(inside) for _ in range(depth)]
        if outside:
            layers += [nn.BatchNorm2d(inside), nn.Conv2d(inside, outside, 2, 2)]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(640, 100)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 192, 192),)


class Squeeze(nn.Module):
    """Channels weighted by what the whole image has."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 8, 1), nn.SiLU(), nn.Conv2d(width // 8, width, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.inner(x))


def separable(batch: int = 48) -> Made:
    layers: list[nn.Module] = [nn.Conv2d(3, 24, 3, 2, 1, bias=False), nn.BatchNorm2d(24), nn.SiLU()]
    inside = 24
    for outside, stride in ((48, 1), (96, 2), (96, 1), (192, 2), (192, 1), (384, 2), (384, 1), (384, 1)):
        layers += [
            nn.Conv2d(inside, inside, 5, stride, 2, groups=inside, bias=False),
            nn.BatchNorm2d(inside),
            nn.SiLU(),
        ]
        layers += [Squeeze(inside), nn.Conv2d(inside, outside, 1, bias=False), nn.BatchNorm2d(outside), nn.SiLU()]
        inside = outside
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(384, 200)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 256, 256),)


# -- detectors


def _stage(inside: int, outside: int, depth: int) -> nn.Module:
    layers: list[nn.Module] = []
    for number in range(depth):
        width, stride = (inside, 2) if number == 0 else (outside, 1)
        layers += [nn.Conv2d(width, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True)]
    return nn.Sequential(*layers)


class PyramidDetector(nn.Module):
    """One stage: classes and boxes for every place of four levels."""

    def __init__(self, classes: int = 20, width: int = 192) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 48, 7, 2, 3, bias=False), nn.BatchNorm2d(48), nn.ReLU(True))
        sizes = (96, 192, 384, 512)
        self.stages = nn.ModuleList([_stage(a, b, 3) for a, b in zip((48, *sizes[:-1]), sizes, strict=True)])
        self.across = nn.ModuleList([nn.Conv2d(size, width, 1) for size in sizes])
        self.smooth = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in sizes])
        towers = [
            nn.Sequential(*[nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU()) for _ in range(3)]) for _ in "ab"
        ]
        self.of_class, self.of_box = (
            nn.Sequential(tower, nn.Conv2d(width, out, 3, 1, 1))
            for tower, out in zip(towers, (classes * 3, 12), strict=True)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, levels = self.first(x), []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        merged, above = [], None
        for level, across, smooth in reversed(list(zip(levels, self.across, self.smooth, strict=True))):
            here = across(level)
            if above is not None:
                here = here + functional.interpolate(above, size=here.shape[-2:], mode="nearest")
            above = here
            merged.append(smooth(here))
        classes = torch.cat([self.of_class(level).flatten(2) for level in merged], 2)
        boxes = torch.cat([self.of_box(level).flatten(2) for level in merged], 2)
        return classes, boxes


def pyramid_detector(batch: int = 4) -> Made:
    def loss(out: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        classes, boxes = out
        return functional.binary_cross_entropy_with_logits(
            classes, torch.zeros_like(classes)
        ) + functional.smooth_l1_loss(boxes, torch.zeros_like(boxes))

    return PyramidDetector(), (torch.randn(batch, 3, 480, 640),), loss


class Proposals(nn.Module):
    """Two stages: boxes that score best are matched with those of the image, and classified."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 64, 7, 4, 3), nn.ReLU(), _stage(64, 128, 2), _stage(128, 256, 2))
        self.score, self.offsets = nn.Conv2d(256, 1, 1), nn.Conv2d(256, 4, 1)
        self.head = nn.Sequential(nn.Linear(256 * 49, 512), nn.ReLU(), nn.Linear(512, classes))

    def forward(self, images: torch.Tensor, truth: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        maps = self.body(images)
        scores, offsets = self.score(maps).flatten(1), self.offsets(maps).flatten(2).transpose(1, 2)
        total = scores.new_zeros(())
        for image in range(images.shape[0]):
            best, places = scores[image].topk(300)
            boxes = self._boxes(places, offsets[image], maps.shape[-1])
            overlap = self._overlap(boxes, truth[image])
            most, which = overlap.max(1)
            keep = most > -1.0
            boxes, which = boxes[keep], which[keep]
            logits = self.head(self._pool(maps[image : image + 1], boxes).flatten(1))
            total = total + functional.cross_entropy(logits, labels[image][which]) + functional.softplus(-best).mean()
        return total / images.shape[0]

    def _boxes(self, places: torch.Tensor, offsets: torch.Tensor, wide: int) -> torch.Tensor:
        centre = torch.stack([places % wide, places // wide], 1).float() / wide
        moved = centre + 0.1 * torch.tanh(offsets[places, :2])
        half = 0.05 + 0.1 * torch.sigmoid(offsets[places, 2:])
        return torch.cat([moved - half, moved + half], 1)

    def _overlap(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        low = torch.maximum(first[:, None, :2], second[None, :, :2])
        high = torch.minimum(first[:, None, 2:], second[None, :, 2:])
        shared = (high - low).clamp(min=0).prod(2)
        sizes = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
        return shared / (sizes[0][:, None] + sizes[1][None] - shared)

    def _pool(self, features: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        steps = torch.linspace(0, 1, 7, device=boxes.device)
        x = boxes[:, 0, None] + (boxes[:, 2] - boxes[:, 0])[:, None] * steps
        y = boxes[:, 1, None] + (boxes[:, 3] - boxes[:, 1])[:, None] * steps
        grid = torch.stack([x[:, None, :].expand(-1, 7, -1), y[:, :, None].expand(-1, -1, 7)], 3) * 2 - 1
        return functional.grid_sample(features.expand(len(boxes), -1, -1, -1), grid, align_corners=False)


def proposals(batch: int = 4) -> Made:
    truth = torch.rand(batch, 8, 2)
    truth = torch.cat([truth * 0.5, truth * 0.5 + 0.4], 2)
    return Proposals(), (torch.randn(batch, 3, 384, 384), truth, torch.randint(0, 10, (batch, 8)))


# -- video


def video_factored(batch: int = 4) -> Made:
    layers: list[nn.Module] = []
    inside = 3
    for outside, stride in ((64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1)):
        middle = outside * 2
        layers += [nn.Conv3d(inside, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)]
        layers += [nn.BatchNorm3d(middle), nn.ReLU(True)]
        layers += [nn.Conv3d(middle, outside, (3, 1, 1), (stride if outside > 64 else 1, 1, 1), (1, 0, 0), bias=False)]
        layers += [nn.BatchNorm3d(outside), nn.ReLU(True)]
        inside = outside
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(256, 51)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 16, 128, 128),)
