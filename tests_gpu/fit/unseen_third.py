"""A third twenty of steps, chosen and committed on 2026-11-19 before anything of them was predicted; ten are convolutional.

Who chose them had not read how memory is predicted. `ownlab fit unseen_third.py:NAME` asks for one; CONFIGURATIONS has
the settings of each. Only torch is needed.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from unseen_third_images import atrous, clips, optical_flow, stereo, style_generator, super_resolution
from unseen_third_others import chunked_scan, experts, flow_operator, molecules, momentum_pair, radiance

__all__ = [
    "CONFIGURATIONS",
    "actors",
    "atrous",
    "chunked_scan",
    "clips",
    "dense_blocks",
    "experts",
    "flow_operator",
    "hashed_words",
    "molecules",
    "momentum_pair",
    "optical_flow",
    "radiance",
    "rain",
    "sensors",
    "separation",
    "spline_flow",
    "stereo",
    "style_generator",
    "super_resolution",
    "word_chain",
]

Made = tuple[Any, ...]

# Settings as a Request has them. The first ten are convolutional.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "dense_blocks": {"precision": "amp-bf16", "optimizer": "sgd:momentum=0.9"},
    "atrous": {"precision": "amp-fp16", "channels_last": True, "optimizer": "sgd:momentum=0.9"},
    "super_resolution": {"train": False, "precision": "fp16", "channels_last": True},
    "optical_flow": {"optimizer": "adamw"},
    "style_generator": {"train": False, "precision": "tf32"},
    "stereo": {"precision": "tf32", "optimizer": "adam"},
    "clips": {"train": False, "precision": "fp16"},
    "separation": {"optimizer": "adam"},
    "sensors": {"precision": "tf32", "optimizer": "rmsprop"},
    "rain": {"precision": "amp-bf16", "optimizer": "adam"},
    "word_chain": {"optimizer": "sgd"},
    "hashed_words": {"optimizer": "adagrad"},
    "experts": {"precision": "amp-bf16", "fused": True, "accumulate": 2},
    "molecules": {"optimizer": "adam"},
    "flow_operator": {"train": False, "precision": "tf32"},
    "chunked_scan": {"precision": "amp-bf16", "optimizer": "adamw"},
    "momentum_pair": {"precision": "amp-fp16", "optimizer": "sgd:momentum=0.9"},
    "actors": {"optimizer": "rmsprop"},
    "spline_flow": {"optimizer": "adam"},
    "radiance": {"train": False, "precision": "amp-fp16"},
}
CONVOLUTIONAL = 10


# -- classes of images, from layers that see all layers before


class DenseLayer(nn.Module):
    """A bottleneck whose features are put beside its input."""

    def __init__(self, inside: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inside), nn.Conv2d(inside, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        new = self.conv1(functional.relu(self.norm1(x), inplace=True))
        new = self.conv2(functional.relu(self.norm2(new), inplace=True))
        return torch.cat([x, new], 1)


def dense_blocks(batch: int = 24) -> Made:
    growth, width = 32, 64
    layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    for number, depth in enumerate((6, 12, 24, 16)):
        if number:
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.Conv2d(width, width // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2))
            width //= 2
        for _ in range(depth):
            layers.append(DenseLayer(width, growth))
            width += growth
    layers += [
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, 1000),
    ]
    target = torch.randint(0, 1000, (batch,))
    return (
        nn.Sequential(*layers),
        (torch.randn(batch, 3, 224, 224),),
        lambda out: functional.cross_entropy(out, target.to(out.device), label_smoothing=0.1),
    )


# -- voices from a mixture


class MaskBlock(nn.Module):
    """A dilated filter per channel between two pointwise convolutions."""

    def __init__(self, width: int, inner: int, dilation: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(width, inner, 1),
            nn.PReLU(),
            nn.GroupNorm(1, inner),
            nn.Conv1d(inner, inner, 3, padding=dilation, dilation=dilation, groups=inner),
            nn.PReLU(),
            nn.GroupNorm(1, inner),
        )
        self.stay, self.skip = nn.Conv1d(inner, width, 1), nn.Conv1d(inner, width, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner = self.body(x)
        return x + self.stay(inner), self.skip(inner)


class Separation(nn.Module):
    """A learned basis, a mask of it for each voice, and the basis back to sound."""

    def __init__(self, voices: int = 2, basis: int = 512, width: int = 128) -> None:
        super().__init__()
        self.voices = voices
        self.encode = nn.Conv1d(1, basis, 16, 8, bias=False)
        self.enter = nn.Sequential(nn.GroupNorm(1, basis), nn.Conv1d(basis, width, 1))
        self.blocks = nn.ModuleList([MaskBlock(width, 512, 2**power) for _ in range(3) for power in range(8)])
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(width, voices * basis, 1), nn.ReLU())
        self.decode = nn.ConvTranspose1d(basis, 1, 16, 8, bias=False)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        basis = functional.relu(self.encode(sound.unsqueeze(1)))
        x, total = self.enter(basis), 0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        voices = self.masks(total).unflatten(1, (self.voices, -1)) * basis.unsqueeze(1)
        return self.decode(voices.flatten(0, 1)).view(len(sound), self.voices, -1)


def separation(batch: int = 3) -> Made:
    truth = torch.randn(batch, 2, 32000)

    def ratio(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        found, wanted = found - found.mean(-1, keepdim=True), wanted - wanted.mean(-1, keepdim=True)
        wanted = (found * wanted).sum(-1, keepdim=True) / (wanted.square().sum(-1, keepdim=True) + 1e-8) * wanted
        return 10 * torch.log10(wanted.square().sum(-1) / ((found - wanted).square().sum(-1) + 1e-8) + 1e-8)

    def loss(out: torch.Tensor) -> torch.Tensor:
        wanted = truth.to(out.device)
        either = [
            torch.stack([ratio(out[:, i], wanted[:, j]) for i, j in enumerate(o)])
            for o in itertools.permutations((0, 1))
        ]
        return -torch.stack([each.mean(0) for each in either]).max(0).values.mean()

    return Separation(), (truth.sum(1),), loss


# -- diagnoses of a heart from its leads


class ManyKernels(nn.Module):
    """Long kernels of three sizes of a narrow input, and a pooled path."""

    def __init__(self, inside: int, width: int = 32) -> None:
        super().__init__()
        self.narrow = nn.Conv1d(inside, width, 1, bias=False)
        self.kernels = nn.ModuleList(
            [nn.Conv1d(width, width, size, padding="same", bias=False) for size in (39, 19, 9)]
        )
        self.pooled = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(inside, width, 1, bias=False))
        self.norm = nn.BatchNorm1d(4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrow = self.narrow(x)
        return functional.relu(self.norm(torch.cat([*(kernel(narrow) for kernel in self.kernels), self.pooled(x)], 1)))


class Sensors(nn.Module):
    """Nine such layers with a short way past every third."""

    def __init__(self, leads: int = 12, classes: int = 71, depth: int = 9) -> None:
        super().__init__()
        self.layers = nn.ModuleList([ManyKernels(128 if number else leads) for number in range(depth)])
        self.shorts = nn.ModuleList(
            [
                nn.Sequential(nn.Conv1d(128 if number else leads, 128, 1, bias=False), nn.BatchNorm1d(128))
                for number in range(depth // 3)
            ]
        )
        self.last = nn.Linear(256, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = x
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number % 3 == 2:
                x = before = functional.relu(x + self.shorts[number // 3](before))
        return self.last(torch.cat([x.mean(-1), x.amax(-1)], 1))


def sensors(batch: int = 48) -> Made:
    target = torch.randint(0, 2, (batch, 71)).float()
    return (
        Sensors(),
        (torch.randn(batch, 12, 2500),),
        lambda out: functional.binary_cross_entropy_with_logits(out, target.to(out.device)),
    )


# -- rain of the next hour


class RainCell(nn.Module):
    """A convolutional long short-term memory."""

    def __init__(self, inside: int, hidden: int) -> None:
        super().__init__()
        self.hidden, self.gates = hidden, nn.Conv2d(inside + hidden, 4 * hidden, 5, padding=2)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        h, c = state
        i, f, g, o = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Rain(nn.Module):
    """Past radar images are taken in, and the next are made from the last of each."""

    def __init__(self, ahead: int = 10, width: int = 48) -> None:
        super().__init__()
        self.ahead, self.width = ahead, width
        self.enter = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(16, width, 4, 2, 1))
        self.cells = nn.ModuleList([RainCell(width, width) for _ in range(3)])
        self.leave = nn.Sequential(
            nn.ConvTranspose2d(width, 16, 4, 2, 1), nn.GroupNorm(4, 16), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 1)
        )

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        batch, steps, _, high, wide = past.shape
        zero = past.new_zeros(batch, self.width, high // 2, wide // 2)
        states = [(zero, zero) for _ in self.cells]
        made: list[torch.Tensor] = []
        for step in range(steps + self.ahead):
            x = self.enter(past[:, step] if step < steps else made[-1])
            for number, cell in enumerate(self.cells):
                states[number] = cell(x, states[number])
                x = states[number][0]
            if step >= steps - 1:
                made.append(self.leave(x))
        return torch.stack(made[: self.ahead], 1)


def rain(batch: int = 6) -> Made:
    truth = torch.rand(batch, 10, 1, 128, 128)

    def loss(out: torch.Tensor) -> torch.Tensor:
        wanted = truth.to(out.device)
        error = out.float() - wanted
        return ((1 + 4 * (wanted > 0.5)) * (error.square() + error.abs())).mean()

    return Rain(), (torch.rand(batch, 10, 1, 128, 128),), loss


# -- the next word


class WordChain(nn.Module):
    """Recurrent layers with one dropout mask for all steps; the words' table is also the head."""

    def __init__(self, words: int = 33278, width: int = 400, inner: int = 1150) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        sizes = [width, inner, inner, width]
        self.layers = nn.ModuleList([nn.LSTM(one, two) for one, two in itertools.pairwise(sizes)])
        self.bias = nn.Parameter(torch.zeros(words))

    def held(self, x: torch.Tensor, rate: float) -> torch.Tensor:
        return x * functional.dropout(torch.ones_like(x[:1]), rate, self.training)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.held(self.words(ids), 0.4)
        for number, layer in enumerate(self.layers):
            x = layer(x)[0]
            x = self.held(x, 0.25 if number < 2 else 0.4)
        return functional.linear(x, self.words.weight, self.bias), x


def word_chain(batch: int = 64) -> Made:
    ids = torch.randint(0, 33278, (71, batch))

    def loss(out: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        logits, x = out
        entropy = functional.cross_entropy(logits.flatten(0, 1), ids[1:].flatten().to(logits.device))
        return entropy + 2 * x.square().mean() + (x[1:] - x[:-1]).square().mean()

    return WordChain(), (ids[:-1],), loss


# -- labels of texts from bags of their words


class HashedWords(nn.Module):
    """Words and pairs of words share one hashed table; rare words have weights in a second one."""

    def __init__(self, rows: int = 800_000, width: int = 128, classes: int = 4000) -> None:
        super().__init__()
        self.rows = rows
        self.bags = nn.EmbeddingBag(rows, width, mode="mean")
        self.weighted = nn.EmbeddingBag(rows // 4, width, mode="sum", include_last_offset=True)
        self.last = nn.Sequential(nn.BatchNorm1d(2 * width), nn.Dropout(0.2), nn.Linear(2 * width, classes))

    def forward(self, ids: torch.Tensor, flat: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        pairs = (ids[:, 1:] * 116049371 + ids[:, :-1]) % self.rows
        plain = self.bags(torch.cat([ids, pairs], 1))
        return self.last(torch.cat([plain, self.weighted(flat, ends, weights)], 1))


def hashed_words(batch: int = 2048) -> Made:
    rare, target = 24, torch.randint(0, 4000, (batch,))
    flat, weights = torch.randint(0, 200_000, (batch * rare,)), torch.rand(batch * rare)
    inputs = (torch.randint(0, 800_000, (batch, 200)), flat, weights, torch.arange(0, batch * rare + 1, rare))
    return HashedWords(), inputs, lambda out: functional.cross_entropy(out, target.to(out.device))


# -- actors and a critic with memory


class Actors(nn.Module):
    """One pass of proximal policy optimisation over what the actors did; its output is the loss."""

    def __init__(self, seen: int = 376, actions: int = 64, width: int = 512) -> None:
        super().__init__()
        self.enter = nn.Sequential(
            nn.Linear(seen, width), nn.LayerNorm(width), nn.Tanh(), nn.Linear(width, width), nn.ELU()
        )
        self.memory = nn.GRU(width, width, num_layers=2)
        self.policy = nn.Sequential(nn.Linear(width, width), nn.ELU(), nn.Linear(width, actions))
        first, second = (parametrizations.spectral_norm(nn.Linear(width, width)) for _ in range(2))
        self.critic = nn.Sequential(first, nn.ELU(), second, nn.ELU(), nn.Linear(width, 1))

    @staticmethod
    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is not there where types are checked
    def advantages(rewards: torch.Tensor, ended: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        found, last = torch.zeros_like(rewards), torch.zeros_like(rewards[0])
        after = torch.zeros_like(last)
        for step in range(len(rewards) - 1, -1, -1):
            going = 1 - ended[step]
            last = rewards[step] + 0.99 * after * going - values[step] + 0.99 * 0.95 * going * last
            found[step], after = last, values[step]
        return found

    def forward(
        self, seen: torch.Tensor, done: torch.Tensor, old: torch.Tensor, rewards: torch.Tensor, ended: torch.Tensor
    ) -> torch.Tensor:
        x = self.memory(self.enter(seen))[0]
        values = self.critic(x).squeeze(-1)
        gains = self.advantages(rewards, ended, values)
        returns = gains + values.detach()
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        policy = torch.distributions.Categorical(logits=self.policy(x), validate_args=False)
        ratio = torch.exp(policy.log_prob(done) - old)
        gained = torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
        return 0.5 * functional.smooth_l1_loss(values, returns) - gained - 0.01 * policy.entropy().mean()


def actors(batch: int = 256) -> Made:
    steps = 128
    ended = (torch.rand(steps, batch) < 0.02).float()
    inputs = (torch.randn(steps, batch, 376), torch.randint(0, 64, (steps, batch)), -4 * torch.rand(steps, batch))
    return Actors(), (*inputs, torch.randn(steps, batch), ended), lambda out: out


# -- a density of tables by splines


def spline(x: torch.Tensor, params: torch.Tensor, bins: int, bound: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    """A monotone spline of rational quadratics, the identity outside of its bounds."""
    least = 1e-3
    widths, heights, slopes = params.split([bins, bins, bins - 1], -1)
    knots = []
    for each in (widths, heights):
        share = least + (1 - least * bins) * torch.softmax(each, -1)
        knots.append(functional.pad(2 * bound * share.cumsum(-1), (1, 0)) - bound)
    slopes = functional.pad(functional.softplus(slopes) + least, (1, 1), value=1.0)
    inside = (x > -bound) & (x < bound)
    at = torch.where(inside, x, torch.zeros_like(x)).unsqueeze(-1)
    number = ((at >= knots[0]).sum(-1, keepdim=True) - 1).clamp(0, bins - 1)
    (x0, y0), (x1, y1) = ([knot.gather(-1, number + shift) for knot in knots] for shift in (0, 1))
    s0, s1 = slopes.gather(-1, number), slopes.gather(-1, number + 1)
    mean, t = (y1 - y0) / (x1 - x0), (at - x0) / (x1 - x0)
    below = mean + (s0 + s1 - 2 * mean) * t * (1 - t)
    y = y0 + (y1 - y0) * (mean * t**2 + s0 * t * (1 - t)) / below
    log = torch.log(mean**2 * (s1 * t**2 + 2 * mean * t * (1 - t) + s0 * (1 - t) ** 2)) - 2 * torch.log(below)
    return torch.where(inside, y.squeeze(-1), x), torch.where(inside, log.squeeze(-1), torch.zeros_like(x))


class SplineFlow(nn.Module):
    """Half of the columns bend the others, in turn."""

    def __init__(self, columns: int = 64, width: int = 256, depth: int = 10, bins: int = 8) -> None:
        super().__init__()
        self.bins, half = bins, columns // 2
        self.nets = nn.ModuleList()
        for number in range(depth):
            self.register_buffer(f"order{number}", torch.randperm(columns))
            layers: list[nn.Module] = [nn.Linear(half, width)]
            for _ in range(3):
                layers += [nn.ELU(), parametrizations.weight_norm(nn.Linear(width, width)), nn.Dropout(0.1)]
            self.nets.append(nn.Sequential(*layers, nn.ELU(), nn.Linear(width, half * (3 * bins - 1))))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(len(x), device=x.device)
        for number, net in enumerate(self.nets):
            still, bent = x[:, getattr(self, f"order{number}")].chunk(2, 1)
            bent, log = spline(bent, net(still).unflatten(-1, (-1, 3 * self.bins - 1)), self.bins)
            x, total = torch.cat([still, bent], 1), total + log.sum(1)
        return total - 0.5 * (x**2 + math.log(2 * math.pi)).sum(1)


def spline_flow(batch: int = 4096) -> Made:
    return SplineFlow(), (torch.randn(batch, 64),), lambda log: -log.mean()
