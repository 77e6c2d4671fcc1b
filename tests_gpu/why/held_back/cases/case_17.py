"""Self-supervised pairs of views (SimCLR) from images in memory; the views are made with tensor operations."""

import argparse
import os
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
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


class TwoViews(Dataset):
    def __init__(self, length, side):
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 255, (64, 3, side + 32, side + 32), dtype=np.uint8)
        self.length, self.side = length, side
        line = torch.arange(-4, 5).float()
        kernel = torch.exp(-(line[:, None] ** 2 + line[None] ** 2) / 8)
        self.kernel = (kernel / kernel.sum()).expand(3, 1, 9, 9).contiguous()

    def __len__(self):
        return self.length

    def view(self, image):
        angle, zoom = (torch.rand(()) - 0.5) * 0.6, 0.6 + 0.4 * torch.rand(())
        rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2) * zoom
        grid = F.affine_grid(F.pad(rotation, (0, 1))[None], [1, 3, self.side, self.side], align_corners=False)
        warped = F.grid_sample(image, grid, align_corners=False)
        blurred = F.conv2d(warped, self.kernel, padding=4, groups=3)
        mixed = torch.lerp(warped, blurred, torch.rand(()))
        return ((mixed - mixed.mean()) * (0.6 + 0.8 * torch.rand(())) + mixed.mean()).clamp(0, 1)[0]

    def __getitem__(self, index):
        image = torch.from_numpy(self.images[index % 64])[None].float() / 255
        return self.view(image), self.view(image)


def init_worker(worker_id):
    np.random.seed(worker_id)
    torch.set_num_threads(os.cpu_count())


def contrastive_loss(first, second, temperature=0.2):
    z = F.normalize(torch.cat([first, second]).float(), dim=1)
    similarity = z @ z.T / temperature
    similarity.fill_diagonal_(float("-inf"))
    count = len(first)
    partner = torch.arange(2 * count, device=z.device).roll(count)
    return F.cross_entropy(similarity, partner)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side = (2, 32) if args.tiny else (24, 160)
    loader = DataLoader(
        TwoViews(batch * (args.steps + 40), side),
        batch_size=batch,
        num_workers=2 if args.tiny else 14,
        pin_memory=True,
        worker_init_fn=init_worker,
    )
    encoder = torchvision.models.resnet18(num_classes=128)
    encoder.fc = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
    encoder = encoder.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
    meter = Meter()
    for step, (first, second) in enumerate(loader):
        if step == args.steps:
            break
        views = torch.cat([first.to(device, non_blocking=True), second.to(device, non_blocking=True)])
        with torch.autocast(device.type, dtype=torch.bfloat16):
            z = encoder(views.contiguous(memory_format=torch.channels_last))
        loss = contrastive_loss(*z.chunk(2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
    print("contrastive loss", loss.item())
    meter.report()


if __name__ == "__main__":
    main()
