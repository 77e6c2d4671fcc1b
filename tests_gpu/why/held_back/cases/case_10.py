"""A small wide residual network on 32 x 32 images, with Lightning."""

import argparse
import logging
import statistics
import time
import warnings

import pytorch_lightning as pl
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


class Pictures(Dataset):
    def __init__(self, length, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randint(0, 256, (2048, 3, 32, 32), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, 100, (2048,), generator=generator)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.images[index % 2048], self.labels[index % 2048]


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(inside), nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(outside), nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        change = stride != 1 or inside != outside
        self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False) if change else nn.Identity()

    def forward(self, x):
        h = self.conv1(F.relu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.relu(self.norm2(h)))


class LitWideResNet(pl.LightningModule):
    def __init__(self, width):
        super().__init__()
        layers, current = [nn.Conv2d(3, 16, 3, padding=1)], 16
        for size, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
            for number in range(3):
                layers.append(Block(current, size, stride if number == 0 else 1))
                current = size
        self.model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(current, 100))

    def forward(self, images):
        images = images.float().div(255).contiguous(memory_format=torch.channels_last)
        return self.model(images)

    def training_step(self, batch, batch_index):
        images, labels = batch
        return F.cross_entropy(self(images), labels)

    def validation_step(self, batch, batch_index):
        images, labels = batch
        logits = self(images)
        self.log("val_loss", F.cross_entropy(logits, labels))
        self.log("val_accuracy", (logits.argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, nesterov=True)


class MeterCallback(pl.Callback):
    def __init__(self):
        self.meter = Meter()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    pl.seed_everything(0)
    batch = 4 if args.tiny else 256
    common = {"batch_size": batch, "num_workers": 2 if args.tiny else 6, "pin_memory": True, "persistent_workers": True}
    train_loader = DataLoader(Pictures(batch * 500, 0), shuffle=True, drop_last=True, **common)
    val_loader = DataLoader(Pictures(batch * (3 if args.tiny else 40), 1), **common)
    module = LitWideResNet(16 if args.tiny else 160).to(memory_format=torch.channels_last)
    callback = MeterCallback()
    trainer = pl.Trainer(
        max_steps=args.steps,
        accelerator="auto",
        devices=1,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        val_check_interval=10,
        num_sanity_val_steps=0,
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, train_loader, val_loader)
    callback.meter.report()


if __name__ == "__main__":
    main()
