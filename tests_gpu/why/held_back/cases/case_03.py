"""A variational auto-encoder on a small collection of 64 x 64 images, many epochs over it."""

import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
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


class Shapes(Dataset):
    """Drawn once, kept in memory; a flip, a shift and some noise each time."""

    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        rows, columns = np.mgrid[0:64, 0:64]
        images = []
        for _ in range(count):
            y, x, radius = rng.integers(16, 48), rng.integers(16, 48), rng.integers(6, 16)
            disc = ((rows - y) ** 2 + (columns - x) ** 2 < radius**2).astype(np.float32)
            images.append(disc[None] * rng.random((3, 1, 1), dtype=np.float32))
        self.images = np.stack(images)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        if torch.rand(()) < 0.5:
            image = image[:, :, ::-1]
        image = np.roll(image, int(torch.randint(-4, 5, ())), axis=1)
        return torch.from_numpy(image.copy())


class VAE(nn.Module):
    def __init__(self, width=64, latent=128):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1), nn.SiLU(),
            nn.Flatten(), nn.Linear(4 * width * 64, 2 * latent),
        )  # fmt: skip
        self.expand = nn.Linear(latent, 4 * width * 64)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )  # fmt: skip
        self.width = width

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        h = self.expand(z).view(-1, 4 * self.width, 8, 8)
        return self.decoder(h), mean, log_variance


def vae_loss(output, target, mean, log_variance):
    reconstruction = F.mse_loss(output.float(), target, reduction="sum") / target.shape[0]
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    return reconstruction + divergence.float()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch = 4 if args.tiny else 64
    workers = 2 if args.tiny else 12

    train_set = Shapes(8 * batch)
    train_loader = DataLoader(
        train_set, batch_size=batch, shuffle=True, drop_last=True, num_workers=workers, pin_memory=True
    )
    model = VAE(8 if args.tiny else 64).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    meter = Meter(window=8, warmup=16)
    step = 0
    while step < args.steps:
        for images in train_loader:
            images = images.to(device, non_blocking=True)
            with torch.autocast(device, dtype=torch.bfloat16):
                output, mean, log_variance = model(images)
            loss = vae_loss(output, images, mean, log_variance)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            meter.step()
            if step == args.steps:
                break
    print("final loss", float(loss))
    meter.report()
