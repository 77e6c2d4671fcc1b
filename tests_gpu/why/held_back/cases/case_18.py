"""A small GAN on 64 x 64 images that keeps a record of its training."""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
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


class Record:
    """What happened, one JSON line per entry, and sample images beside it."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.lines = (self.folder / "record.jsonl").open("w")

    def scalars(self, step, **values):
        self.lines.write(json.dumps({"step": step, **values}) + "\n")

    def weights(self, step, model):
        for name, parameter in model.named_parameters():
            counts, edges = np.histogram(parameter.detach().float().cpu().numpy(), bins=64)
            self.scalars(step, name=name, counts=counts.tolist(), edges=edges.tolist())

    def samples(self, step, images):
        images = ((images[:32].float() + 1) * 127.5).clamp(0, 255).byte().permute(0, 2, 3, 1).cpu().numpy()
        rows = [np.concatenate(list(images[start : start + 8]), axis=1) for start in range(0, len(images), 8)]
        Image.fromarray(np.concatenate(rows, axis=0)).save(self.folder / f"samples_{step:05d}.png")


def generator(latent, width):
    def up(inside, outside):
        return [nn.ConvTranspose2d(inside, outside, 4, 2, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()]

    return nn.Sequential(
        nn.ConvTranspose2d(latent, 8 * width, 4, 1, 0, bias=False), nn.BatchNorm2d(8 * width), nn.ReLU(),
        *up(8 * width, 4 * width), *up(4 * width, 2 * width), *up(2 * width, width),
        nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


def discriminator(width):
    layers, inside = [], 3
    for outside in (width, 2 * width, 4 * width, 8 * width):
        layers += [nn.utils.parametrizations.spectral_norm(nn.Conv2d(inside, outside, 4, 2, 1)), nn.LeakyReLU(0.2)]
        inside = outside
    return nn.Sequential(*layers, nn.Conv2d(inside, 1, 4), nn.Flatten())


def train(args, folder):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, latent, width = (4, 16, 4) if args.tiny else (64, 128, 48)
    g = generator(latent, width).to(device, memory_format=torch.channels_last)
    d = discriminator(width).to(device, memory_format=torch.channels_last)
    g_optimizer = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    images = torch.rand(8 * batch, 3, 64, 64, device=device) * 2 - 1
    record = Record(folder)
    meter = Meter()
    for step in range(args.steps):
        start = step % 8 * batch
        real = images[start : start + batch].contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            fake = g(torch.randn(batch, latent, 1, 1, device=device))
            d_loss = F.relu(1 - d(real)).mean() + F.relu(1 + d(fake.detach())).mean()
        d_optimizer.zero_grad()
        d_loss.backward()
        d_optimizer.step()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            g_loss = -d(fake).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        record.weights(step, g)
        record.samples(step, fake.detach())
        if step % 20 == 0:
            record.scalars(step, d_loss=d_loss.item(), g_loss=g_loss.item())
        meter.step()
    meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--data", help="folder for the record (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=options.data) as temporary:
        train(options, temporary)
