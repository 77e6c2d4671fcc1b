# ruff: noqa: N812, T201
"""A U-Net for diffusion in a latent space (4 x 64 x 64), with an average of the weights."""

import argparse
import copy
import math
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


class ResBlock(nn.Module):
    def __init__(self, width, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(32, width), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(embedding, width)

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, c, h, w = x.shape
        tokens = x.permute(0, 2, 3, 1).reshape(b, h * w, c)
        q, k, v = self.qkv(self.norm(tokens)).view(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(y).view(b, h, w, c).permute(0, 3, 1, 2)


class LatentUNet(nn.Module):
    """Two resolutions; the way up adds what the way down left."""

    def __init__(self, width, blocks, heads):
        super().__init__()
        embedding = 2 * width
        self.embed = nn.Sequential(nn.Linear(128, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.enter, self.leave = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        self.before = nn.ModuleList(ResBlock(width, embedding) for _ in range(blocks))
        self.down, self.up = nn.Conv2d(width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.middle = nn.ModuleList(ResBlock(2 * width, embedding) for _ in range(2 * blocks))
        self.attention = SelfAttention(2 * width, heads)
        self.after = nn.ModuleList(ResBlock(width, embedding) for _ in range(blocks))

    def forward(self, x, t):
        frequencies = torch.exp(-math.log(10000) * torch.arange(64, device=x.device) / 64)
        angles = 1000 * t[:, None] * frequencies
        t = self.embed(torch.cat([angles.sin(), angles.cos()], dim=1))
        x = self.enter(x)
        left = []
        for block in self.before:
            x = block(x, t)
            left.append(x)
        x = self.down(x)
        for number, block in enumerate(self.middle):
            x = block(x, t)
            if number == 0:
                x = self.attention(x)
        x = self.up(x)
        for block in self.after:
            x = block(x + left.pop(), t)
        return self.leave(x)

    def compile_blocks(self):
        """Few different shapes: the blocks of one resolution share a graph."""
        for block in (*self.before, *self.middle, *self.after, self.attention):
            block.compile(dynamic=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, blocks = (2, 16, 32, 1) if args.tiny else (48, 64, 320, 3)
    latents = torch.randn(16 * batch, 4, side, side, device=device)
    model = LatentUNet(width, blocks, max(1, width // 32)).to(device, memory_format=torch.channels_last)
    average = copy.deepcopy(model).requires_grad_(False)
    model.compile_blocks()
    weights, averages = list(model.parameters()), list(average.parameters())
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=device.type == "cuda")
    total = torch.zeros((), device=device)
    meter = Meter()
    for _ in range(args.steps):
        clean = latents[torch.randint(0, len(latents), (batch,), device=device)]
        t, noise = torch.rand(batch, device=device), torch.randn_like(clean)
        angle = (t * math.pi / 2)[:, None, None, None]
        noisy = (angle.cos() * clean + angle.sin() * noise).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            predicted = model(noisy, t)
        loss = F.mse_loss(predicted.float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(averages, weights, 1e-4)
        total += loss.detach()
        meter.step()
    print(f"mean loss {total.item() / args.steps:.4f}")
    meter.report()


if __name__ == "__main__":
    main()
