# ruff: noqa: N812, T201
"""Click prediction on a table: embeddings of the categories, and a residual MLP."""

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path

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


class TabularNet(nn.Module):
    def __init__(self, sizes, numeric, hidden, depth):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 16) for size in sizes)
        self.enter = nn.Linear(16 * len(sizes) + numeric, hidden)
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(depth))
        self.out = nn.Linear(hidden, 1)

    def forward(self, categories, numbers):
        parts = [table(column) for table, column in zip(self.tables, categories.unbind(1), strict=True)]
        x = self.enter(torch.cat([*parts, numbers], dim=1))
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        return self.out(x).squeeze(1)


class KeepBest:
    """Keeps the state of the run whenever the smoothed loss is lower than ever before."""

    def __init__(self, path, smoothing=0.9):
        self.path, self.smoothing = path, smoothing
        self.running, self.best = None, math.inf

    def __call__(self, step, loss, model, optimizer):
        self.running = loss if self.running is None else self.smoothing * self.running + (1 - self.smoothing) * loss
        if self.running < self.best:
            self.best = self.running
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, self.path)


def make_table(rows, sizes, numeric, device):
    generator = torch.Generator(device).manual_seed(0)
    categories = [torch.randint(0, size, (rows,), generator=generator, device=device) for size in sizes]
    numbers = torch.randn(rows, numeric, generator=generator, device=device)
    score = numbers[:, :4].sum(1) + (categories[0] % 2) * 2 - 1
    return torch.stack(categories, 1), numbers, (score > 0).float()


def train(args, folder):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, batch, hidden = (512, 64, 32) if args.tiny else (1 << 20, 1 << 16, 1280)
    sizes = [20, 50, 100, 300, 1000, 3000]
    categories, numbers, clicks = make_table(rows, sizes, 26, device)
    model = TabularNet(sizes, 26, hidden, 5).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    keep_best = KeepBest(folder / "best.pt")
    meter = Meter()
    for step in range(args.steps):
        start = step * batch % rows
        chosen = slice(start, start + batch)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(categories[chosen], numbers[chosen])
        loss = F.binary_cross_entropy_with_logits(logits.float(), clicks[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keep_best(step, loss.item(), model, optimizer)
        meter.step()
    print(f"best smoothed loss {keep_best.best:.4f}")
    meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--data", help="folder for the best state (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=options.data) as temporary:
        train(options, Path(temporary))
