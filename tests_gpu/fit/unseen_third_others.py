"""The steps of unseen_third.py that are not convolutional, but for those of words and of actors."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

__all__ = [
    "chunked_scan",
    "experts",
    "flow_operator",
    "molecules",
    "momentum_pair",
    "radiance",
]

Made = tuple[Any, ...]


# -- a language model with experts of limited capacity


class Experts(nn.Module):
    """Each token goes to two of the experts, as far as they have room."""

    def __init__(self, width: int, inner: int, count: int, chosen: int = 2, room: float = 1.25) -> None:
        super().__init__()
        self.count, self.chosen, self.room = count, chosen, room
        self.router = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, inner) * width**-0.5)
        self.gate = nn.Parameter(torch.randn(count, width, inner) * width**-0.5)
        self.down = nn.Parameter(torch.randn(count, inner, width) * inner**-0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape, x = x.shape, x.reshape(-1, x.shape[-1])
        tokens = len(x)
        capacity = max(1, int(self.room * tokens * self.chosen / self.count))
        scores = torch.softmax(self.router(x).float(), -1)
        weights, picks = scores.topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        flat = picks.flatten()
        order = torch.argsort(flat, stable=True)
        sizes = functional.one_hot(flat, self.count).sum(0)
        starts = sizes.cumsum(0) - sizes
        sorted_picks = flat[order]
        place = torch.arange(len(flat), device=x.device) - starts[sorted_picks]
        slot = torch.where(place < capacity, sorted_picks * capacity + place, self.count * capacity)
        source = order // self.chosen
        rooms = x.new_zeros(self.count * capacity + 1, x.shape[-1]).index_copy(0, slot, x[source])
        inside = rooms[:-1].view(self.count, capacity, -1)
        inside = torch.bmm(functional.silu(torch.bmm(inside, self.gate)) * torch.bmm(inside, self.up), self.down)
        results = functional.pad(inside.reshape(self.count * capacity, -1), (0, 0, 0, 1))[slot]
        results = results * weights.flatten()[order].unsqueeze(-1).to(results.dtype)
        out = torch.zeros(tokens, x.shape[-1], device=x.device, dtype=results.dtype).index_add(0, source, results)
        balance = self.count * (scores.mean(0) * sizes / sizes.sum()).sum()
        return out.view(shape), balance


class ExpertModel(nn.Module):
    """Every second layer has experts in place of the one network."""

    def __init__(self, words: int = 32000, width: int = 512, depth: int = 8) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.queries = nn.ModuleList([nn.Linear(width, 3 * width) for _ in range(depth)])
        self.outs = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * depth + 1)])
        plain = [
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        ]
        self.inner = nn.ModuleList([Experts(width, 1536, 8) if i % 2 else plain[i] for i in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        balances = []
        for number, (queries, out, inner) in enumerate(zip(self.queries, self.outs, self.inner, strict=True)):
            q, k, v = queries(self.norms[2 * number](x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
            seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(seen.transpose(1, 2).flatten(2))
            new = inner(self.norms[2 * number + 1](x))
            if isinstance(new, tuple):
                new, balance = new
                balances.append(balance)
            x = x + new
        return self.head(self.norms[-1](x)), torch.stack(balances).mean()


def experts(batch: int = 6) -> Made:
    ids = torch.randint(0, 32000, (batch, 513))

    def loss(out: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        logits, balance = out
        target = ids[:, 1:].to(logits.device)
        return functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten()) + 0.01 * balance

    return ExpertModel(), (ids[:, :-1],), loss


# -- energies of molecules, and the forces on their atoms


class Molecules(nn.Module):
    """Messages through filters of the distance; forces are the gradient of the summed energy."""

    def __init__(self, width: int = 128, depth: int = 5, bases: int = 50, reach: float = 5.0) -> None:
        super().__init__()
        self.reach, self.atoms = reach, nn.Embedding(100, width, padding_idx=0)
        self.register_buffer("centres", torch.linspace(0, reach, bases))
        self.filters = nn.ModuleList(
            [nn.Sequential(nn.Linear(bases, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(depth)]
        )
        self.inner = nn.ModuleList([nn.Linear(width, width, bias=False) for _ in range(depth)])
        self.outs = nn.ModuleList(
            [nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(depth)]
        )
        self.energy = nn.Sequential(nn.Linear(width, width // 2), nn.SiLU(), nn.Linear(width // 2, 1))

    def forward(
        self,
        kinds: torch.Tensor,
        positions: torch.Tensor,
        edges: torch.Tensor,
        owner: torch.Tensor,
        sizes: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        positions = positions.detach().requires_grad_(True)
        here, there = edges
        distance = (positions[here] - positions[there]).norm(dim=-1)
        basis = torch.exp(-10 * (distance.unsqueeze(-1) - self.centres) ** 2)
        cut = 0.5 * (torch.cos(distance * math.pi / self.reach) + 1) * (distance < self.reach)
        x = self.atoms(kinds)
        for filters, inner, out in zip(self.filters, self.inner, self.outs, strict=True):
            messages = inner(x)[there] * (filters(basis) * cut.unsqueeze(-1))
            x = x + out(torch.zeros_like(x).index_add(0, here, messages))
        energy = torch.zeros(len(sizes), device=x.device).scatter_add(0, owner, self.energy(x).squeeze(-1)) / sizes
        (slope,) = torch.autograd.grad(energy.sum(), positions, create_graph=self.training)
        return energy, -slope


def molecules(batch: int = 192) -> Made:
    atoms, near = 20, 14
    count = atoms * batch
    first = torch.arange(count).repeat_interleave(near)
    step = torch.randint(1, atoms, (count * near,))
    second = first // atoms * atoms + (first + step) % atoms
    owner, sizes = torch.arange(batch).repeat_interleave(atoms), torch.full((batch,), float(atoms))
    energy, forces = torch.randn(batch), torch.randn(count, 3)

    def loss(out: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        device = out[0].device
        return functional.l1_loss(out[0], energy.to(device)) + 100 * functional.mse_loss(out[1], forces.to(device))

    inputs = (torch.randint(1, 30, (count,)), 3 * torch.rand(count, 3), torch.stack([first, second]), owner, sizes)
    return Molecules(), inputs, loss


# -- a forecast of a field by its spectrum


class Spectral(nn.Module):
    """Weights of the lowest frequencies."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width**2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum, modes = torch.fft.rfft2(x, norm="ortho"), self.modes
        low, high = torch.view_as_complex(self.weight)
        out = torch.zeros_like(spectrum)
        out[:, :, :modes, :modes] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :modes, :modes], low)
        out[:, :, -modes:, :modes] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -modes:, :modes], high)
        return torch.fft.irfft2(out, s=x.shape[-2:], norm="ortho")


class FlowOperator(nn.Module):
    """Ten states of a flow, each from the ten before it, and joined."""

    def __init__(self, width: int = 64, modes: int = 24, depth: int = 4, steps: int = 10) -> None:
        super().__init__()
        self.steps = steps
        self.lift = nn.Linear(12, width)
        self.spectral = nn.ModuleList([Spectral(width, modes) for _ in range(depth)])
        self.local = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.project = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        batch, high, wide, _ = past.shape
        ys = torch.linspace(0, 1, high, device=past.device).view(1, -1, 1, 1).expand(batch, -1, wide, 1)
        xs = torch.linspace(0, 1, wide, device=past.device).view(1, 1, -1, 1).expand(batch, high, -1, 1)
        states = []
        for _ in range(self.steps):
            x = self.lift(torch.cat([past, ys, xs], -1)).permute(0, 3, 1, 2)
            for spectral, local in zip(self.spectral, self.local, strict=True):
                x = functional.gelu(spectral(x) + local(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
            states.append(self.project(x.permute(0, 2, 3, 1)))
            past = torch.cat([past[..., 1:], states[-1]], -1)
        return torch.cat(states, -1)


def flow_operator(batch: int = 12) -> Made:
    return FlowOperator(), (torch.randn(batch, 256, 256, 10),)


# -- a state-space model, scanned in chunks


class Mixer(nn.Module):
    """Heads with a scalar decay; exact inside a chunk, and states between chunks."""

    def __init__(self, width: int, state: int = 64, head: int = 64, chunk: int = 64) -> None:
        super().__init__()
        inner = 2 * width
        self.inner, self.state, self.heads, self.chunk = inner, state, inner // head, chunk
        self.norm, self.last_norm = nn.RMSNorm(width), nn.RMSNorm(inner)
        self.enter = nn.Linear(width, 2 * inner + 2 * state + self.heads, bias=False)
        self.near = nn.Conv1d(inner + 2 * state, inner + 2 * state, 4, padding=3, groups=inner + 2 * state)
        self.decay, self.step_bias = nn.Parameter(torch.zeros(self.heads)), nn.Parameter(torch.zeros(self.heads))
        self.skip, self.leave = nn.Parameter(torch.ones(self.heads)), nn.Linear(inner, width, bias=False)

    @staticmethod
    def sums(x: torch.Tensor) -> torch.Tensor:
        """The sum of each segment from one place to another, and minus infinity above the diagonal."""
        length, total = x.shape[-1], x.cumsum(-1)
        keep = torch.ones(length, length, device=x.device, dtype=torch.bool).tril()
        return (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~keep, -torch.inf)

    def scan(self, x: torch.Tensor, decay: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        x, b, c = (each.unflatten(1, (-1, self.chunk)) for each in (x, b, c))
        decay = decay.unflatten(1, (-1, self.chunk)).permute(0, 3, 1, 2)
        total = decay.cumsum(-1)
        inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, torch.exp(self.sums(decay)), x)
        states = torch.einsum("bcln,bhcl,bclhp->bchpn", b, torch.exp(total[..., -1:] - total), x)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        between = torch.exp(self.sums(functional.pad(total[..., -1], (1, 0))))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        return (inside + torch.einsum("bcln,bchpn,bhcl->bclhp", c, states, torch.exp(total))).flatten(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        gate, mixed, step = self.enter(self.norm(x)).split([self.inner, self.inner + 2 * self.state, self.heads], -1)
        mixed = functional.silu(self.near(mixed.transpose(1, 2))[..., :length].transpose(1, 2)).float()
        values, b, c = mixed.split([self.inner, self.state, self.state], -1)
        values, step = values.unflatten(-1, (self.heads, -1)), functional.softplus(step.float() + self.step_bias)
        y = self.scan(values * step.unsqueeze(-1), -torch.exp(self.decay) * step, b, c)
        y = (y + values * self.skip.unsqueeze(-1)).flatten(2)
        return x + self.leave(self.last_norm(y * functional.silu(gate.float())))


class ChunkedScan(nn.Module):
    """Bytes of a genome or a text; layers are computed again on the way back."""

    def __init__(self, width: int = 768, depth: int = 12, words: int = 8192) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        nn.init.normal_(self.words.weight, std=0.02)
        self.layers, self.norm = nn.ModuleList([Mixer(width) for _ in range(depth)]), nn.RMSNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return functional.linear(self.norm(x), self.words.weight)


def chunked_scan(batch: int = 3) -> Made:
    ids = torch.randint(0, 8192, (batch, 2048))

    def loss(out: torch.Tensor) -> torch.Tensor:
        target = ids[:, 1:].to(out.device)
        return functional.cross_entropy(out[:, :-1].reshape(-1, out.shape[-1]).float(), target.flatten())

    return ChunkedScan(), (ids,), loss


# -- two views of one image, and a queue of others


class PatchMixer(nn.Module):
    """Linear layers over patches and over channels in turn."""

    def __init__(self, width: int = 512, depth: int = 8, out: int = 128) -> None:
        super().__init__()
        self.enter = nn.Linear(768, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2 * depth)])
        self.across = nn.ModuleList([self.two(196, 256) for _ in range(depth)])
        self.along = nn.ModuleList([self.two(width, 4 * width) for _ in range(depth)])
        self.project = nn.Sequential(
            nn.Linear(width, 2048), nn.BatchNorm1d(2048), nn.ReLU(inplace=True), nn.Linear(2048, out)
        )

    @staticmethod
    def two(width: int, inner: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(width, inner), nn.GELU(), nn.Dropout(0.1), nn.Linear(inner, width), nn.Dropout(0.1)
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.enter(functional.unfold(image, 16, stride=16).transpose(1, 2))
        for number, (across, along) in enumerate(zip(self.across, self.along, strict=True)):
            x = x + across(self.norms[2 * number](x).transpose(1, 2)).transpose(1, 2)
            x = x + along(self.norms[2 * number + 1](x))
        return functional.normalize(self.project(x.mean(1)), dim=1)


class MomentumPair(nn.Module):
    """The second encoder follows the first, and its outputs wait in a queue as other examples."""

    def __init__(self, waiting: int = 65536, pace: float = 0.999) -> None:
        super().__init__()
        self.query, self.key, self.pace, self.place = PatchMixer(), PatchMixer(), pace, 0
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(128, waiting), dim=0))

    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        queries = self.query(one)
        with torch.no_grad():
            for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
                slow.mul_(self.pace).add_(fast, alpha=1 - self.pace)
            keys = self.key(two)
        same = torch.einsum("nc,nc->n", queries, keys).unsqueeze(-1)
        logits = torch.cat([same, queries @ self.queue.clone().detach()], 1) / 0.07
        with torch.no_grad():
            self.queue[:, self.place : self.place + len(keys)] = keys.T
            self.place = (self.place + len(keys)) % self.queue.shape[1]
        return logits


def momentum_pair(batch: int = 64) -> Made:
    images = torch.randn(2, batch, 3, 224, 224)

    def loss(logits: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))

    return MomentumPair(), (images[0], images[1]), loss


# -- an image of a scene along its rays


class Field(nn.Module):
    """Density and colour of a place, seen from a direction."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = nn.ModuleList([nn.Linear(63 if i == 0 else width, width) for i in range(5)])
        self.then = nn.ModuleList([nn.Linear(width + 63 if i == 0 else width, width) for i in range(3)])
        self.density, self.feature = nn.Linear(width, 1), nn.Linear(width, width)
        self.colour = nn.Sequential(
            nn.Linear(width + 27, width // 2), nn.ReLU(), nn.Linear(width // 2, 3), nn.Sigmoid()
        )

    @staticmethod
    def waves(x: torch.Tensor, count: int) -> torch.Tensor:
        scaled = (x.unsqueeze(-2) * 2.0 ** torch.arange(count, device=x.device).unsqueeze(-1)).flatten(-2)
        return torch.cat([x, torch.sin(scaled), torch.cos(scaled)], -1)

    def forward(self, place: torch.Tensor, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        place = self.waves(place, 10)
        x = place
        for layer in self.first:
            x = torch.relu(layer(x))
        x = torch.cat([x, place], -1)
        for layer in self.then:
            x = torch.relu(layer(x))
        direction = self.waves(direction, 4).unsqueeze(-2).expand(*x.shape[:-1], -1)
        return functional.softplus(self.density(x)).squeeze(-1), self.colour(
            torch.cat([self.feature(x), direction], -1)
        )


class Radiance(nn.Module):
    """A coarse field says where the fine one is asked."""

    def __init__(self, near: float = 2.0, far: float = 6.0, coarse: int = 64, fine: int = 128) -> None:
        super().__init__()
        self.near, self.far, self.coarse_count, self.fine_count = near, far, coarse, fine
        self.coarse, self.fine = Field(), Field()

    @staticmethod
    def render(field: Field, origin: torch.Tensor, direction: torch.Tensor, depth: torch.Tensor) -> tuple[Any, Any]:
        density, colour = field(origin.unsqueeze(1) + direction.unsqueeze(1) * depth.unsqueeze(-1), direction)
        gaps = functional.pad(depth.diff(dim=-1), (0, 1), value=1e3)
        opaque = 1 - torch.exp(-density.float() * gaps)
        clear = torch.cumprod(functional.pad(1 - opaque + 1e-10, (1, 0), value=1.0), -1)[:, :-1]
        weights = opaque * clear
        return (weights.unsqueeze(-1) * colour.float()).sum(1), weights

    def forward(self, origin: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        direction = functional.normalize(direction, dim=-1)
        depth = torch.linspace(self.near, self.far, self.coarse_count, device=origin.device).expand(len(origin), -1)
        rough, weights = self.render(self.coarse, origin, direction, depth)
        middle = 0.5 * (depth[:, 1:] + depth[:, :-1])
        share = weights[:, 1:-1].detach() + 1e-5
        steps = functional.pad(torch.cumsum(share / share.sum(-1, keepdim=True), -1), (1, 0)).contiguous()
        at = torch.rand(len(origin), self.fine_count, device=origin.device)
        after = torch.searchsorted(steps, at, right=True).clamp(1, steps.shape[-1] - 1)
        low, high = steps.gather(1, after - 1), steps.gather(1, after)
        part = (at - low) / (high - low).clamp(min=1e-5)
        start, end = middle.gather(1, after - 1), middle.gather(1, after)
        depth = torch.cat([depth, start + part * (end - start)], -1).sort(-1).values
        return torch.cat([rough, self.render(self.fine, origin, direction, depth)[0]], -1)


def radiance(batch: int = 4096) -> Made:
    return Radiance(), (torch.randn(batch, 3), torch.randn(batch, 3))
