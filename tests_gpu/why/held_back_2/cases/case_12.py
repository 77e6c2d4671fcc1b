# ruff: noqa: N812, T201
"""A trainer class with gradient accumulation, on a character-level language model."""

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
class Config:
    steps: int
    device: torch.device
    vocabulary: int = 128
    length: int = 256
    width: int = 512
    depth: int = 8
    batch_size: int = 64
    micro_batch_size: int = 4
    lr: float = 3e-4
    clip: float = 1.0


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class CharacterModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Parameter(torch.randn(config.length, config.width) * 0.02)
        self.layers = nn.Sequential(*[Layer(config.width, max(1, config.width // 64)) for _ in range(config.depth)])
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, x):
        return self.head(self.layers(self.embed(x) + self.position))


class Trainer:
    def __init__(self, config, model, text):
        self.config, self.text = config, text
        self.model = model.to(config.device)
        fused = config.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr, fused=fused)
        self.accumulation = config.batch_size // config.micro_batch_size
        self.offsets = torch.arange(config.length + 1, device=config.device)
        self.meter = Meter()

    def micro_batch(self):
        c = self.config
        starts = torch.randint(0, len(self.text) - c.length - 1, (c.micro_batch_size, 1), device=c.device)
        piece = self.text[starts + self.offsets]
        return piece[:, :-1], piece[:, 1:]

    def training_step(self):
        x, y = self.micro_batch()
        with torch.autocast(self.config.device.type, dtype=torch.bfloat16):
            logits = self.model(x)
        loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten()) / self.accumulation
        loss.backward()
        return loss.detach()

    def fit(self):
        for step in range(self.config.steps):
            loss = torch.zeros((), device=self.config.device)
            for _ in range(self.accumulation):
                loss += self.training_step()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.meter.step()
            if step % 50 == 0:
                print(f"step {step}: {loss.item():.3f}")
        self.meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(0)
    config = Config(options.steps, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    if options.tiny:
        config.length, config.width, config.depth = 32, 32, 1
    characters = torch.randint(0, config.vocabulary, (1_000_000,), device=config.device)
    Trainer(config, CharacterModel(config), characters).fit()
