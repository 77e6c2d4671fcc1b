# ruff: noqa: N812, T201
"""Masked language model on DNA: a pre-norm encoder made of PyTorch's own attention layers."""

import argparse
import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


class Meter:
    """Wall time of a step, over windows of steps; the device is awaited at the end of each window only."""

    def __init__(self, window=10, warmup=20):
        self.window, self.warmup = window, warmup
        self.count, self.last, self.windows = 0, time.perf_counter(), []

    def step(self):
        self.count += 1
        if self.count % self.window:
            return
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self.count > self.warmup:
            self.windows.append((now - self.last) / self.window * 1000)
        self.last = now

    def report(self):
        print(f"STEP_MS {statistics.median(self.windows):.3f}", flush=True)


@dataclass
class Settings:
    bases: int = 5  # A, C, G, T and the mask
    width: int = 1024
    heads: int = 16
    depth: int = 6
    length: int = 2048
    batch: int = 8
    masked: float = 0.15


class EncoderLayer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(s.width), nn.LayerNorm(s.width)
        self.attention = nn.MultiheadAttention(s.width, s.heads, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.Linear(s.width, 4 * s.width), nn.GELU(approximate="tanh"), nn.Linear(4 * s.width, s.width)
        )

    def forward(self, x):
        h = self.norm1(x)
        attended, _ = self.attention(h, h, h)
        x = x + attended
        return x + self.feed_forward(self.norm2(x))


class DNAModel(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.bases = nn.Embedding(s.bases, s.width)
        self.positions = nn.Parameter(torch.zeros(s.length, s.width).normal_(std=0.02))
        self.layers = nn.Sequential(*[EncoderLayer(s) for _ in range(s.depth)])
        self.norm, self.head = nn.LayerNorm(s.width), nn.Linear(s.width, s.bases - 1)

    def forward(self, sequence):
        return self.head(self.norm(self.layers(self.bases(sequence) + self.positions)))


class Genome:
    """Pieces of a random genome that lies on the device."""

    def __init__(self, s, device, size=4_000_000):
        self.settings = s
        self.sequence = torch.randint(0, s.bases - 1, (size,), device=device)
        self.offsets = torch.arange(s.length, device=device)

    def batch(self):
        s = self.settings
        device = self.sequence.device
        starts = torch.randint(0, len(self.sequence) - s.length, (s.batch, 1), device=device)
        truth = self.sequence[starts + self.offsets]
        hidden = torch.rand(truth.shape, device=device) < s.masked
        return truth.masked_fill(hidden, s.bases - 1), truth.masked_fill(~hidden, -100)


def fit(model, genome, steps, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=device.type == "cuda")
    meter = Meter()
    model.train()
    for step in range(steps):
        sequence, targets = genome.batch()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(sequence)
        loss = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = Settings(width=32, heads=2, depth=1, length=32, batch=2) if args.tiny else Settings()
    fit(DNAModel(settings).to(where), Genome(settings, where), args.steps, where)
