"""Volumes and images to images, of the steps in unseen_again.py."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[Any, ...]

# -- volumes


class VolumeUnit(nn.Module):
    """Two normed convolutions beside a pointwise one."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv3d(inside, outside, 3, stride, 1, bias=False),
            nn.GroupNorm(8, outside),
            nn.SiLU(True),
            nn.Conv3d(outside, outside, 3, 1, 1, bias=False),
            nn.GroupNorm(8, outside),
        )
        self.around = nn.Conv3d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.silu(self.around(x) + self.inner(x))


class ResidualVolumes(nn.Module):
    """Strided units down, interpolation up, sums instead of concatenations."""

    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [VolumeUnit(a, b, 1 if a == 1 else 2) for a, b in zip((1, *widths[:-1]), widths, strict=True)]
        )
        self.narrow = nn.ModuleList([nn.Conv3d(b, a, 1) for a, b in itertools.pairwise(widths)])
        self.up = nn.ModuleList([VolumeUnit(width, width, 1) for width in widths[:-1]])
        self.last = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = []
        for block in self.down:
            x = block(x)
            levels.append(x)
        for level in range(len(self.up) - 1, -1, -1):
            grown = functional.interpolate(self.narrow[level](x), size=levels[level].shape[2:], mode="trilinear")
            x = self.up[level](grown + levels[level])
        return self.last(x)


def residual_volumes(batch: int = 2) -> Made:
    labels = torch.randint(0, 5, (batch, 96, 112, 80))
    model = ResidualVolumes((24, 40, 80, 160), 5)
    return (
        model,
        (torch.randn(batch, 1, 96, 112, 80),),
        lambda out: functional.cross_entropy(out, labels.to(out.device)),
    )


class WideKernels(nn.Module):
    """Kernels of five in each direction, parametric units, as segmentation of organs began."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [width * 2**level for level in range(4)]
        self.first = nn.Conv3d(2, width, 5, padding=2)
        self.down = nn.ModuleList([nn.Conv3d(a, b, 2, 2) for a, b in itertools.pairwise(sizes)])
        self.blocks = nn.ModuleList(
            [self._block(size, depth) for size, depth in zip(sizes[1:], (2, 3, 3), strict=True)]
        )
        self.up = nn.ModuleList([nn.ConvTranspose3d(b, a, 2, 2) for a, b in itertools.pairwise(sizes)])
        self.merge = nn.ModuleList([self._block(2 * size, 1) for size in sizes[:-1]])
        self.narrow = nn.ModuleList([nn.Conv3d(2 * size, size, 1) for size in sizes[:-1]])
        self.last = nn.Conv3d(width, 3, 1)

    @staticmethod
    def _block(width: int, depth: int) -> nn.Module:
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers += [nn.Conv3d(width, width, 5, padding=2), nn.BatchNorm3d(width), nn.PReLU(width)]
        return nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        kept = [x]
        for down, block in zip(self.down, self.blocks, strict=True):
            x = down(x)
            x = x + block(x)
            kept.append(x)
        kept.pop()
        for level in range(len(self.up) - 1, -1, -1):
            x = torch.cat([self.up[level](x), kept.pop()], 1)
            x = self.narrow[level](x + self.merge[level](x))
        return self.last(x).softmax(1)


def wide_kernels(batch: int = 1) -> Made:
    return WideKernels(), (torch.randn(batch, 2, 128, 128, 64),)


# -- images to images


def _twice(inside: int, outside: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(True)),
        *(nn.Conv2d(outside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(True)),
    )


class Gate(nn.Module):
    """What of a level is let through, by what comes from below."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.level, self.below = nn.Conv2d(width, width // 2, 1), nn.Conv2d(width, width // 2, 1)
        self.share = nn.Sequential(nn.ReLU(True), nn.Conv2d(width // 2, 1, 1), nn.BatchNorm2d(1), nn.Sigmoid())

    def forward(self, level: torch.Tensor, below: torch.Tensor) -> torch.Tensor:
        return level * self.share(self.level(level) + self.below(below))


class GatedUNet(nn.Module):
    """A U-Net whose levels pass through gates."""

    def __init__(self, widths: tuple[int, ...] = (40, 80, 160, 320, 512)) -> None:
        super().__init__()
        self.down = nn.ModuleList([_twice(a, b) for a, b in zip((1, *widths[:-1]), widths, strict=True)])
        steps = list(itertools.pairwise(widths))
        self.grow = nn.ModuleList(
            [nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(b, a, 3, padding=1), nn.ReLU(True)) for a, b in steps]
        )
        self.gates = nn.ModuleList([Gate(a) for a, _ in steps])
        self.up = nn.ModuleList([_twice(2 * a, a) for a, _ in steps])
        self.last = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = []
        for number, block in enumerate(self.down):
            x = block(x if number == 0 else functional.max_pool2d(x, 2))
            levels.append(x)
        for level in range(len(self.up) - 1, -1, -1):
            x = self.grow[level](x)
            x = self.up[level](torch.cat([self.gates[level](levels[level], x), x], 1))
        return self.last(x)


def gated_unet(batch: int = 6) -> Made:
    truth = torch.rand(batch, 1, 288, 288).round()
    return (
        GatedUNet(),
        (torch.randn(batch, 1, 288, 288),),
        lambda out: functional.binary_cross_entropy_with_logits(out, truth.to(out.device)),
    )


class NestedUNet(nn.Module):
    """Every level is refined by all below it."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict()
        for level, width in enumerate(widths):
            for turn in range(len(widths) - level):
                inside = turn * width + widths[level + 1] if turn else (3, *widths)[level]
                self.blocks[f"{level}_{turn}"] = _twice(inside, width)
        self.depth, self.last = len(widths), nn.Conv2d(widths[0], 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        done: dict[tuple[int, int], torch.Tensor] = {}
        for level in range(self.depth):
            x = self.blocks[f"{level}_0"](x if level == 0 else functional.max_pool2d(x, 2))
            done[level, 0] = x
        for turn in range(1, self.depth):
            for level in range(self.depth - turn):
                grown = functional.interpolate(
                    done[level + 1, turn - 1], scale_factor=2.0, mode="bilinear", align_corners=True
                )
                before = [done[level, earlier] for earlier in range(turn)]
                done[level, turn] = self.blocks[f"{level}_{turn}"](torch.cat([*before, grown], 1))
        return self.last(done[0, self.depth - 1])


def nested_unet(batch: int = 4) -> Made:
    return NestedUNet(), (torch.randn(batch, 3, 448, 448),)


class ImageTranslation(nn.Module):
    """A generator of edges to pictures and the patches that judge it, with a distance to the picture."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        sizes = (width, 2 * width, 4 * width, 8 * width, 8 * width, 8 * width)
        self.down = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.InstanceNorm2d(b), nn.LeakyReLU(0.2))
                for a, b in zip((3, *sizes[:-1]), sizes, strict=True)
            ]
        )
        back = [(sizes[-1], sizes[-2]), *((2 * b, a) for a, b in zip(sizes[-3::-1], sizes[-2:0:-1], strict=True))]
        self.up = nn.ModuleList(
            [
                nn.Sequential(nn.ConvTranspose2d(a, b, 4, 2, 1), nn.InstanceNorm2d(b), nn.ReLU(), nn.Dropout(0.5))
                for a, b in back
            ]
        )
        self.last = nn.ConvTranspose2d(2 * width, 3, 4, 2, 1)
        judge: list[nn.Module] = []
        for a, b, stride in ((6, 64, 2), (64, 128, 2), (128, 256, 2), (256, 512, 1)):
            judge += [nn.Conv2d(a, b, 4, stride, 1), nn.LeakyReLU(0.2)]
        self.judge = nn.Sequential(*judge, nn.Conv2d(512, 1, 4, 1, 1))

    def forward(self, edges: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
        x, kept = edges, []
        for block in self.down:
            x = block(x)
            kept.append(x)
        kept.pop()
        for block in self.up:
            x = torch.cat([block(x), kept.pop()], 1)
        made = torch.tanh(self.last(x))
        patches = self.judge(torch.cat([edges, made], 1))
        truth = functional.binary_cross_entropy_with_logits(patches, torch.ones_like(patches))
        return truth + 100 * functional.l1_loss(made, picture)


def image_translation(batch: int = 6) -> Made:
    return ImageTranslation(), (torch.randn(batch, 3, 256, 256), torch.randn(batch, 3, 256, 256))
