"""Regression on a wide table with a deep residual MLP (numbers and categories)."""

import argparse
import statistics
import time

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


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.second(torch.relu(self.first(self.norm(x))))


class TableNet(nn.Module):
    def __init__(self, numbers, categories, width, depth):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, 16) for size in categories)
        self.first = nn.Linear(numbers + 16 * len(categories), width)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(depth)))
        self.last = nn.Linear(width, 1)

    def forward(self, numbers, categories):
        parts = [embed(column) for embed, column in zip(self.embeddings, categories.unbind(1))]
        return self.last(self.blocks(self.first(torch.cat([numbers, *parts], dim=1)))).squeeze(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows, batch, width, depth = (512, 32, 16, 3) if args.tiny else (400_000, 8192, 384, 96)
    sizes = [10, 50, 100, 7, 1000, 31, 12, 24]
    numbers = torch.randn(rows, 40, device=device)
    categories = torch.stack([torch.randint(0, size, (rows,), device=device) for size in sizes], dim=1)
    target = numbers[:, :5].sum(1) + categories[:, 0].float() * 0.1
    model = TableNet(40, sizes, width, depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2, foreach=False)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=args.steps + 1)
    meter = Meter()
    for _ in range(args.steps):
        chosen = torch.randint(0, rows, (batch,), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            predicted = model(numbers[chosen], categories[chosen])
        loss = nn.functional.mse_loss(predicted.float(), target[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        meter.step()
    print(f"mse {loss.item():.3f}")
    meter.report()


if __name__ == "__main__":
    main()
