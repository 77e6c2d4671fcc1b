"""ResNet-50 and GPT-2 small, as their papers have them, without torchvision or transformers."""

from typing import Any, List

import torch
from torch import nn
from torch.nn import functional

# Multiplications and additions of one image of 224×224, forward; and those of the first layer, whose input wants no gradient.
RESNET_FORWARD_FLOPS, RESNET_STEM_FLOPS = 8_178_368_512, 236_027_904


class Bottleneck(nn.Module):  # type: ignore[misc]  # torch is not here when types are checked
    """Three convolutions and a way around them. The stride is in the second one, as everybody has it by now."""

    def __init__(self, given: int, width: int, stride: int) -> None:
        super().__init__()
        made = 4 * width
        self.body = nn.Sequential(
            *convolution(given, width, 1),
            nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            *convolution(width, made, 1),
        )
        around = stride != 1 or given != made
        self.around = nn.Sequential(*convolution(given, made, 1, stride)) if around else nn.Identity()

    def forward(self, x: Any) -> Any:
        """The sum of both ways."""
        return functional.relu(self.body(x) + self.around(x), inplace=True)


def convolution(given: int, made: int, size: int, stride: int = 1) -> List[nn.Module]:
    """With its normalisation."""
    return [nn.Conv2d(given, made, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(made)]


def resnet50() -> nn.Module:
    """25,557,032 parameters."""
    parts: List[nn.Module] = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    given = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(blocks):
            parts.append(Bottleneck(given, width, stride if number == 0 else 1))
            given = 4 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000))


def resnet50_training_flops(batch: int) -> float:
    """The backward pass is two products for each of the forward pass."""
    return float(batch * (3 * RESNET_FORWARD_FLOPS - RESNET_STEM_FLOPS))


WIDTH, HEADS, LAYERS, VOCABULARY, LONGEST = 768, 12, 12, 50257, 1024
# Rows of the embedding, up to a multiple of 64: tensor cores take no odd numbers, and everybody who trains it adds these.
ROWS = 50304


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then two linear layers; normalised before each."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_linear = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.projected = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        """Both, each added to what came in."""
        batch, length, _ = x.shape
        mixed = self.mixed(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projected(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.narrow(functional.gelu(self.wide(self.before_linear(x)), approximate="tanh"))


class GPT2(nn.Module):  # type: ignore[misc]
    """124,439,808 parameters and 47 unused rows; the head is the embedding. Without dropout, as it is trained by now."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(ROWS, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.last = nn.LayerNorm(WIDTH)
        for embedding in (self.tokens, self.places):  # torch's own is fifty times as wide: the head would shout
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: Any) -> Any:
        """What may come next, for each token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.last(self.blocks(self.tokens(tokens) + self.places(places)))
        return functional.linear(x, self.tokens.weight)


def gpt2_forward_flops(batch: int, length: int) -> float:
    """Products alone; attention as if every token saw every other, as is the custom (a causal kernel needs half of it)."""
    linear = LAYERS * 12 * WIDTH * WIDTH + ROWS * WIDTH
    return float(2 * batch * length * (linear + LAYERS * 2 * length * WIDTH))
