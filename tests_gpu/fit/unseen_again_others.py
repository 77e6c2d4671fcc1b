"""The other half of unseen_again.py: attention of several kinds, recurrence, tables, graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[Any, ...]


def _heads(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


class GroupedLayer(nn.Module):
    """Several heads of queries share keys and values."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.shared, each = heads, shared, width // heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, (heads + 2 * shared) * each, bias=False)
        self.out, self.both = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        each = x.shape[-1] // self.heads
        sizes = [self.heads * each, self.shared * each, self.shared * each]
        query, key, value = self.qkv(self.first(x)).split(sizes, -1)
        repeated = self.heads // self.shared
        key, value = (_heads(part, self.shared).repeat_interleave(repeated, 1) for part in (key, value))
        seen = functional.scaled_dot_product_attention(_heads(query, self.heads), key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        gate, up = self.both(self.second(x)).chunk(2, -1)
        return x + self.down(functional.silu(gate) * up)


class GroupedDecoder(nn.Module):
    """A small language model with tied embeddings."""

    def __init__(self, words: int = 32000, width: int = 768, depth: int = 12) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList([GroupedLayer(width, 12, 4, 2048) for _ in range(depth)])
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def grouped_decoder(batch: int = 6, seq: int = 1024) -> Made:
    return GroupedDecoder(), (torch.randint(0, 32000, (batch, seq)),)


class Recognizer(nn.Module):
    """Speech to words: convolutions that halve the time, then an encoder and a decoder."""

    def __init__(self, width: int = 640, words: int = 20000) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(80, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        layer = nn.TransformerEncoderLayer(width, 10, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 8, nn.LayerNorm(width), enable_nested_tensor=False)
        after = nn.TransformerDecoderLayer(width, 10, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoder(after, 8, nn.LayerNorm(width))
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(1500, width))

    def forward(self, spectra: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        sound = functional.gelu(self.second(functional.gelu(self.first(spectra)))).transpose(1, 2)
        known = self.encoder(sound + self.places[: sound.shape[1]])
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], ids.device, known.dtype)
        return self.decoder(self.words(ids), known, tgt_mask=mask) @ self.words.weight.t()


def recognizer(batch: int = 8) -> Made:
    return Recognizer(), (torch.randn(batch, 80, 2000), torch.randint(0, 20000, (batch, 96)))


class LatentQueries(nn.Module):
    """A few learnt vectors look at many bytes, and then at each other."""

    def __init__(self, width: int = 512, latents: int = 256) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(262, width), nn.Parameter(torch.zeros(2048, width))
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.looks = nn.ModuleList([nn.MultiheadAttention(width, 8, 0.1, batch_first=True) for _ in range(2)])
        layer = nn.TransformerEncoderLayer(width, 8, 2 * width, 0.1, batch_first=True)
        self.inner = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 20)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        known = self.norm(self.bytes(ids) + self.places)
        x = self.latents.expand(ids.shape[0], -1, -1)
        for look in self.looks:
            x = x + look(x, known, known, need_weights=False)[0]
            x = self.inner(x)
        return self.head(x.mean(1))


def latent_queries(batch: int = 24) -> Made:
    labels = torch.randint(0, 20, (batch,))
    return (
        LatentQueries(),
        (torch.randint(0, 262, (batch, 2048)),),
        lambda out: functional.cross_entropy(out, labels.to(out.device)),
    )


class ClickCrosses(nn.Module):
    """One shared table, crossed features beside a deep part."""

    def __init__(self, rows: int = 2_000_000, fields: int = 26, width: int = 24) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, width)
        size = fields * width + 13
        self.crosses = nn.ModuleList([nn.Linear(size, size) for _ in range(3)])
        self.deep = nn.Sequential(
            *(nn.Linear(size, 768), nn.ReLU(), nn.BatchNorm1d(768), nn.Linear(768, 384), nn.ReLU())
        )
        self.last = nn.Linear(size + 384, 1)

    def forward(self, ids: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        first = torch.cat([self.table(ids).flatten(1), numbers], 1)
        x = first
        for cross in self.crosses:
            x = first * cross(x) + x
        return self.last(torch.cat([x, self.deep(first)], 1)).squeeze(1)


def click_crosses(batch: int = 12288) -> Made:
    clicks = torch.rand(batch).round()
    return (
        ClickCrosses(),
        (torch.randint(0, 2_000_000, (batch, 26)), torch.randn(batch, 13)),
        lambda out: functional.binary_cross_entropy_with_logits(out, clicks.to(out.device)),
    )


class LinearLayer(nn.Module):
    """Attention whose cost grows with the length alone: sums over all keys."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm, self.qkv = heads, nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU("tanh"), nn.Linear(3 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = (_heads(part, self.heads) for part in self.qkv(self.norm(x)).chunk(3, -1))
        query, key = functional.elu(query) + 1, functional.elu(key) + 1
        sums = torch.einsum("bhnd,bhne->bhde", key, value)
        share = 1 / (torch.einsum("bhnd,bhd->bhn", query, key.sum(2)) + 1e-6)
        seen = torch.einsum("bhnd,bhde,bhn->bhne", query, sums, share)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.feed(x)


def linear_attention(batch: int = 4) -> Made:
    labels = torch.randint(0, 10, (batch,))
    layers = [nn.Embedding(600, 384), *[LinearLayer(384, 6) for _ in range(8)]]
    model = nn.Sequential(*layers, nn.LayerNorm(384), nn.Linear(384, 10))
    return (
        model,
        (torch.randint(0, 600, (batch, 4096)),),
        lambda out: functional.cross_entropy(out.mean(1).float(), labels.to(out.device)),
    )


class CloudGraph(nn.Module):
    """Messages along the edges of a graph, summed where they arrive."""

    def __init__(self, width: int = 128, depth: int = 5) -> None:
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.send = nn.ModuleList(
            [nn.Sequential(nn.Linear(2 * width + 4, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(depth)]
        )
        self.take = nn.ModuleList([nn.GRUCell(width, width) for _ in range(depth)])
        self.last = nn.Linear(width, 1)

    def forward(self, nodes: torch.Tensor, start: torch.Tensor, end: torch.Tensor, about: torch.Tensor) -> torch.Tensor:
        x = self.enter(nodes)
        for send, take in zip(self.send, self.take, strict=True):
            messages = send(torch.cat([x[start], x[end], about], 1))
            x = take(torch.zeros_like(x).index_add(0, end, messages), x)
        return self.last(x).square().mean()


def cloud_graph(batch: int = 20000) -> Made:
    ends = torch.randint(0, batch, (2, 8 * batch))
    return CloudGraph(), (torch.randn(batch, 16), ends[0], ends[1], torch.randn(8 * batch, 4))


class Pairs(nn.Module):
    """Pictures and sentences that belong together are near each other."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.patches, self.words = nn.Conv2d(3, width, 16, 16), nn.Embedding(30000, width)
        self.places, self.order = nn.Parameter(torch.zeros(197, width)), nn.Parameter(torch.zeros(64, width))
        self.start = nn.Parameter(torch.zeros(1, 1, width))
        pictures, sentences = (
            nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in "ab"
        )
        self.pictures = nn.TransformerEncoder(pictures, 8, enable_nested_tensor=False)
        self.sentences = nn.TransformerEncoder(sentences, 6, enable_nested_tensor=False)
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, pictures: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        x = torch.cat([self.start.expand(x.shape[0], -1, -1), x], 1) + self.places
        seen = functional.normalize(self.pictures(x)[:, 0], dim=-1)
        read = functional.normalize(self.sentences(self.words(ids) + self.order).mean(1), dim=-1)
        logits = self.scale.exp() * seen @ read.t()
        truth = torch.arange(len(logits), device=logits.device)
        return (functional.cross_entropy(logits, truth) + functional.cross_entropy(logits.t(), truth)) / 2


def pairs(batch: int = 48) -> Made:
    return Pairs(), (torch.randn(batch, 3, 224, 224), torch.randint(0, 30000, (batch, 64)))


class Summarizer(nn.Module):
    """Reads with a GRU in both directions, writes with one that looks back."""

    def __init__(self, words: int = 24000, width: int = 384) -> None:
        super().__init__()
        self.words, self.reads = (
            nn.Embedding(words, width),
            nn.GRU(width, width, 2, batch_first=True, bidirectional=True),
        )
        self.writes = nn.GRU(width, 2 * width, batch_first=True)
        self.look, self.join = nn.Linear(2 * width, 2 * width), nn.Linear(4 * width, width)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        known = self.reads(self.words(source))[0]
        made = self.writes(self.words(target[:, :-1]))[0]
        shares = torch.softmax(self.look(made) @ known.transpose(1, 2), -1)
        joined = torch.tanh(self.join(torch.cat([made, shares @ known], -1)))
        logits = joined @ self.words.weight.t()
        return functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


def summarizer(batch: int = 24) -> Made:
    return Summarizer(), (torch.randint(0, 24000, (batch, 300)), torch.randint(0, 24000, (batch, 61)))


class QueryDetector(nn.Module):
    """A hundred learnt queries find the objects of an image."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inside, outside in ((3, 64), (64, 128), (128, 256), (256, 384), (384, width)):
            layers += [nn.Conv2d(inside, outside, 3, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True)]
        self.body, self.places = nn.Sequential(*layers), nn.Parameter(torch.zeros(20 * 20, width))
        self.inner = nn.Transformer(width, 8, 4, 4, 1024, 0.1, batch_first=True)
        self.queries = nn.Parameter(torch.randn(100, width))
        self.classes, self.boxes = nn.Linear(width, 92), nn.Linear(width, 4)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        known = self.body(images).flatten(2).transpose(1, 2) + self.places
        found = self.inner(known, self.queries.expand(images.shape[0], -1, -1))
        return self.classes(found), self.boxes(found).sigmoid()


def query_detector(batch: int = 16) -> Made:
    def loss(out: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        classes, boxes = out
        return -classes.float().log_softmax(-1)[..., -1].mean() + boxes.float().mean()

    return QueryDetector(), (torch.randn(batch, 3, 640, 640),), loss


class TimedLayer(nn.Module):
    """A transformer's layer whose norms are scaled and shifted by the time."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = (nn.LayerNorm(width, elementwise_affine=False, eps=1e-6) for _ in "ab")
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.timed = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        a, b, c, d, e, f = self.timed(time)[:, None].chunk(6, -1)
        query, key, value = (_heads(part, self.heads) for part in self.qkv(self.first(x) * (1 + a) + b).chunk(3, -1))
        x = x + c * self.out(functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return x + f * self.feed(self.second(x) * (1 + d) + e)


class DiffusionTransformer(nn.Module):
    """Noise in, noise out, in patches."""

    def __init__(self, width: int = 768, depth: int = 10) -> None:
        super().__init__()
        self.enter, self.places = nn.Linear(16, width), nn.Parameter(torch.zeros(256, width))
        self.time, self.kinds = nn.Sequential(nn.Linear(256, width), nn.SiLU()), nn.Embedding(1001, width)
        self.layers = nn.ModuleList([TimedLayer(width, 12) for _ in range(depth)])
        self.norm, self.leave = nn.LayerNorm(width), nn.Linear(width, 16)

    def forward(self, patches: torch.Tensor, time: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        x, about = self.enter(patches) + self.places, self.time(time) + self.kinds(kinds)
        for layer in self.layers:
            x = layer(x, about)
        return functional.mse_loss(self.leave(self.norm(x)), patches)


def diffusion_transformer(batch: int = 32) -> Made:
    given = torch.randn(batch, 256, 16), torch.randn(batch, 256), torch.randint(0, 1001, (batch,))
    return DiffusionTransformer(), given
