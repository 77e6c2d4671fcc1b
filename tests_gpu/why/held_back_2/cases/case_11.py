# ruff: noqa: N812, T201
"""Next-item prediction from logs of visits; the events are kept in Python lists, an Engine hides the device."""

import argparse
import gc
import random
import statistics
import time

import torch
import torch.nn.functional as F
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


class Engine:
    """Device, precision, optimizer and clean-up in one place, so that the loop stays short."""

    def __init__(self, bf16=True):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.bf16 = bf16

    def prepare(self, model, make_optimizer):
        self.model = model.to(self.device)
        self.optimizer = make_optimizer(self.model.parameters(), fused=self.device.type == "cuda")
        return self.model, self.optimizer

    def autocast(self):
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)

    def send(self, *tensors):
        pinned = (tensor.pin_memory() if self.device.type == "cuda" else tensor for tensor in tensors)
        return [tensor.to(self.device, non_blocking=True) for tensor in pinned]

    def free_memory(self):
        gc.collect()

    def backward(self, loss):
        loss.backward()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.free_memory()


class NextItem(nn.Module):
    def __init__(self, items, width, depth):
        super().__init__()
        self.items = nn.Embedding(items, width)
        layer = nn.TransformerEncoderLayer(width, max(1, width // 64), 2 * width, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)

    def forward(self, history):
        last = self.encoder(self.items(history))[:, -1]
        return last @ self.items.weight.T


def make_logs(visitors, visits, items):
    """Per visitor a list of [item, seconds] pairs, as read from JSON lines."""
    rng = random.Random(0)
    numbers = [rng.randrange(items) for _ in range(100_003)]
    return [
        [[numbers[(visitor * visits + visit) % 100_003], visit * 30] for visit in range(visits)]
        for visitor in range(visitors)
    ]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    visitors, visits, items, width, depth, batch = (
        (200, 16, 100, 32, 1, 8) if args.tiny else (12_000, 41, 20_000, 512, 4, 512)
    )
    logs = make_logs(visitors, visits, items)
    histories = torch.tensor([[item for item, _ in log] for log in logs])
    engine = Engine()
    model, _ = engine.prepare(NextItem(items, width, depth), torch.optim.AdamW)
    order = torch.randperm(visitors)
    meter = Meter()
    for step in range(args.steps):
        chosen = order[torch.arange(step * batch, (step + 1) * batch) % visitors]
        history, following = engine.send(histories[chosen, :-1], histories[chosen, -1])
        with engine.autocast():
            loss = F.cross_entropy(model(history), following)
        engine.backward(loss)
        engine.step()
        meter.step()
        if (step + 1) % 30 == 0:
            print(f"[{step + 1}] {sum(map(len, logs))} events, loss {loss.item():.3f}")
    meter.report()


if __name__ == "__main__":
    main()
