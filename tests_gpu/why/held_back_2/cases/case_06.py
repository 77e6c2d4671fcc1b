# ruff: noqa: N812, T201
"""A small denoising diffusion model of 32 x 32 images, with previews of what it draws."""

import argparse
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


class Block(nn.Module):
    def __init__(self, inside, outside, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, outside), nn.Conv2d(outside, outside, 3, padding=1)
        self.time = nn.Linear(embedding, outside)
        self.skip = nn.Conv2d(inside, outside, 1) if inside != outside else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(64, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.down1, self.down2 = Block(width, width, 4 * width), Block(width, 2 * width, 4 * width)
        self.middle1 = Block(2 * width, 2 * width, 4 * width)
        self.middle2 = Block(2 * width, 2 * width, 4 * width)
        self.up2, self.up1 = Block(4 * width, width, 4 * width), Block(2 * width, width, 4 * width)
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        frequencies = torch.exp(-math.log(1000) * torch.arange(32, device=x.device) / 32)
        angles = t[:, None] * frequencies * 1000
        t = self.embed(torch.cat([angles.sin(), angles.cos()], dim=1))
        a = self.down1(self.enter(x), t)
        b = self.down2(F.avg_pool2d(a, 2), t)
        c = self.middle2(self.middle1(F.avg_pool2d(b, 2), t), t)
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], dim=1), t)
        return self.leave(self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], dim=1), t))


@torch.no_grad()
def draw(model, count, rounds, device):
    """DDIM from pure noise."""
    x = torch.randn(count, 3, 32, 32, device=device)
    for number in range(rounds, 0, -1):
        now, after = number / rounds * 0.98, (number - 1) / rounds * 0.98
        t = torch.full((count,), now, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            noise = model(x, t).float()
        clean = (x - math.sin(now * math.pi / 2) * noise) / math.cos(now * math.pi / 2)
        x = math.cos(after * math.pi / 2) * clean + math.sin(after * math.pi / 2) * noise
    return x.clamp(-1, 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--preview-every", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, width, rounds = (2, 8, 3) if args.tiny else (128, 96, 50)
    images = torch.rand(8 * batch, 3, 32, 32, device=device) * 2 - 1
    model = Denoiser(width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=device.type == "cuda")
    meter = Meter()
    for step in range(1, args.steps + 1):
        clean = images[torch.randint(0, len(images), (batch,), device=device)]
        t, noise = torch.rand(batch, device=device), torch.randn_like(clean)
        angle = (t * 0.98 * math.pi / 2)[:, None, None, None]
        noisy = (angle.cos() * clean + angle.sin() * noise).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.mse_loss(model(noisy, t).float(), noise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % args.preview_every == 0:
            preview = draw(model, batch, rounds, device)
        meter.step()
    print(f"loss {loss.item():.4f}, spread of the last preview {preview.std().item():.3f}")
    meter.report()


if __name__ == "__main__":
    main()
