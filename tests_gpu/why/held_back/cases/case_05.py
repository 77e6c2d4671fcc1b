"""A video transformer on float clips that are kept in memory."""

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


class Clips(Dataset):
    """Random windows of a few long recordings, (time, channels, height, width) in float32."""

    def __init__(self, length, frames, side):
        rng = np.random.default_rng(0)
        self.recordings = rng.standard_normal((4, 4 * frames, 3, side, side), dtype=np.float32)
        self.length, self.frames = length, frames

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        start = int(torch.randint(0, 3 * self.frames, ()))
        clip = self.recordings[index % 4, start : start + self.frames]
        return torch.from_numpy(clip), index % 100


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class VideoTransformer(nn.Module):
    def __init__(self, frames, side, patch, width, depth):
        super().__init__()
        self.patch = patch
        tokens = (frames // 2) * (side // patch) ** 2
        self.embed = nn.Linear(2 * 3 * patch * patch, width)
        self.position = nn.Parameter(torch.zeros(1, tokens, width))
        self.blocks = nn.Sequential(*(Block(width, width // 64) for _ in range(depth)))
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        b, t, c, h, w = x.shape
        p = self.patch
        x = x.view(b, t // 2, 2, c, h // p, p, w // p, p).permute(0, 1, 4, 6, 2, 3, 5, 7).flatten(4).flatten(1, 3)
        x = self.blocks(self.embed(x) + self.position)
        return self.head(x.mean(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    frames, side, batch = (4, 32, 2) if args.tiny else (16, 128, 48)
    width, depth = (64, 2) if args.tiny else (640, 6)
    loader = DataLoader(
        Clips(batch * (args.steps + 40), frames, side),
        batch_size=batch,
        num_workers=2 if args.tiny else 12,
        persistent_workers=True,
    )
    model = VideoTransformer(frames, side, 16, width, depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=device.type == "cuda")
    meter = Meter()
    for step, (clips, labels) in enumerate(loader):
        clips, labels = clips.to(device), labels.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(clips), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        meter.step()
        if step + 1 == args.steps:
            break
    print("loss", round(loss.item(), 3))
    meter.report()


if __name__ == "__main__":
    main()
