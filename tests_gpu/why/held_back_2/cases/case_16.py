# ruff: noqa: N812, T201
"""A tower of residual blocks on 64 x 64 images: channels_last, bf16, compiled blocks, workers with little to do."""

import argparse
import statistics
import time

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


class Images(Dataset):
    """uint8 images in memory; a shifted crop and a flip, everything else is done on the device."""

    def __init__(self, count, side, length):
        self.images = torch.randint(0, 256, (count, 3, side + 8, side + 8), dtype=torch.uint8)
        self.labels = torch.randint(0, 100, (count,))
        self.side, self.length = side, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        index %= len(self.images)
        top, left, flip = torch.randint(0, 9, (3,)).tolist()
        image = self.images[index, :, top : top + self.side, left : left + self.side]
        return (image.flip(2) if flip < 4 else image), self.labels[index]


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


class Tower(nn.Module):
    def __init__(self, width, depth, classes=100):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=2, padding=1)
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(depth)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, width, depth, workers = (4, 16, 16, 2, 2) if args.tiny else (128, 64, 256, 16, 8)
    images = Images(64 if args.tiny else 8192, side, batch * (args.steps + 1))
    loader = DataLoader(
        images,
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
        prefetch_factor=4,
    )
    model = Tower(width, depth).to(device, memory_format=torch.channels_last)
    for block in model.blocks:
        block.compile()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True, fused=device.type == "cuda"
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=args.steps + 1)
    mean = torch.tensor([125.3, 123.0, 113.9], device=device).view(1, 3, 1, 1)
    correct = torch.zeros((), device=device)
    meter = Meter()
    for step, (inputs, labels) in enumerate(loader, start=1):
        inputs = inputs.to(device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(device, non_blocking=True)
        inputs = inputs.float().sub_(mean).div_(63.0)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            output = model(inputs)
            loss = F.cross_entropy(output, labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        correct += (output.argmax(1) == labels).sum()
        meter.step()
        if step == args.steps:
            break
    print(f"accuracy {correct.item() / step / batch:.4f}, loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
