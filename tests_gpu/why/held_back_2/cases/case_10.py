# ruff: noqa: N812, T201
"""A masked auto-encoder on patches; more patches are hidden as the training goes on."""

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


class Visible(nn.Module):
    """Chooses the visible patches of each image; the rest is replaced by the mean of what is seen."""

    def __init__(self, patches, width):
        super().__init__()
        self.visible = patches
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x, scores):
        order = scores.argsort(dim=1)
        seen = order < self.visible
        weight = seen.to(x.dtype).unsqueeze(-1)
        mean = (x * weight).sum(1, keepdim=True) / self.visible
        filled = torch.where(seen.unsqueeze(-1), x, mean)
        return F.silu(filled * self.scale + self.shift), seen


class AutoEncoder(nn.Module):
    def __init__(self, patches, features, width, depth):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.position = nn.Parameter(torch.randn(patches, width) * 0.02)
        self.mask = Visible(patches, width)
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // 64), 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.leave = nn.Linear(width, features)

    def forward(self, patches, scores):
        x, seen = self.mask(self.enter(patches) + self.position, scores)
        return self.leave(self.encoder(x)), seen


def cut(images, size):
    return F.unfold(images, size, stride=size).transpose(1, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, depth = (2, 64, 32, 1) if args.tiny else (128, 128, 512, 6)
    size = 8
    patches = (side // size) ** 2
    images = torch.randn(4 * batch, 3, side, side, device=device)
    model = AutoEncoder(patches, 3 * size * size, width, depth).to(device)
    model.mask.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=device.type == "cuda")
    meter = Meter()
    for step in range(args.steps):
        hidden = min(0.75, 0.25 + 0.05 * (step // 10))
        model.mask.visible = int(patches * (1 - hidden))
        target = cut(images[step % 4 * batch : step % 4 * batch + batch], size)
        scores = torch.rand(batch, patches, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            predicted, seen = model(target, scores)
        error = (predicted.float() - target).square().mean(-1)
        loss = (error * ~seen).sum() / (batch * (patches - model.mask.visible))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
    print(f"{model.mask.visible} of {patches} patches visible, loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
