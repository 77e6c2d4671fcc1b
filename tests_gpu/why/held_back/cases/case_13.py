"""Fine-grained classification with torchvision's ResNet in mixed precision; the images fit on the device."""

import argparse
import statistics
import time

import torch
import torchvision
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


class DeviceBatches:
    """Random batches of images that are on the device already, flipped at random and normalised."""

    def __init__(self, count, side, batch, device):
        self.images = torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, device=device)
        self.labels = torch.randint(0, 200, (count,), device=device)
        self.mean = torch.tensor([123.7, 116.3, 103.5], device=device).view(1, 3, 1, 1)
        self.deviation = torch.tensor([58.4, 57.1, 57.4], device=device).view(1, 3, 1, 1)
        self.batch = batch

    def next(self):
        chosen = torch.randint(0, len(self.images), (self.batch,), device=self.images.device)
        images = (self.images[chosen].float() - self.mean) / self.deviation
        flipped = torch.rand(self.batch, 1, 1, 1, device=images.device) < 0.5
        return torch.where(flipped, images.flip(3), images), self.labels[chosen]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    side, batch = (32, 2) if args.tiny else (224, 128)
    batches = DeviceBatches(4 * batch, side, batch, device)
    model = (torchvision.models.resnet18 if args.tiny else torchvision.models.resnet50)(num_classes=200)
    model = model.to(device)
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-5)
    criterion = nn.CrossEntropyLoss()
    meter = Meter()
    for step in range(args.steps):
        images, labels = batches.next()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = criterion(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        meter.step()
        if step % 40 == 39:
            print(f"[{step + 1}/{args.steps}] loss {loss.item():.3f}")
    meter.report()


if __name__ == "__main__":
    main()
