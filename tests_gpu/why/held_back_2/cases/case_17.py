# ruff: noqa: N812, T201
"""DeiT-like vision transformer with register tokens, written in one file; images come from a memory-mapped array."""

import argparse
import math
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


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


class MappedImages(Dataset):
    def __init__(self, path, shape, length):
        self.path, self.shape, self.length, self.array = path, shape, length, None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.array is None:
            self.array = np.memmap(self.path, np.uint8, "r", shape=self.shape)
        return torch.from_numpy(self.array[index % self.shape[0]].copy()), index % 1000


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln_attention, self.ln_mlp = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.scale1, self.scale2 = nn.Parameter(torch.full((dim,), 0.1)), nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln_attention(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.scale1 * self.out(y)
        return x + self.scale2 * self.down(F.gelu(self.up(self.ln_mlp(x)), approximate="tanh"))


class DeiT(nn.Module):
    def __init__(self, side, dim, depth, heads, registers=4, patch=16, classes=1000):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.extra = nn.Parameter(torch.randn(1, 1 + registers, dim) * 0.02)
        self.position = nn.Parameter(torch.randn(1, (side // patch) ** 2, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm, self.classify = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, images):
        b, _, h, w = images.shape
        p = self.patch
        patches = images.view(b, 3, h // p, p, w // p, p).permute(0, 2, 4, 1, 3, 5).reshape(b, -1, 3 * p * p)
        x = torch.cat([self.extra.expand(b, -1, -1), self.embed(patches) + self.position], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.classify(self.norm(x[:, 0]))


def cosine(step, steps, top=1e-3, warmup=20):
    return top * (step + 1) / warmup if step < warmup else top * 0.5 * (1 + math.cos(math.pi * step / max(1, steps)))


def train(args, folder):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    batch, side, dim, depth, workers, count = (2, 32, 64, 2, 2, 8) if args.tiny else (192, 224, 768, 12, 10, 1024)
    shape = (count, 3, side, side)
    np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8).tofile(folder / "images.bin")
    loader = DataLoader(
        MappedImages(folder / "images.bin", shape, batch * args.steps),
        batch_size=batch,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        prefetch_factor=3,
    )
    model = DeiT(side, dim, depth, dim // 64).to(device)
    for layer in model.layers:
        layer.compile()
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}],
        fused=device.type == "cuda",
    )
    meter = Meter()
    for step, (images, labels) in enumerate(loader):
        for group in optimizer.param_groups:
            group["lr"] = cosine(step, args.steps)
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            images = images.to(torch.bfloat16).sub_(127).div_(64)
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        meter.step()
        if step % 100 == 99:
            print(f"{step + 1}: {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--data", help="folder for the images (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=options.data) as temporary:
        train(options, Path(temporary))
