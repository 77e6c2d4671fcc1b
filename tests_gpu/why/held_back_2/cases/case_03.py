# ruff: noqa: N812, T201
"""Momentum contrast (MoCo) with a long queue of negative keys."""

import argparse
import copy
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


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x):
        return F.relu(x + self.body(x))


def encoder(width, blocks, dim):
    return nn.Sequential(
        nn.Conv2d(3, width, 8, stride=4, padding=2),
        *(Residual(width) for _ in range(blocks)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, dim),
    )


class MoCo(nn.Module):
    def __init__(self, online, dim, size, momentum=0.99, temperature=0.2):
        super().__init__()
        self.online = online
        self.target = copy.deepcopy(online).requires_grad_(False)
        self.momentum, self.temperature = momentum, temperature
        self.queue = F.normalize(torch.randn(dim, size), dim=0)
        self.position = 0

    @torch.no_grad()
    def follow(self):
        torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), 1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        end = self.position + len(keys)
        self.queue[:, self.position : end] = keys.T.to(self.queue.device)
        self.position = end % self.queue.shape[1]

    def forward(self, first, second):
        queries = F.normalize(self.online(first).float(), dim=1)
        with torch.no_grad():
            keys = F.normalize(self.target(second).float(), dim=1)
        same = (queries * keys).sum(1, keepdim=True)
        other = queries @ self.queue.to(queries.device)
        logits = torch.cat([same, other], dim=1) / self.temperature
        self.enqueue(keys)
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


def view(images):
    shift = torch.randint(-8, 9, (2,)).tolist()
    images = torch.roll(images, shift, dims=(2, 3)).float().div(255)
    images = images.flip(3) if torch.rand(()) < 0.5 else images
    return (images + 0.1 * torch.randn_like(images)).contiguous(memory_format=torch.channels_last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, blocks, dim, size = (4, 32, 8, 1, 16, 64) if args.tiny else (128, 96, 128, 6, 512, 131_072)
    images = torch.randint(0, 256, (8 * batch, 3, side, side), dtype=torch.uint8, device=device)
    moco = MoCo(encoder(width, blocks, dim), dim, size).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(moco.online.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    meter = Meter()
    for step in range(args.steps):
        start = step % 8 * batch
        chosen = images[start : start + batch]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = moco(view(chosen), view(chosen))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        moco.follow()
        meter.step()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
