"""The models of the loops."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Block(nn.Module):
    """A transformer's block, with attention in one kernel or written out."""

    def __init__(self, width: int, heads: int, *, fused: bool = True) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for each in self.qkv(x).chunk(3, dim=2)
        )
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
            mixed = torch.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.before(x))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Language(nn.Module):
    """A small GPT."""

    def __init__(
        self, width: int = 768, layers: int = 12, heads: int = 12, words: int = 50304, *, fused: bool = True
    ) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(4096, width)
        self.blocks = nn.ModuleList(Block(width, heads, fused=fused) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.last(x))

    def loss(self, tokens: Tensor) -> Tensor:
        scores = self(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())


def perceptron(width: int = 4096, layers: int = 8, classes: int = 1000) -> nn.Module:
    """A multi-layer perceptron."""
    inner = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*inner, nn.Linear(width, classes))


def tokens(batch: int, length: int, words: int = 50304, count: int = 4) -> list[Tensor]:
    """Batches of random words on the GPU."""
    return [torch.randint(words, (batch, length + 1), device="cuda") for _ in range(count)]
