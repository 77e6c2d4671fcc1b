# ruff: noqa: N812, T201
"""An MLP-Mixer for sensor recordings, trained with an own implementation of Lion."""

import argparse
import statistics
import time

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


class Lion(torch.optim.Optimizer):
    """Evolved sign momentum (Chen et al., 2023)."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
            params = [p for p in group["params"] if p.grad is not None]
            for p in params:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros_like(p)
            for p in params:
                momentum = self.state[p]["momentum"]
                p.mul_(1 - lr * decay)
                update = momentum * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign_(), alpha=-lr)
                momentum.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens1, self.tokens2 = nn.Linear(tokens, 2 * tokens), nn.Linear(2 * tokens, tokens)
        self.channels1, self.channels2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.norm1(x).transpose(1, 2)
        x = x + self.tokens2(F.gelu(self.tokens1(y))).transpose(1, 2)
        return x + self.channels2(F.gelu(self.channels1(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, sensors, tokens, patch, width, depth, classes):
        super().__init__()
        self.patch = patch
        self.enter = nn.Linear(sensors * patch, width)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, recordings):
        length = recordings.shape[2]
        patches = recordings.unflatten(2, (length // self.patch, self.patch)).transpose(1, 2).flatten(2)
        return self.head(self.norm(self.blocks(self.enter(patches))).mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, tokens, width, depth = (4, 16, 32, 2) if args.tiny else (128, 128, 256, 48)
    recordings = torch.randn(8 * batch, 6, tokens * 8, device=device)
    activities = torch.randint(0, 12, (8 * batch,), device=device)
    model = Mixer(6, tokens, 8, width, depth, 12).to(device)
    optimizer = Lion(model.parameters(), lr=1e-4, weight_decay=0.1)
    meter = Meter()
    for step in range(args.steps):
        chosen = slice(step % 8 * batch, step % 8 * batch + batch)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(recordings[chosen])
        loss = F.cross_entropy(logits.float(), activities[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.step()
    print(f"{sum(1 for _ in model.parameters())} tensors, loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
