"""The networks of images, of pairs of images and of clips of unseen_third.py."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["atrous", "clips", "optical_flow", "stereo", "style_generator", "super_resolution"]

Made = tuple[Any, ...]


# -- segments of street scenes


class GroupedBottleneck(nn.Module):
    """A bottleneck with 32 groups, dilated where it keeps the resolution."""

    def __init__(self, inside: int, out: int, stride: int, dilation: int) -> None:
        super().__init__()
        middle = out // 2
        self.body = nn.Sequential(
            nn.Conv2d(inside, middle, 1, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, middle, 3, stride, dilation, dilation, groups=32, bias=False),
            nn.BatchNorm2d(middle),
            nn.ReLU(inplace=True),
            nn.Conv2d(middle, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inside != out:
            self.short = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.short(x), inplace=True)


class Atrous(nn.Module):
    """Grouped bottlenecks to an eighth of the resolution, and a head of several dilations."""

    def __init__(self, classes: int = 19) -> None:
        super().__init__()
        stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        self.low = nn.Sequential(*stem, *self.stage(64, 256, 3, 1, 1))
        self.high = nn.Sequential(
            *self.stage(256, 512, 4, 2, 1), *self.stage(512, 1024, 6, 1, 2), *self.stage(1024, 2048, 3, 1, 4)
        )
        self.rates = nn.ModuleList(
            [self.head(2048, 256, 1, 1)] + [self.head(2048, 256, 3, rate) for rate in (12, 24, 36)]
        )
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), self.head(2048, 256, 1, 1))
        self.join = nn.Sequential(self.head(1280, 256, 1, 1), nn.Dropout(0.5))
        self.reduce = self.head(256, 48, 1, 1)
        self.last = nn.Sequential(self.head(304, 256, 3, 1), self.head(256, 256, 3, 1), nn.Conv2d(256, classes, 1))

    @staticmethod
    def stage(inside: int, out: int, depth: int, stride: int, dilation: int) -> list[nn.Module]:
        first = GroupedBottleneck(inside, out, stride, max(1, dilation // 2))
        return [first, *(GroupedBottleneck(out, out, 1, dilation) for _ in range(depth - 1))]

    @staticmethod
    def head(inside: int, out: int, kernel: int, rate: int) -> nn.Module:
        conv = nn.Conv2d(inside, out, kernel, padding=rate * (kernel // 2), dilation=rate, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(out), nn.ReLU(inplace=True))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        low = self.low(image)
        x = self.high(low)
        pooled = functional.interpolate(self.pool(x), size=x.shape[-2:], mode="bilinear", align_corners=False)
        x = self.join(torch.cat([*(rate(x) for rate in self.rates), pooled], 1))
        x = functional.interpolate(x, size=low.shape[-2:], mode="bilinear", align_corners=False)
        x = self.last(torch.cat([x, self.reduce(low)], 1))
        return functional.interpolate(x, size=image.shape[-2:], mode="bilinear", align_corners=False)


def atrous(batch: int = 8) -> Made:
    target = torch.randint(0, 19, (batch, 256, 256))
    target[:, :16] = 255
    return (
        Atrous(),
        (torch.randn(batch, 3, 256, 256),),
        lambda out: functional.cross_entropy(out, target.to(out.device), ignore_index=255),
    )


# -- images four times larger


class DenseResidual(nn.Module):
    """Five convolutions, each of all features before, scaled and added."""

    def __init__(self, width: int = 64, growth: int = 32) -> None:
        super().__init__()
        outs = [growth] * 4 + [width]
        self.convs = nn.ModuleList([nn.Conv2d(width + i * growth, out, 3, padding=1) for i, out in enumerate(outs)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        features = [x]
        for conv in self.convs[:-1]:
            features.append(functional.leaky_relu(conv(torch.cat(features, 1)), 0.2, inplace=True))
        return x + 0.2 * self.convs[-1](torch.cat(features, 1))


class SuperResolution(nn.Module):
    """Dense residual blocks at the small size, then pixels from channels twice."""

    def __init__(self, width: int = 64, depth: int = 12) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(*(DenseResidual(width) for _ in range(3))) for _ in range(depth)])
        self.trunk = nn.Conv2d(width, width, 3, padding=1)
        grow: list[nn.Module] = []
        for _ in range(2):
            grow += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(width)]
        self.grow = nn.Sequential(*grow, nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.first(image)
        x = first
        for block in self.blocks:
            x = x + 0.2 * block(x)
        large = functional.interpolate(image, scale_factor=4, mode="bicubic", align_corners=False)
        return (self.grow(first + self.trunk(x)) + large).clamp(0, 1)


def super_resolution(batch: int = 4) -> Made:
    return SuperResolution(), (torch.rand(batch, 3, 240, 320),)


# -- motion between two images


class FlowEncoder(nn.Module):
    """Residual pairs of convolutions to an eighth of the resolution."""

    def __init__(self, out: int, norm: type[nn.Module]) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3), norm(64), nn.ReLU()]
        for inside, width, stride in ((64, 64, 1), (64, 96, 2), (96, 128, 2)):
            layers += [nn.Conv2d(inside, width, 3, stride, 1), norm(width), nn.ReLU()]
            layers += [nn.Conv2d(width, width, 3, 1, 1), norm(width), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Conv2d(128, out, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


class Gates(nn.Module):
    """A convolutional gated unit along one direction."""

    def __init__(self, hidden: int, inside: int, kernel: tuple[int, int]) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.update = nn.Conv2d(hidden + inside, hidden, kernel, padding=padding)
        self.reset = nn.Conv2d(hidden + inside, hidden, kernel, padding=padding)
        self.new = nn.Conv2d(hidden + inside, hidden, kernel, padding=padding)

    def forward(self, h: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        both = torch.cat([h, x], 1)
        z, r = torch.sigmoid(self.update(both)), torch.sigmoid(self.reset(both))
        return (1 - z) * h + z * torch.tanh(self.new(torch.cat([r * h, x], 1)))


class OpticalFlow(nn.Module):
    """All pairs of positions are correlated, and a recurrent unit looks up what is near its flow."""

    def __init__(self, iterations: int = 10, radius: int = 4) -> None:
        super().__init__()
        self.iterations, self.radius = iterations, radius
        self.features, self.context = FlowEncoder(256, nn.InstanceNorm2d), FlowEncoder(256, nn.BatchNorm2d)
        self.correlated = nn.Conv2d(4 * (2 * radius + 1) ** 2, 192, 1)
        self.moved = nn.Sequential(
            nn.Conv2d(2, 128, 7, padding=3), nn.ReLU(), nn.Conv2d(128, 64, 3, padding=1), nn.ReLU()
        )
        self.motion = nn.Conv2d(256, 126, 3, padding=1)
        self.rows, self.columns = Gates(128, 256, (1, 5)), Gates(128, 256, (5, 1))
        self.delta = nn.Sequential(nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 2, 3, padding=1))
        self.mask = nn.Sequential(nn.Conv2d(128, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 576, 1))

    def look_up(self, pyramid: list[torch.Tensor], where: torch.Tensor) -> torch.Tensor:
        batch, _, high, wide = where.shape
        steps = torch.arange(-self.radius, self.radius + 1, device=where.device, dtype=where.dtype)
        around = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).flip(-1)
        centres, found = where.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2), []
        for level, volume in enumerate(pyramid):
            size = torch.tensor([volume.shape[-1] - 1, volume.shape[-2] - 1], device=where.device, dtype=where.dtype)
            grid = 2 * (centres / 2**level + around) / size - 1
            found.append(functional.grid_sample(volume, grid, align_corners=True).reshape(batch, high, wide, -1))
        return torch.cat(found, -1).permute(0, 3, 1, 2).contiguous()

    def enlarge(self, flow: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, _, high, wide = flow.shape
        mask = torch.softmax(mask.view(batch, 1, 9, 8, 8, high, wide), 2)
        patches = functional.unfold(8 * flow, 3, padding=1).view(batch, 2, 9, 1, 1, high, wide)
        return (mask * patches).sum(2).permute(0, 1, 4, 2, 5, 3).reshape(batch, 2, 8 * high, 8 * wide)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        one, two = self.features(torch.cat([first, second])).chunk(2)
        batch, width, high, wide = one.shape
        volume = torch.matmul(one.flatten(2).transpose(1, 2), two.flatten(2)) / width**0.5
        pyramid = [volume.reshape(-1, 1, high, wide)]
        for _ in range(3):
            pyramid.append(functional.avg_pool2d(pyramid[-1], 2))
        h, context = self.context(first).split(128, 1)
        h, context = torch.tanh(h), torch.relu(context)
        ys, xs = torch.meshgrid(
            torch.arange(high, device=one.device), torch.arange(wide, device=one.device), indexing="ij"
        )
        start = torch.stack([xs, ys]).to(one.dtype).expand(batch, -1, -1, -1)
        where, flows = start, []
        for _ in range(self.iterations):
            where = where.detach()
            flow = where - start
            seen = torch.cat([torch.relu(self.correlated(self.look_up(pyramid, where))), self.moved(flow)], 1)
            x = torch.cat([context, torch.relu(self.motion(seen)), flow], 1)
            h = self.columns(self.rows(h, x), x)
            where = where + self.delta(h)
            flows.append(self.enlarge(where - start, 0.25 * self.mask(h)))
        return torch.stack(flows)


def optical_flow(batch: int = 3) -> Made:
    truth, model = torch.randn(batch, 2, 256, 320), OpticalFlow()

    def loss(flows: torch.Tensor) -> torch.Tensor:
        each = (flows - truth.to(flows.device)).abs().mean((1, 2, 3, 4))
        weights = 0.8 ** torch.arange(len(flows) - 1, -1, -1, device=flows.device)
        return (weights * each).sum()

    return model, (torch.randn(batch, 3, 256, 320), torch.randn(batch, 3, 256, 320)), loss


# -- images from noise


class Modulated(nn.Module):
    """A convolution whose weight is scaled per image, done as groups of one convolution."""

    def __init__(self, inside: int, out: int, style: int, kernel: int = 3, grow: bool = False) -> None:
        super().__init__()
        self.kernel, self.grow = kernel, grow
        self.weight = nn.Parameter(torch.randn(1, out, inside, kernel, kernel))
        self.style, self.bias = nn.Linear(style, inside), nn.Parameter(torch.zeros(out))
        self.strength = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor, style: torch.Tensor) -> torch.Tensor:
        batch, inside, high, wide = x.shape
        weight = self.weight * (1 + self.style(style)).view(batch, 1, inside, 1, 1)
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        x = x.reshape(1, batch * inside, high, wide)
        if self.grow:
            weight = weight.transpose(1, 2).reshape(batch * inside, -1, self.kernel, self.kernel)
            x = functional.conv_transpose2d(x, weight, stride=2, padding=1, output_padding=1, groups=batch)
        else:
            x = functional.conv2d(x, weight.flatten(0, 1), padding=self.kernel // 2, groups=batch)
        x = x.view(batch, -1, *x.shape[-2:])
        x = x + self.strength * torch.randn(batch, 1, *x.shape[-2:], device=x.device, dtype=x.dtype)
        return functional.leaky_relu(x + self.bias.view(1, -1, 1, 1), 0.2) * 2**0.5


class StyleGenerator(nn.Module):
    """Grows a learned constant to 256 pixels and sums the colours of all sizes."""

    def __init__(self, style: int = 512) -> None:
        super().__init__()
        mapping: list[nn.Module] = []
        for _ in range(8):
            mapping += [nn.Linear(style, style), nn.LeakyReLU(0.2)]
        self.mapping = nn.Sequential(*mapping)
        self.start = nn.Parameter(torch.randn(1, 512, 4, 4))
        self.first = Modulated(512, 512, style)
        widths = [512, 512, 512, 512, 256, 128, 64]
        sizes = list(itertools.pairwise(widths))
        self.grow = nn.ModuleList([Modulated(inside, out, style, grow=True) for inside, out in sizes])
        self.same = nn.ModuleList([Modulated(out, out, style) for _, out in sizes])
        self.colours = nn.ModuleList([nn.Conv2d(out, 3, 1) for _, out in sizes])

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        style = self.mapping(noise * torch.rsqrt(noise.square().mean(1, keepdim=True) + 1e-8))
        x = self.first(self.start.expand(len(noise), -1, -1, -1), style)
        image = torch.zeros(len(noise), 3, 4, 4, device=x.device, dtype=x.dtype)
        for grow, same, colour in zip(self.grow, self.same, self.colours, strict=True):
            x = same(grow(x, style), style)
            image = functional.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False) + colour(x)
        return image


def style_generator(batch: int = 16) -> Made:
    return StyleGenerator(), (torch.randn(batch, 512),)


# -- depth of two cameras


def volume_layer(inside: int, out: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(nn.Conv3d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm3d(out), nn.ReLU(inplace=True))


class Hourglass(nn.Module):
    """Twice to the half and back with transposed convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down1 = nn.Sequential(volume_layer(width, 2 * width, 2), volume_layer(2 * width, 2 * width))
        self.down2 = nn.Sequential(volume_layer(2 * width, 4 * width, 2), volume_layer(4 * width, 4 * width))
        self.up2 = nn.ConvTranspose3d(4 * width, 2 * width, 3, 2, 1, output_padding=1, bias=False)
        self.up1 = nn.ConvTranspose3d(2 * width, width, 3, 2, 1, output_padding=1, bias=False)
        self.norm2, self.norm1 = nn.BatchNorm3d(2 * width), nn.BatchNorm3d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = self.down1(x)
        back = functional.relu(self.norm2(self.up2(self.down2(half))) + half)
        return functional.relu(self.norm1(self.up1(back)) + x)


class Stereo(nn.Module):
    """The features of both cameras, a volume of their pairs, and a mean over disparities."""

    def __init__(self, disparities: int = 96, width: int = 32) -> None:
        super().__init__()
        self.disparities = disparities
        layers: list[nn.Module] = []
        for inside, stride, dilation in (
            (3, 2, 1),
            (width, 1, 1),
            (width, 2, 1),
            (width, 1, 1),
            (width, 1, 2),
            (width, 1, 4),
        ):
            conv = nn.Conv2d(inside, width, 3, stride, dilation, dilation, bias=False)
            layers += [conv, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers, nn.Conv2d(width, width, 1))
        self.first = nn.Sequential(volume_layer(2 * width, width), volume_layer(width, width))
        self.glasses = nn.ModuleList([Hourglass(width) for _ in range(3)])
        self.heads = nn.ModuleList(
            [nn.Sequential(volume_layer(width, width), nn.Conv3d(width, 1, 3, padding=1)) for _ in range(3)]
        )

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        one, two = self.features(left), self.features(right)
        batch, width, high, wide = one.shape
        volume = one.new_zeros(batch, 2 * width, self.disparities // 4, high, wide)
        for shift in range(self.disparities // 4):
            volume[:, :width, shift, :, shift:] = one[..., shift:]
            volume[:, width:, shift, :, shift:] = two[..., : wide - shift]
        x, maps, cost = self.first(volume), [], None
        values = torch.arange(self.disparities, device=left.device, dtype=left.dtype).view(1, -1, 1, 1)
        for glass, head in zip(self.glasses, self.heads, strict=True):
            x = glass(x)
            cost = head(x) if cost is None else cost + head(x)
            size = (self.disparities, *left.shape[-2:])
            full = functional.interpolate(cost, size=size, mode="trilinear", align_corners=False).squeeze(1)
            maps.append((torch.softmax(full, 1) * values).sum(1))
        return torch.stack(maps)


def stereo(batch: int = 2) -> Made:
    truth, left, right = (
        96 * torch.rand(batch, 256, 384),
        torch.randn(batch, 3, 256, 384),
        torch.randn(batch, 3, 256, 384),
    )

    def loss(maps: torch.Tensor) -> torch.Tensor:
        target = truth.to(maps.device)
        return sum(w * functional.smooth_l1_loss(one, target) for w, one in zip((0.5, 0.7, 1.0), maps, strict=True))

    return Stereo(), (left, right), loss


# -- actions in clips


class ClipBlock(nn.Module):
    """Wide, one 3-D filter per channel, perhaps scaled by its mean, and narrow again."""

    def __init__(self, inside: int, out: int, stride: int, scaled: bool) -> None:
        super().__init__()
        middle = int(2.25 * out)
        self.wide = nn.Sequential(
            nn.Conv3d(inside, middle, 1, bias=False), nn.BatchNorm3d(middle), nn.ReLU(inplace=True)
        )
        self.each = nn.Conv3d(middle, middle, 3, (1, stride, stride), 1, groups=middle, bias=False)
        self.norm, self.scaled = nn.BatchNorm3d(middle), scaled
        if scaled:
            squeeze, grow = nn.Conv3d(middle, middle // 16 + 8, 1), nn.Conv3d(middle // 16 + 8, middle, 1)
            self.scale = nn.Sequential(nn.AdaptiveAvgPool3d(1), squeeze, nn.ReLU(), grow, nn.Sigmoid())
        self.narrow = nn.Sequential(nn.Conv3d(middle, out, 1, bias=False), nn.BatchNorm3d(out))
        self.short: nn.Module = nn.Identity()
        if stride != 1 or inside != out:
            conv = nn.Conv3d(inside, out, 1, (1, stride, stride), bias=False)
            self.short = nn.Sequential(conv, nn.BatchNorm3d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm(self.each(self.wide(x)))
        if self.scaled:
            inner = inner * self.scale(inner)
        return functional.relu(self.short(x) + self.narrow(functional.silu(inner)))


def clips(batch: int = 12) -> Made:
    layers: list[nn.Module] = [nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1), bias=False)]
    layers += [nn.Conv3d(24, 24, (5, 1, 1), padding=(2, 0, 0), groups=24, bias=False), nn.BatchNorm3d(24), nn.ReLU()]
    inside = 24
    for out, depth in ((24, 3), (48, 5), (96, 11), (192, 7)):
        for number in range(depth):
            layers.append(ClipBlock(inside, out, 1 if number else 2, number % 2 == 0))
            inside = out
    layers += [
        nn.Conv3d(192, 432, 1, bias=False),
        nn.BatchNorm3d(432),
        nn.ReLU(),
        nn.AdaptiveAvgPool3d(1),
        nn.Flatten(),
    ]
    layers += [nn.Linear(432, 2048), nn.ReLU(), nn.Dropout(0.5), nn.Linear(2048, 400)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, 16, 224, 224),)
