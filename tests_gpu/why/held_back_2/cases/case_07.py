# ruff: noqa: T201
"""A surrogate for a solver of the heat equation: from the initial temperatures to those at a later time."""

import argparse
import statistics
import time

import numpy as np
import torch
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


torch.set_default_dtype(torch.float64)
torch.set_float32_matmul_precision("high")


def solve(initial, rounds, step=0.2):
    """Explicit finite differences on a ring."""
    field = initial.copy()
    for _ in range(rounds):
        field += step * (np.roll(field, 1, axis=1) + np.roll(field, -1, axis=1) - 2 * field)
    return field


def simulate(count, points):
    rng = np.random.default_rng(0)
    position = np.linspace(0, 2 * np.pi, points, endpoint=False)
    waves = np.stack([np.sin(k * position) for k in range(1, 9)] + [np.cos(k * position) for k in range(1, 9)])
    initial = rng.standard_normal((count, 16)) @ waves
    return initial, solve(initial, 10)


class Surrogate(nn.Module):
    def __init__(self, points, hidden, depth):
        super().__init__()
        self.encode = nn.Linear(points, hidden)
        self.layers = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(depth)])
        self.decode = nn.Linear(hidden, points)

    def forward(self, field):
        x = torch.tanh(self.encode(field))
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return field + self.decode(x)


def relative_error(predicted, truth):
    return ((predicted - truth).norm(dim=1) / truth.norm(dim=1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    points, hidden, depth, batch = (64, 32, 2, 8) if args.tiny else (512, 4096, 6, 4096)
    initial, final = simulate(4 * batch, points)
    initial = torch.from_numpy(initial).to(device, torch.get_default_dtype())
    final = torch.from_numpy(final).to(device, torch.get_default_dtype())
    model = Surrogate(points, hidden, depth).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=device == "cuda")
    meter = Meter()
    for step in range(args.steps):
        start = step % 4 * batch
        field, truth = initial[start : start + batch], final[start : start + batch]
        loss = relative_error(model(field), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
        if step % 40 == 0:
            print(f"{step:5d}  {loss.item():.3e}")
    meter.report()


if __name__ == "__main__":
    main()
