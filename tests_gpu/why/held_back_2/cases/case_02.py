# ruff: noqa: N812, T201
"""Fine-grained classification of photographs (1280 x 960 JPEG files)."""

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageFilter, ImageOps
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


def make_photographs(folder, count, size):
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = rng.integers(0, 255, (size[1] // 32, size[0] // 32, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(size, Image.Resampling.BILINEAR).save(folder / f"{number:04d}.jpg", quality=90)


class Augment:
    """Rotation, blur, crop and flip of a photograph."""

    def __init__(self, side):
        self.side = side

    def __call__(self, image):
        image = image.rotate(random.uniform(-15, 15), resample=Image.Resampling.BICUBIC)
        if random.random() < 0.8:
            image = image.filter(ImageFilter.GaussianBlur(image.width * random.uniform(0.001, 0.003)))
        width, height = image.size
        edge = int(min(width, height) * random.uniform(0.6, 0.9))
        left, top = random.randint(0, width - edge), random.randint(0, height - edge)
        image = image.resize((self.side, self.side), box=(left, top, left + edge, top + edge))
        return ImageOps.mirror(image) if random.random() < 0.5 else image


class Photographs(Dataset):
    def __init__(self, folder, repeats, augment):
        self.paths = sorted(folder.glob("*.jpg")) * repeats
        self.augment = augment

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        return torch.from_numpy(np.array(self.augment(image))), index % 100


def conv(inside, outside, stride=1):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)
    )


def network(width):
    layers, inside = [conv(3, width, 2)], width
    for outside in (2 * width, 4 * width, 8 * width):
        layers += [conv(inside, outside, 2), conv(outside, outside), conv(outside, outside)]
        inside = outside
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 100))


def train(args, folder):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, workers = (2, 32, 4, 2) if args.tiny else (32, 160, 64, 14)
    make_photographs(folder, 8 if args.tiny else 64, (128, 96) if args.tiny else (1280, 960))
    photographs = Photographs(folder, 200, Augment(side))
    loader = DataLoader(
        photographs,
        batch_size=batch,
        shuffle=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
        drop_last=True,
    )
    model = network(width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    meter = Meter()
    for step, (images, labels) in enumerate(loader, start=1):
        images = images.to(device, non_blocking=True).permute(0, 3, 1, 2).float().div_(255)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
        if step == args.steps:
            break
    print(f"loss {loss.item():.3f}")
    meter.report()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--data", help="folder for the photographs (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory(dir=options.data) as temporary:
        train(options, Path(temporary))
