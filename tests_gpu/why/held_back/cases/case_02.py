"""Image classification with a ResNet-50 on a folder of JPEG files."""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torchvision
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


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


def make_images(folder, count):
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        coarse.resize((500, 375), Image.BICUBIC).save(folder / f"{number:04d}.jpg", quality=92)


class JpegFolder(Dataset):
    def __init__(self, folder, length):
        self.paths = sorted(folder.glob("*.jpg"))
        self.length = length
        self.transform = transforms.Compose(
            [
                transforms.RandomResizedCrop(224, scale=(0.25, 1.0)),
                transforms.RandomHorizontalFlip(),
                transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
                transforms.ToTensor(),
                transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        return self.transform(image), index % 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--data", help="folder for the generated images (default: a temporary one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch_size = 2 if args.tiny else 48

    with tempfile.TemporaryDirectory(dir=args.data) as folder:
        make_images(Path(folder), 16 if args.tiny else 256)
        dataset = JpegFolder(Path(folder), batch_size * (args.steps + 50))
        loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=2, pin_memory=True)
        network = torchvision.models.resnet18 if args.tiny else torchvision.models.resnet50
        model = network(weights=None).to(device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        model.train()
        meter = Meter()
        for step, (images, labels) in enumerate(loader):
            if step == args.steps:
                break
            images = images.to(device, memory_format=torch.channels_last, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = criterion(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            meter.step()
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.3f}")
        meter.report()


if __name__ == "__main__":
    main()
