"""A denoising diffusion model: a U-Net that predicts the noise."""

import argparse
import gc
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
    def __init__(self, inside, outside, time_width):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(time_width, outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    def __init__(self, width, multiples=(1, 2, 3)):
        super().__init__()
        self.width = width
        tw = 4 * width
        self.embed = nn.Sequential(nn.Linear(width, tw), nn.SiLU(), nn.Linear(tw, tw))
        self.first = nn.Conv2d(3, width, 3, padding=1)
        sizes = [width * m for m in multiples]
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        current = width
        for size in sizes:
            self.down.append(nn.ModuleList([ResBlock(current, size, tw), ResBlock(size, size, tw)]))
            current = size
        self.middle = ResBlock(current, current, tw)
        for size in reversed(sizes):
            self.up.append(nn.ModuleList([ResBlock(current + size, size, tw), ResBlock(size, size, tw)]))
            current = size
        self.last = nn.Conv2d(current, 3, 3, padding=1)

    def forward(self, x, t):
        half = self.width // 2
        angles = t[:, None] * torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)[None]
        t = self.embed(torch.cat([angles.sin(), angles.cos()], dim=1))
        x, skips = self.first(x), []
        for first, second in self.down:
            x = second(first(x, t), t)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, t)
        for first, second in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = second(first(torch.cat([x, skips.pop()], dim=1), t), t)
        return self.last(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width = (2, 16, 16) if args.tiny else (32, 64, 128)
    model = UNet(width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=device.type == "cuda")
    images = torch.rand(8 * batch, 3, side, side, device=device) * 2 - 1
    noise_left = torch.cos(torch.linspace(0, math.pi / 2, 1000, device=device)) ** 2
    losses = []
    meter = Meter()
    for step in range(args.steps):
        clean = images[step % 8 * batch : (step % 8 + 1) * batch]
        t = torch.randint(0, 1000, (batch,), device=device)
        keep = noise_left[t][:, None, None, None]
        noise = torch.randn_like(clean)
        noisy = (keep.sqrt() * clean + (1 - keep).sqrt() * noise).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            predicted = model(noisy, t.float())
        loss = F.mse_loss(predicted.float(), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())
        del predicted, noisy, noise
        gc.collect()
        torch.cuda.empty_cache()
        meter.step()
    print("mean loss", torch.stack(losses).mean().item())
    meter.report()


if __name__ == "__main__":
    main()
