"""Semantic segmentation: a residual encoder with dilated convolutions, and the mean IoU of the training batches."""

import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 21


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


class Scenes(Dataset):
    """Pictures of rectangles with the mask of what is where."""

    def __init__(self, length, side):
        rng = np.random.default_rng(0)
        self.length = length
        self.images = rng.integers(0, 255, (64, 3, side, side), dtype=np.uint8)
        self.masks = np.zeros((64, side, side), dtype=np.uint8)
        for mask in self.masks:
            for _ in range(12):
                top, left = rng.integers(0, side - side // 4, 2)
                mask[top : top + side // 4, left : left + side // 4] = rng.integers(1, CLASSES)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        image, mask = self.images[index % 64], self.masks[index % 64]
        if index % 2:
            image, mask = image[:, :, ::-1].copy(), mask[:, ::-1].copy()
        return torch.from_numpy(image), torch.from_numpy(mask)


class Residual(nn.Module):
    def __init__(self, inside, outside, stride=1, dilation=1):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(outside), nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, dilation, dilation, bias=False), nn.BatchNorm2d(outside),
        )  # fmt: skip
        change = stride != 1 or inside != outside
        self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False) if change else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class SegNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w), nn.ReLU(),
            Residual(w, w), Residual(w, 2 * w, stride=2), Residual(2 * w, 2 * w),
            Residual(2 * w, 4 * w, stride=2), Residual(4 * w, 4 * w, dilation=2), Residual(4 * w, 4 * w, dilation=4),
        )  # fmt: skip
        self.head = nn.Conv2d(4 * w, CLASSES, 1)

    def forward(self, x):
        return F.interpolate(self.head(self.encoder(x)), size=x.shape[-2:], mode="bilinear")


def mean_iou(logits, masks):
    predicted = logits.argmax(1).cpu().numpy()
    masks = masks.cpu().numpy()
    scores = []
    for number in range(CLASSES):
        mine, truth = predicted == number, masks == number
        union = np.logical_or(mine, truth).sum()
        if union:
            scores.append(np.logical_and(mine, truth).sum() / union)
    return float(np.mean(scores))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width = (2, 32, 8) if args.tiny else (24, 384, 64)
    loader = DataLoader(
        Scenes(batch * (args.steps + 40), side), batch, num_workers=2 if args.tiny else 8, pin_memory=True
    )
    model = SegNet(width).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    history = []
    meter = Meter()
    for step, (images, masks) in enumerate(loader):
        if step == args.steps:
            break
        images = images.to(device, non_blocking=True).float().div(255).contiguous(memory_format=torch.channels_last)
        masks = masks.to(device, non_blocking=True).long()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(images)
            loss = F.cross_entropy(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(mean_iou(logits.detach(), masks))
        meter.step()
    print(f"loss {loss.item():.3f}, mean IoU {np.mean(history):.3f}")
    meter.report()


if __name__ == "__main__":
    main()
