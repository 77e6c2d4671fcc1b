"""Action recognition on short RGB-D clips: a small CNN per frame and a GRU over the frames."""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FRAMES = 20
SIDE = 48


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


def make_clips(folder, count):
    """Stands for the extracted clips of a real data set; nothing of it is left in the page cache."""
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 255, (FRAMES, SIDE, SIDE, 3), dtype=np.uint8)
    depth = rng.integers(0, 255, (FRAMES, SIDE, SIDE), dtype=np.uint8)
    for number in range(count):
        clip = folder / f"clip_{number:05d}"
        clip.mkdir()
        for frame in range(FRAMES):
            np.save(clip / f"rgb_{frame:03d}.npy", colour[frame])
            np.save(clip / f"depth_{frame:03d}.npy", depth[frame])
    os.sync()
    if hasattr(os, "posix_fadvise"):
        for path in folder.rglob("*.npy"):
            handle = os.open(path, os.O_RDONLY)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


class ClipDataset(Dataset):
    def __init__(self, folder):
        self.clips = sorted(folder.iterdir())

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        clip = self.clips[index]
        frames = []
        for frame in range(FRAMES):
            colour = np.load(clip / f"rgb_{frame:03d}.npy")
            depth = np.load(clip / f"depth_{frame:03d}.npy")
            frames.append(np.concatenate([colour, depth[..., None]], axis=-1))
        return torch.from_numpy(np.stack(frames)), index % 10


class ClipNet(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.frame = nn.Sequential(
            nn.Conv2d(4, width, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.time = nn.GRU(4 * width, 256, batch_first=True)
        self.head = nn.Linear(256, classes)

    def forward(self, clips):
        batch, frames = clips.shape[:2]
        features = self.frame(clips.flatten(0, 1)).view(batch, frames, -1)
        hidden, _ = self.time(features)
        return self.head(hidden[:, -1])


def train(args, folder):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch_size = 4 if args.tiny else 16
    make_clips(folder, batch_size * (args.steps + 1))
    loader = DataLoader(
        ClipDataset(folder), batch_size=batch_size, shuffle=True, num_workers=4, pin_memory=True, drop_last=True
    )
    model = ClipNet(8 if args.tiny else 32).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    meter = Meter()
    for step, (clips, labels) in enumerate(loader):
        if step == args.steps:
            break
        clips = clips.to(device, non_blocking=True).permute(0, 1, 4, 2, 3).float().div(255)
        labels = labels.to(device, non_blocking=True)
        loss = criterion(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
    print(f"loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--data", help="folder for the generated clips (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=options.data) as temporary:
        train(options, Path(temporary))
