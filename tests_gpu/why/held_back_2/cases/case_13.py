# ruff: noqa: N812, T201
"""Sound classification from spectrograms, which were packed into shards to save space."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

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


def pack(folder, shards, clips, frames):
    """Quiet recordings: most of the 16-bit values are small."""
    rng = np.random.default_rng(0)
    for shard in range(shards):
        spectrograms = rng.normal(0, 40, (clips, 128, frames)).astype(np.int16)
        labels = rng.integers(0, 50, clips)
        np.savez_compressed(folder / f"shard_{shard:03d}.npz", spectrograms=spectrograms, labels=labels)


class SoundShards(Dataset):
    def __init__(self, folder, clips, length):
        self.shards = sorted(folder.glob("shard_*.npz"))
        self.clips, self.length = clips, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        shard, clip = divmod(index % (len(self.shards) * self.clips), self.clips)
        packed = np.load(self.shards[shard])
        spectrogram, label = packed["spectrograms"][clip], packed["labels"][clip]
        return torch.from_numpy(spectrogram), int(label)


class SoundTransformer(nn.Module):
    """Columns of four frames are the tokens."""

    def __init__(self, frames, width, depth):
        super().__init__()
        self.enter = nn.Linear(128 * 4, width)
        self.position = nn.Parameter(torch.randn(frames // 4, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // 64), 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 50)

    def forward(self, spectrograms):
        columns = spectrograms.unflatten(2, (-1, 4)).permute(0, 2, 1, 3).flatten(2)
        return self.head(self.encoder(self.enter(columns) + self.position).mean(1))


def mask_bands(spectrograms):
    """A part of SpecAugment, the same for the whole batch."""
    start = int(torch.randint(0, 112, ()))
    spectrograms[:, start : start + 16] = 0
    return spectrograms


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--data", help="folder for the shards (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, clips, frames, width, depth, workers = (4, 8, 32, 32, 1, 2) if args.tiny else (96, 48, 256, 512, 6, 12)
    with tempfile.TemporaryDirectory(dir=args.data) as folder:
        pack(Path(folder), 3 if args.tiny else 16, clips, frames)
        sounds = SoundShards(Path(folder), clips, batch * args.steps)
        loader = DataLoader(sounds, batch, shuffle=True, num_workers=workers, pin_memory=device == "cuda")
        model = SoundTransformer(frames, width, depth).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device == "cuda")
        meter = Meter()
        for spectrograms, labels in loader:
            spectrograms = mask_bands(spectrograms.to(device, non_blocking=True).float().div_(40))
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(spectrograms), labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            meter.step()
        print(f"loss {loss.item():.3f}")
    meter.report()


if __name__ == "__main__":
    main()
