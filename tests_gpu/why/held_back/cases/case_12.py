"""Forecasting many time series with a transformer encoder."""

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


class Forecaster(nn.Module):
    def __init__(self, channels, length, width, depth, horizon):
        super().__init__()
        self.embed = nn.Linear(channels, width)
        self.position = nn.Parameter(torch.randn(1, length, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, dim_feedforward=4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, channels * horizon)

    def forward(self, series):
        hidden = self.encoder(self.embed(series) + self.position)
        return self.head(hidden.mean(1))


def make_series(count, length, channels, device):
    t = torch.arange(length, device=device) / length
    phase = torch.rand(count, 1, channels, device=device) * 6.28
    speed = torch.rand(count, 1, channels, device=device) * 20
    return torch.sin(speed * t[None, :, None] + phase) + 0.1 * torch.randn(count, length, channels, device=device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    length, channels, horizon = 256, 32, 8
    batch, width, depth = (2, 64, 2) if args.tiny else (32, 1024, 8)
    series = make_series(batch * 8, length + horizon, channels, device)
    model = Forecaster(channels, length, width, depth, horizon).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    model.train()
    meter = Meter()
    for step in range(args.steps):
        start = step % 8 * batch
        window = series[start : start + batch]
        predicted = model(window[:, :length])
        loss = nn.functional.huber_loss(predicted, window[:, length:].flatten(1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        meter.step()
    print(f"last loss: {loss.item():.5f}")
    meter.report()


if __name__ == "__main__":
    main()
