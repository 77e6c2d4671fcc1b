"""ResNet-50 and GPT-2 small as in their papers, without torchvision or transformers."""

from typing import Any, List

import torch
from torch import nn
from torch.nn import functional

# Operations for one image of 224×224, forward; and those of the first layer, whose input needs no gradient.
RESNET_FORWARD_FLOPS, RESNET_STEM_FLOPS = 8_178_368_512, 236_027_904


class Bottleneck(nn.Module):  # type: ignore[misc]  # torch is not here when types are checked
    """Three convolutions with a shortcut. The stride is in the second one, as is usual today."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            *convolution(inputs, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, outputs, 1),
        )
        projection = stride != 1 or inputs != outputs
        self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride)) if projection else nn.Identity()

    def forward(self, x: Any) -> Any:
        """Return the sum of both paths."""
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> List[nn.Module]:
    """Return a convolution with its batch normalisation."""
    return [nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(outputs)]


def resnet50() -> nn.Module:
    """Return a ResNet-50 with 25,557,032 parameters."""
    parts: List[nn.Module] = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            parts.append(Bottleneck(inputs, width, stride if number == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def resnet50_training_flops(batch: int) -> float:
    """Return the operations of a step: the backward pass has two products for each of the forward pass."""
    return float(batch * (3 * RESNET_FORWARD_FLOPS - RESNET_STEM_FLOPS))


WIDTH, HEADS, LAYERS, VOCABULARY, LONGEST = 768, 12, 12, 50257, 1024
# Rows of the embedding, padded to a multiple of 64 for tensor cores, as is usual in training.
ROWS = 50304


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then two linear layers, each after a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_linear = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.projected = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        """Add both parts to the input."""
        batch, length, _ = x.shape
        mixed = self.mixed(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projected(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(functional.gelu(self.wide(self.before_linear(x)), approximate="tanh"))


class GPT2(nn.Module):  # type: ignore[misc]
    """GPT-2 small: 124,439,808 parameters and 47 unused rows. The head is the embedding. No dropout, as is usual today."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(ROWS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.last = nn.LayerNorm(WIDTH)
        for embedding in (
            self.tokens,
            self.positions,
        ):  # torch's default is fifty times as large, too much for the head
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        """Return the logits for each token."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.last(self.blocks(self.tokens(tokens) + self.positions(positions)))
        return functional.linear(x, self.tokens.weight)


def gpt2_forward_flops(batch: int, length: int) -> float:
    """Return the operations of the products; full attention, as is usual (a causal kernel needs half of it)."""
    linear = LAYERS * 12 * WIDTH * WIDTH + ROWS * WIDTH
    return float(2 * batch * length * (linear + LAYERS * 2 * length * WIDTH))
