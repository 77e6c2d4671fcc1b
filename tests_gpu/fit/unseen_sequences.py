"""The other half of unseen.py: attention, recurrence, tables, and what mixes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Made = tuple[Any, ...]


class ConformerBlock(nn.Module):
    """Half a feed-forward layer, attention, convolution, the other half."""

    def __init__(self, width: int, heads: int, kernel: int = 31) -> None:
        super().__init__()
        self.before, self.after = (self._feed(width) for _ in range(2))
        self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, heads, 0.1, batch_first=True)
        self.norm_convolution, self.wide = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.deep = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm, self.narrow = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)
        self.last = nn.LayerNorm(width)

    @staticmethod
    def _feed(width: int) -> nn.Module:
        return nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        x = x + 0.5 * self.before(x)
        inner = self.norm(x)
        x = x + self.attention(inner, inner, inner, key_padding_mask=padded, need_weights=False)[0]
        inner = self.norm_convolution(x).masked_fill(padded[..., None], 0.0).transpose(1, 2)
        inner = self.narrow(functional.silu(self.batch_norm(self.deep(functional.glu(self.wide(inner), 1)))))
        x = x + inner.transpose(1, 2)
        return self.last(x + 0.5 * self.after(x))


class Conformer(nn.Module):
    """Speech to letters: lengths decide the mask."""

    def __init__(self, width: int = 256, depth: int = 8) -> None:
        super().__init__()
        self.shrink = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU())
        self.enter = nn.Linear(width * 19, width)
        self.blocks = nn.ModuleList([ConformerBlock(width, 4) for _ in range(depth)])
        self.letters = nn.Linear(width, 30)

    def forward(self, sound: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.shrink(sound[:, None])
        x = self.enter(x.transpose(1, 2).flatten(2))
        lengths = ((lengths - 1) // 2 - 1) // 2
        padded = torch.arange(int(lengths.max()), device=x.device)[None] >= lengths[:, None]
        x = x[:, : padded.shape[1]]
        for block in self.blocks:
            x = block(x, padded)
        return self.letters(x).log_softmax(-1)


def conformer(batch: int = 16) -> Made:
    lengths = torch.linspace(400, 1000, batch).long()
    return Conformer(), (torch.randn(batch, 1000, 80), lengths), lambda out: -out[..., 0].mean()


class LowRank(nn.Module):
    """A linear layer that stays as it is, and two small ones that learn."""

    def __init__(self, base: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        self.drop = nn.Dropout(0.05)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2.0 * self.b(self.a(self.drop(x)))


def _rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, -1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


class DecoderLayer(nn.Module):
    """Rotary positions, root mean square, gated feed-forward."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.first, self.second = heads, nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        inner = self.first(x)
        heads = [of(inner).unflatten(-1, (self.heads, -1)).transpose(1, 2) for of in (self.query, self.key, self.value)]
        query, key = (_rotated(each, angles) for each in heads[:2])
        seen = functional.scaled_dot_product_attention(query, key, heads[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        inner = self.second(x)
        return x + self.down(functional.silu(self.gate(inner)) * self.up(inner))


class Decoder(nn.Module):
    """A language model; its layers may be computed again in the backward pass."""

    def __init__(self, width: int, depth: int, heads: int, hidden: int, words: int, again: bool = False) -> None:
        super().__init__()
        self.again, self.embedding = again, nn.Embedding(words, width)
        self.layers = nn.ModuleList([DecoderLayer(width, heads, hidden) for _ in range(depth)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        turns = 10000.0 ** (-torch.arange(0, width // heads, 2).float() / (width // heads))
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * self.turns[None]
        for layer in self.layers:
            x = checkpoint(layer, x, angles, use_reentrant=False) if self.again else layer(x, angles)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


def low_rank(batch: int = 4, seq: int = 768) -> Made:
    model = Decoder(1280, 10, 20, 3456, 24000).requires_grad_(False)
    for layer in model.layers:
        for name in ("query", "value", "up", "down"):
            setattr(layer, name, LowRank(getattr(layer, name)))
    return model, (torch.randint(0, 24000, (batch, seq)),)


def rotary_decoder(batch: int = 6, seq: int = 1536) -> Made:
    return Decoder(896, 14, 14, 2432, 40000, again=True), (torch.randint(0, 40000, (batch, seq)),)


class Translation(nn.Module):
    """torch's own encoder and decoder, with masks of padding."""

    def __init__(self, words: int = 16000, width: int = 512) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.inner = nn.Transformer(width, 8, 5, 5, 2048, 0.1, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        hidden = self.inner(
            self.source(source),
            self.target(target),
            tgt_mask=mask,
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
            tgt_is_causal=True,
        )
        return functional.cross_entropy(self.head(hidden).flatten(0, 1), target.flatten(), ignore_index=0)


def translation(batch: int = 20) -> Made:
    source, target = torch.randint(1, 16000, (batch, 180)), torch.randint(1, 16000, (batch, 160))
    source[:, 150:] = 0
    return Translation(), (source, target)


class Interactions(nn.Module):
    """Many tables, products of their rows, a click."""

    def __init__(self, rows: int = 250_000, tables: int = 16, width: int = 48) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
        self.dense = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 512), nn.ReLU(), nn.Linear(512, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, numbers: torch.Tensor, ids: torch.Tensor, clicks: torch.Tensor) -> torch.Tensor:
        dense = self.dense(numbers)
        rows = torch.stack([dense, *(table(ids[:, at]) for at, table in enumerate(self.tables))], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        answer = self.top(torch.cat([dense, products], 1)).squeeze(1)
        return functional.binary_cross_entropy_with_logits(answer, clicks)


def interactions(batch: int = 16384) -> Made:
    ids = torch.randint(0, 250_000, (batch, 16))
    return Interactions(), (torch.randn(batch, 13), ids, torch.rand(batch))


class Tagger(nn.Module):
    """Letters by convolution, words by both directions of an LSTM, tags by a chain."""

    def __init__(self, tags: int = 24) -> None:
        super().__init__()
        self.letters, self.words = nn.Embedding(100, 48), nn.Embedding(30000, 256)
        self.within = nn.Conv1d(48, 96, 3, padding=1)
        self.along = nn.LSTM(352, 320, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.head, self.moves = nn.Linear(640, tags), nn.Parameter(torch.zeros(tags, tags))

    def forward(self, words: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
        spelled = self.within(self.letters(letters).flatten(0, 1).transpose(1, 2)).amax(2)
        inner = torch.cat([self.words(words), spelled.unflatten(0, words.shape)], 2)
        scores = self.head(self.along(inner)[0])
        total = scores[:, 0]
        for place in range(1, scores.shape[1]):
            total = torch.logsumexp(total[:, :, None] + self.moves, 1) + scores[:, place]
        return (torch.logsumexp(total, 1) - scores[..., 0].sum(1)).mean()


def tagger(batch: int = 64) -> Made:
    return Tagger(), (torch.randint(0, 30000, (batch, 60)), torch.randint(0, 100, (batch, 60, 14)))


class TimedBlock(nn.Module):
    """Two convolutions that know the time, and attention at low resolution."""

    def __init__(self, inside: int, outside: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(16, inside), nn.SiLU(), nn.Conv2d(inside, outside, 3, padding=1))
        self.time = nn.Linear(512, outside)
        self.second = nn.Sequential(nn.GroupNorm(16, outside), nn.SiLU(), nn.Conv2d(outside, outside, 3, padding=1))
        self.around = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()
        self.norm = nn.GroupNorm(16, outside) if attends else None
        if attends:
            self.qkv, self.out = nn.Conv2d(outside, 3 * outside, 1), nn.Conv2d(outside, outside, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        inner = self.second(self.first(x) + self.time(time)[:, :, None, None])
        x = self.around(x) + inner
        if self.norm is None:
            return x
        qkv = self.qkv(self.norm(x)).flatten(2).unflatten(1, (3, -1, 64)).transpose(-1, -2)
        seen = functional.scaled_dot_product_attention(qkv[:, 0], qkv[:, 1], qkv[:, 2])
        return x + self.out(seen.transpose(-1, -2).flatten(1, 2).unflatten(2, x.shape[2:]))


class Denoiser(nn.Module):
    """What a diffusion model trains: a U-Net on latents."""

    def __init__(self, widths: tuple[int, ...] = (128, 256, 384, 512)) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 512))
        self.enter = nn.Conv2d(4, widths[0], 3, padding=1)
        low = [level >= 2 for level in range(len(widths))]
        inside = (widths[0], *widths[:-1])
        self.down = nn.ModuleList([TimedBlock(a, b, at) for a, b, at in zip(inside, widths, low, strict=True)])
        self.shrink = nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1) for width in widths[:-1]])
        outside = (*widths[-2::-1], widths[0])
        self.up = nn.ModuleList(
            [TimedBlock(2 * a, b, at) for a, b, at in zip(widths[::-1], outside, low[::-1], strict=True)]
        )
        self.leave = nn.Sequential(nn.GroupNorm(16, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 4, 3, padding=1))

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        angles = steps[:, None] * torch.exp(-torch.arange(64, device=x.device) / 8)
        time, noise = self.time(torch.cat([angles.sin(), angles.cos()], 1)), torch.randn_like(x)
        inner, kept = self.enter(x + noise), []
        for number, block in enumerate(self.down):
            inner = block(inner, time)
            kept.append(inner)
            if number < len(self.shrink):
                inner = self.shrink[number](inner)
        for number, block in enumerate(self.up):
            inner = block(torch.cat([inner, kept.pop()], 1), time)
            if number < len(self.shrink):
                inner = functional.interpolate(inner, scale_factor=2.0, mode="nearest")
        return functional.mse_loss(self.leave(inner), noise)


def denoiser(batch: int = 12) -> Made:
    return Denoiser(), (torch.randn(batch, 4, 64, 64), torch.rand(batch))


class MaskedPatches(nn.Module):
    """A quarter of the patches is seen, the rest is guessed."""

    def __init__(self, width: int = 576, depth: int = 10) -> None:
        super().__init__()
        self.patch, self.place = nn.Linear(768, width), nn.Parameter(torch.zeros(1, 196, width))
        layer = nn.TransformerEncoderLayer(width, 9, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.narrow, self.hidden = nn.Linear(width, 256), nn.Parameter(torch.zeros(1, 1, 256))
        small = nn.TransformerEncoderLayer(256, 8, 1024, 0.0, "gelu", batch_first=True, norm_first=True)
        self.decoder = nn.TransformerEncoder(small, 3, enable_nested_tensor=False)
        self.pixels = nn.Linear(256, 768)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = functional.unfold(images, 16, stride=16).transpose(1, 2)
        tokens = self.patch(patches) + self.place
        order = torch.rand(tokens.shape[:2], device=tokens.device).argsort(1)
        kept = order[:, :49, None]
        seen = self.narrow(self.encoder(tokens.gather(1, kept.expand(-1, -1, tokens.shape[2]))))
        every = torch.cat([seen, self.hidden.expand(len(images), 147, -1)], 1)
        every = every.gather(1, order.argsort(1)[..., None].expand(-1, -1, 256))
        return functional.mse_loss(self.pixels(self.decoder(every)), patches)


def masked_patches(batch: int = 96) -> Made:
    return MaskedPatches(), (torch.randn(batch, 3, 224, 224),)


class Neighbours(nn.Module):
    """Points of a cloud and their nearest ones, layer by layer."""

    def __init__(self, nearest: int = 20) -> None:
        super().__init__()
        self.nearest = nearest
        sizes = (64, 64, 128, 256)
        self.edges = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(2 * a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
                for a, b in zip((3, *sizes[:-1]), sizes, strict=True)
            ]
        )
        self.join = nn.Sequential(nn.Conv1d(512, 1024, 1, bias=False), nn.BatchNorm1d(1024), nn.LeakyReLU(0.2))
        self.head = nn.Linear(1024, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = []
        for edge in self.edges:
            x = edge(self._around(x)).amax(3)
            found.append(x)
        return self.head(self.join(torch.cat(found, 1)).amax(2))

    def _around(self, x: torch.Tensor) -> torch.Tensor:
        squares = (x**2).sum(1)
        far = squares[:, :, None] + squares[:, None] - 2 * x.transpose(1, 2) @ x
        near = far.topk(self.nearest, largest=False).indices.flatten(1)
        beside = x.gather(2, near[:, None].expand(-1, x.shape[1], -1)).unflatten(2, (-1, self.nearest))
        here = x[..., None].expand_as(beside)
        return torch.cat([beside - here, here], 1)


def neighbours(batch: int = 12) -> Made:
    labels = torch.randint(0, 40, (batch,))
    return (
        Neighbours(),
        (torch.randn(batch, 3, 1024),),
        lambda out: functional.cross_entropy(out, labels.to(out.device)),
    )
