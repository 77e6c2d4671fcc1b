"""Parameters and FLOPs of the models in `fit_models.py`, computed from the sizes in their papers.

FLOPs are those of products, convolutions and attention; a multiply-add counts as 2, attention as the full square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["BY_HAND", "Count"]


class Count(NamedTuple):
    """Numbers that are learned, and floating-point operations of one forward pass of one sample."""

    parameters: int
    flops: int


class _Sum:
    def __init__(self) -> None:
        self.parameters = self.products = 0

    def product(self, inputs: int, outputs: int, times: int, *, bias: bool = True) -> None:
        self.parameters += inputs * outputs + (outputs if bias else 0)
        self.products += inputs * outputs * times

    def convolution(self, inputs: int, outputs: int, kernel: int, side: int, *, bias: bool = False) -> None:
        self.product(inputs * kernel**2, outputs, side**2, bias=bias)
        self.parameters += 0 if bias else 2 * outputs  # without a bias of its own a normalisation follows

    def attention(self, queries: int, keys: int, width: int) -> None:
        self.products += 2 * queries * keys * width

    @property
    def count(self) -> Count:
        return Count(self.parameters, 2 * self.products)


def _resnet(blocks: tuple[int, ...], widening: int) -> Count:
    total = _Sum()
    total.convolution(3, 64, 7, 112)
    inputs = 64
    for stage, number in enumerate(blocks):
        middle, side = 64 * 2**stage, 56 // 2**stage
        outputs = middle * widening
        for block in range(number):
            before = side * (2 if stage and not block else 1)
            if widening > 1:
                total.convolution(inputs, middle, 1, before)
                total.convolution(middle, middle, 3, side)
                total.convolution(middle, outputs, 1, side)
            else:
                total.convolution(inputs, outputs, 3, side)
                total.convolution(outputs, outputs, 3, side)
            if not block and inputs != outputs:
                total.convolution(inputs, outputs, 1, side)
            inputs = outputs
    total.product(inputs, 1000, 1)
    return total.count


def _vgg16() -> Count:
    total = _Sum()
    inputs = 3
    for side, outputs, times in ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3)):
        for _ in range(times):
            total.convolution(inputs, outputs, 3, side, bias=True)
            inputs = outputs
    for before, after in ((512 * 49, 4096), (4096, 4096), (4096, 1000)):
        total.product(before, after, 1)
    return total.count


def _blocks(total: _Sum, layers: int, length: int, width: int, inner: int) -> None:
    """Encoder or decoder blocks with biases and two normalisations each."""
    for _ in range(layers):
        for _ in range(4):
            total.product(width, width, length)
        total.attention(length, length, width)
        total.product(width, inner, length)
        total.product(inner, width, length)
        total.parameters += 4 * width


def _vit() -> Count:
    total, length = _Sum(), 14**2 + 1
    total.convolution(3, 768, 16, 14, bias=True)
    total.parameters += 768 + length * 768 + 2 * 768  # the class, positions, the last normalisation
    _blocks(total, 12, length, 768, 3072)
    total.product(768, 1000, 1)
    return total.count


def _gpt2() -> Count:
    total, length, vocabulary = _Sum(), 1024, 50257
    total.parameters += (vocabulary + 1024) * 768 + 2 * 768  # the head has the embedding's weights
    _blocks(total, 12, length, 768, 3072)
    total.products += length * 768 * vocabulary
    return total.count


def _bert() -> Count:
    total, length = _Sum(), 128
    total.parameters += (30522 + 512 + 2) * 768 + 2 * 768
    _blocks(total, 12, length, 768, 3072)
    total.product(768, 768, 1)  # the pooler
    total.product(768, 2, 1)
    return total.count


def _llama() -> Count:
    total, length, width, shared, inner, vocabulary = _Sum(), 1024, 1024, 256, 2816, 32000
    total.parameters += vocabulary * width + width
    for _ in range(12):
        for outputs in (width, shared, shared, width):
            total.product(width, outputs, length, bias=False)
        total.attention(length, length, width)
        for before, after in ((width, inner), (width, inner), (inner, width)):
            total.product(before, after, length, bias=False)
        total.parameters += 2 * width
    total.product(width, vocabulary, length, bias=False)
    return total.count


def _lstm() -> Count:
    total, length = _Sum(), 64
    total.parameters += 10000 * 512
    for inputs in (512, 1024):
        total.product(inputs, 4 * 1024, length)
        total.product(1024, 4 * 1024, length)
    total.product(1024, 10000, length)
    return total.count


BY_HAND: dict[str, tuple[str, Callable[[], Count]]] = {
    "resnet18": ("ResNet-18, 224²", lambda: _resnet((2, 2, 2, 2), 1)),
    "resnet50": ("ResNet-50, 224²", lambda: _resnet((3, 4, 6, 3), 4)),
    "vgg16": ("VGG-16, 224²", _vgg16),
    "vit": ("ViT-B/16, 224²", _vit),
    "gpt2": ("GPT-2 small, 1024 tokens", _gpt2),
    "bert": ("BERT-base, 128 tokens", _bert),
    "llama": ("Llama-like, 1024 tokens", _llama),
    "lstm": ("LSTM of 2 layers, 64 tokens", _lstm),
}
