"""ResNet-50 after torchvision's reference training: mixed precision, channels last, worker processes."""

import argparse
import statistics
import time

import numpy as np
import torch
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


class DecodedImages(Dataset):
    """Images that were decoded and resized beforehand, as uint8; the normalisation happens on the device."""

    def __init__(self, length, side):
        rng = np.random.default_rng(0)
        self.images = rng.integers(0, 255, (512, 3, side, side), dtype=np.uint8)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return torch.from_numpy(self.images[index % 512]), index % 1000


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([123.675, 116.28, 103.53]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([58.395, 57.12, 57.375]).view(1, 3, 1, 1))

    def forward(self, x):
        return x.to(memory_format=torch.channels_last).float().sub_(self.mean).div_(self.std)


def train_one_epoch(model, normalise, criterion, optimizer, loader, device, scheduler, args):
    model.train()
    meter = Meter()
    running = torch.zeros((), device=device)
    for step, (image, target) in enumerate(loader):
        image = normalise(image.to(device, non_blocking=True))
        target = target.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = criterion(model(image), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.detach()
        meter.step()
        if step + 1 == args.steps:
            break
    print(f"mean loss {running.item() / args.steps:.3f}")
    meter.report()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side = (2, 32) if args.tiny else (192, 224)
    loader = DataLoader(
        DecodedImages(batch * (args.steps + 40), side),
        batch_size=batch,
        shuffle=True,
        num_workers=2 if args.tiny else 12,
        pin_memory=True,
        persistent_workers=True,
        drop_last=True,
    )
    model = (torchvision.models.resnet18 if args.tiny else torchvision.models.resnet50)(weights=None)
    model = model.to(device, memory_format=torch.channels_last)
    normalise = Normalise().to(device)
    parameters = torchvision.ops._utils.split_normalization_params(model)
    groups = [{"params": part, "weight_decay": decay} for part, decay in zip(parameters, (0.0, 1e-4)) if part]
    optimizer = torch.optim.SGD(groups, lr=0.02, momentum=0.9, fused=device.type == "cuda")
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    train_one_epoch(model, normalise, criterion, optimizer, loader, device, scheduler, args)


if __name__ == "__main__":
    main()
