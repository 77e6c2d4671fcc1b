"""Steps that the rules of `ownlab fit` may be made with: the models of unseen.py in other sizes and precisions, and some more.

`record_histories.py practice` records what an H200 allocates for each. Only torch is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import unseen
import unseen_sequences as sequences
from torch import nn
from torch.nn import functional

Made = tuple[Any, ...]


class Step(NamedTuple):
    """How a model is made, and the settings of its request."""

    make: Callable[[], Made]
    settings: dict[str, Any]


def _labelled(model: nn.Module, inputs: torch.Tensor, classes: int, shape: tuple[int, ...]) -> Made:
    labels = torch.randint(0, classes, shape)
    return model, (inputs,), lambda out: functional.cross_entropy(out, labels.to(out.device))


def _volume(widths: tuple[int, ...], inside: int, classes: int, batch: int, size: tuple[int, ...]) -> Made:
    return _labelled(
        unseen.VolumeUNet(widths, inside, classes), torch.randn(batch, inside, *size), classes, (batch, *size)
    )


def _image(width: int, classes: int, bilinear: bool, batch: int, size: tuple[int, int]) -> Made:
    model = unseen.ImageUNet(width, classes, bilinear)
    return _labelled(model, torch.randn(batch, 3, *size), classes, (batch, *size))


def _wavenet(width: int, skip: int, batch: int, length: int) -> Made:
    return _labelled(unseen.WaveNet(width, skip), torch.randn(batch, 1, length), 256, (batch, length))


def _codec(width: int, strides: tuple[int, ...], batch: int, length: int) -> Made:
    layers: list[nn.Module] = [nn.Conv1d(1, width, 7, padding=3)]
    for stride in strides:
        layers += [unseen.Residual1d(width, 1), unseen.Residual1d(width, 9), nn.ELU()]
        layers.append(nn.Conv1d(width, 2 * width, 2 * stride, stride, padding=stride // 2))
        width *= 2
    for stride in reversed(strides):
        layers.append(nn.ConvTranspose1d(width, width // 2, 2 * stride, stride, padding=stride // 2))
        width //= 2
        layers += [unseen.Residual1d(width, 1), unseen.Residual1d(width, 9), nn.ELU()]
    layers.append(nn.Conv1d(width, 1, 7, padding=3))
    return nn.Sequential(*layers), (torch.randn(batch, 1, length),), lambda out: out.float().square().mean()


def _video(widths: tuple[int, ...], batch: int, size: tuple[int, int, int], middle: float) -> Made:
    layers: list[nn.Module] = []
    inside = 3
    for number, outside in enumerate(widths):
        between, stride = int(outside * middle), 2 if number % 2 == 0 else 1
        layers += [nn.Conv3d(inside, between, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)]
        layers += [nn.BatchNorm3d(between), nn.ReLU(True)]
        layers += [nn.Conv3d(between, outside, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)]
        layers += [nn.BatchNorm3d(outside), nn.ReLU(True)]
        inside = outside
    layers += [nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inside, 51)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, *size),)


class Residual(nn.Module):
    """Two or three convolutions beside the identity, in one to three dimensions."""

    def __init__(self, dims: int, inside: int, outside: int, stride: int, groups: int, dilation: int) -> None:
        super().__init__()
        convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
        norm = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[dims - 1]
        middle = outside // 4 if groups == 1 and dilation > 1 else outside
        self.inner = nn.Sequential(
            convolution(inside, middle, 1, bias=False),
            norm(middle),
            nn.ReLU(True),
            convolution(middle, middle, 3, stride, dilation, dilation, groups, bias=False),
            norm(middle),
            nn.ReLU(True),
            convolution(middle, outside, 1, bias=False),
            norm(outside),
        )
        self.around = nn.Identity() if inside == outside and stride == 1 else convolution(inside, outside, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.around(x) + self.inner(x))


def _residual(
    dims: int,
    widths: tuple[int, ...],
    depth: int,
    batch: int,
    size: tuple[int, ...],
    groups: int = 1,
    dilated: bool = False,
) -> Made:
    convolution = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    layers: list[nn.Module] = [convolution(3, widths[0], 7, 2, 3)]
    inside = widths[0]
    for level, outside in enumerate(widths):
        for number in range(depth):
            spread = 2**level if dilated and level > 1 else 1
            stride = 2 if number == 0 and level and spread == 1 else 1
            layers.append(Residual(dims, inside, outside, stride, groups, spread))
            inside = outside
    pool = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)[dims - 1]
    layers += [pool(1), nn.Flatten(), nn.Linear(inside, 100)]
    return nn.Sequential(*layers), (torch.randn(batch, 3, *size),)


def _sharper(width: int, depth: int, batch: int, side: int) -> Made:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 9, padding=4), nn.PReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.PReLU(), nn.Conv2d(width, width, 3, padding=1)]
    for _ in range(2):
        layers += [nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
    layers.append(nn.Conv2d(width, 3, 9, padding=4))
    return nn.Sequential(*layers), (torch.randn(batch, 3, side, side),), lambda out: out.float().abs().mean()


def _generator(width: int, batch: int) -> Made:
    layers: list[nn.Module] = [nn.ConvTranspose2d(128, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width)]
    inside = 8 * width
    for _ in range(4):
        layers += [nn.ReLU(True), nn.ConvTranspose2d(inside, inside // 2, 4, 2, 1, bias=False)]
        layers.append(nn.BatchNorm2d(inside // 2))
        inside //= 2
    layers += [nn.ReLU(True), nn.ConvTranspose2d(inside, 3, 4, 2, 1), nn.Tanh()]
    inside = 3
    for outside in (width, 2 * width, 4 * width, 8 * width):
        layers += [nn.Conv2d(inside, outside, 4, 2, 1), nn.LeakyReLU(0.2)]
        inside = outside
    layers += [nn.Conv2d(inside, 1, 8)]
    return (
        nn.Sequential(*layers),
        (torch.randn(batch, 128, 1, 1),),
        lambda out: functional.softplus(-out.float()).mean(),
    )


def _detector(batch: int, size: tuple[int, int], width: int = 192) -> Made:
    _, _, loss = unseen.pyramid_detector(1)
    return unseen.PyramidDetector(width=width), (torch.randn(batch, 3, *size),), loss


def _denoiser(batch: int, widths: tuple[int, ...], side: int) -> Made:
    return sequences.Denoiser(widths), (torch.randn(batch, 4, side, side), torch.rand(batch))


def _masked(batch: int, width: int, depth: int) -> Made:
    return sequences.MaskedPatches(width, depth), (torch.randn(batch, 3, 224, 224),)


def _decoder(batch: int, seq: int, width: int, depth: int, heads: int) -> Made:
    model = sequences.Decoder(width, depth, heads, 4 * width, 20000)
    return model, (torch.randint(0, 20000, (batch, seq)),)


FP32: dict[str, Any] = {"optimizer": "adam"}
AMP: dict[str, Any] = {"precision": "amp-bf16", "optimizer": "adamw"}
AMP_FP16: dict[str, Any] = {"precision": "amp-fp16", "optimizer": "sgd:momentum=0.9"}
INFER: dict[str, Any] = {"train": False}
STEPS: dict[str, Step] = {
    "volume_a": Step(lambda: _volume((32, 64, 128, 256, 320), 1, 2, 2, (96, 96, 96)), FP32),
    "volume_b": Step(lambda: _volume((16, 32, 64, 128), 2, 4, 2, (128, 128, 64)), AMP),
    "volume_c": Step(lambda: _volume((32, 64, 128, 256), 1, 2, 1, (128, 128, 128)), INFER | {"precision": "fp16"}),
    "volume_d": Step(lambda: _volume((20, 40, 80, 160), 1, 3, 4, (64, 64, 64)), {"optimizer": "sgd:momentum=0.9"}),
    "volume_e": Step(lambda: _volume((24, 48, 96, 192), 4, 4, 2, (112, 112, 80)), INFER),
    "volume_f": Step(lambda: _volume((48, 96, 192, 384), 1, 2, 1, (80, 80, 80)), AMP_FP16),
    "image_a": Step(lambda: _image(32, 2, True, 8, (320, 320)), FP32),
    "image_b": Step(lambda: _image(64, 3, False, 4, (512, 512)), AMP),
    "image_c": Step(lambda: _image(40, 4, False, 6, (256, 384)), FP32 | {"channels_last": True}),
    "image_d": Step(lambda: _image(64, 21, True, 2, (768, 768)), INFER),
    "image_e": Step(lambda: _image(24, 2, False, 16, (256, 256)), {"optimizer": "rmsprop"}),
    "image_f": Step(lambda: _image(56, 5, False, 4, (384, 384)), FP32),
    "image_g": Step(lambda: _image(48, 5, True, 8, (384, 512)), AMP_FP16 | {"channels_last": True}),
    "wavenet_a": Step(lambda: _wavenet(128, 256, 4, 16000), FP32),
    "wavenet_b": Step(lambda: _wavenet(32, 256, 16, 8000), AMP),
    "wavenet_c": Step(lambda: _wavenet(96, 128, 8, 22050), INFER),
    "codec_a": Step(lambda: _codec(48, (2, 4, 5, 8), 8, 24000), FP32),
    "codec_b": Step(lambda: _codec(32, (2, 2, 4, 8), 16, 44160), AMP),
    "codec_c": Step(lambda: _codec(64, (4, 4, 5), 8, 32000), INFER | {"precision": "fp16"}),
    "video_a": Step(lambda: _video((64, 64, 128, 128, 256, 256), 4, (16, 112, 112), 2.0), FP32),
    "video_b": Step(lambda: _video((48, 48, 96, 96, 192), 8, (16, 112, 112), 1.5), AMP),
    "video_c": Step(lambda: _video((64, 128, 256, 512), 2, (32, 160, 160), 1.0), AMP_FP16),
    "video_d": Step(lambda: _video((64, 64, 128, 256), 4, (32, 128, 128), 1.0), INFER),
    "residual_1d": Step(lambda: _residual(1, (64, 128, 256, 512), 3, 64, (5000,)), FP32),
    "residual_1d_amp": Step(lambda: _residual(1, (64, 128, 256, 512), 3, 64, (5000,)), AMP),
    "residual_2d": Step(lambda: _residual(2, (64, 256, 512, 1024), 3, 16, (256, 256)), FP32),
    "residual_dilated": Step(lambda: _residual(2, (64, 256, 512, 1024), 2, 8, (320, 320), dilated=True), FP32),
    "residual_dilated_amp": Step(lambda: _residual(2, (64, 256, 512, 1024), 2, 8, (512, 512), dilated=True), AMP),
    "residual_grouped": Step(lambda: _residual(2, (128, 256, 512), 3, 16, (224, 224), groups=32), FP32),
    "residual_grouped_amp": Step(lambda: _residual(2, (128, 256, 512), 3, 32, (224, 224), groups=16), AMP),
    "residual_3d": Step(lambda: _residual(3, (32, 64, 128, 256), 2, 4, (64, 128, 128)), FP32),
    "residual_3d_amp": Step(lambda: _residual(3, (32, 64, 128, 256), 2, 4, (64, 128, 128)), AMP),
    "sharper": Step(lambda: _sharper(64, 16, 8, 64), FP32),
    "sharper_amp": Step(lambda: _sharper(64, 8, 16, 64), AMP),
    "sharper_infer": Step(lambda: _sharper(64, 8, 1, 256), INFER),
    "generator": Step(lambda: _generator(64, 32), FP32),
    "generator_amp": Step(lambda: _generator(96, 32), AMP_FP16),
    "detector": Step(lambda: _detector(2, (768, 1024)), FP32),
    "detector_amp": Step(lambda: _detector(4, (640, 640), 256), AMP),
    "detector_infer": Step(lambda: _detector(2, (800, 1216)), INFER),
    "denoiser_fp32": Step(lambda: _denoiser(8, (128, 256, 384, 512), 64), FP32),
    "denoiser_infer": Step(lambda: _denoiser(4, (128, 256, 512), 96), INFER),
    "inverted_amp": Step(unseen.inverted_blocks, AMP),
    "separable_fp32": Step(unseen.separable, FP32),
    "masked_fp32": Step(lambda: _masked(64, 720, 6), FP32),
    "masked_amp": Step(lambda: _masked(128, 576, 10), AMP),
    "conformer_fp32": Step(sequences.conformer, FP32),
    "translation_amp": Step(sequences.translation, AMP),
    "decoder_fp32": Step(lambda: _decoder(4, 512, 768, 8, 12), {"optimizer": "adamw"}),
    "decoder_tf32": Step(lambda: _decoder(2, 1024, 640, 8, 10), {"precision": "tf32"}),
    "tagger_amp": Step(sequences.tagger, AMP),
}
CONFIGURATIONS = {name: step.settings for name, step in STEPS.items()}
globals().update({name: step.make for name, step in STEPS.items()})
