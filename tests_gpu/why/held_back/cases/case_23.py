"""An image classifier (ConvNet with residual stages) with Lightning."""

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


class Thumbnails(Dataset):
    def __init__(self, length, side, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randint(0, 256, (1024, 3, side, side), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, 200, (1024,), generator=generator)
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.images[index % 1024], self.labels[index % 1024]


class Stage(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.reduce = nn.Conv2d(inside, outside, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(outside)
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)) for _ in range(3)
        )

    def forward(self, x):
        x = F.relu(self.norm(self.reduce(x)))
        for layer in self.body:
            x = F.relu(x + layer(x))
        return x


class LitClassifier(pl.LightningModule):
    def __init__(self, width, total_steps):
        super().__init__()
        self.save_hyperparameters()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        self.stages = nn.Sequential(
            Stage(width, 2 * width), Stage(2 * width, 4 * width), Stage(4 * width, 8 * width), nn.AdaptiveAvgPool2d(1)
        )
        self.head = nn.Linear(8 * width, 200)

    def forward(self, x):
        x = x.to(memory_format=torch.channels_last).float().div(255)
        return self.head(self.stages(self.stem(x)).flatten(1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self(x), y))

    def configure_optimizers(self):
        fused = torch.cuda.is_available()
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.02, fused=fused)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=self.hparams.total_steps + 1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class MeterCallback(pl.Callback):
    def __init__(self):
        self.meter = Meter()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.meter.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    pl.seed_everything(7)
    torch.set_float32_matmul_precision("high")
    batch, side, width = (2, 16, 8) if args.tiny else (512, 64, 96)
    common = {"batch_size": batch, "num_workers": 2 if args.tiny else 8, "pin_memory": True, "persistent_workers": True}
    train_loader = DataLoader(Thumbnails(batch * 400, side, 0), shuffle=True, drop_last=True, **common)
    val_loader = DataLoader(Thumbnails(batch * 4, side, 1), **common)
    module = LitClassifier(width, args.steps).to(memory_format=torch.channels_last)
    callback = MeterCallback()
    trainer = pl.Trainer(
        max_steps=args.steps,
        accelerator="auto",
        devices=1,
        precision="bf16-mixed" if torch.cuda.is_available() else "32-true",
        benchmark=True,
        gradient_clip_val=1.0,
        log_every_n_steps=50,
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
