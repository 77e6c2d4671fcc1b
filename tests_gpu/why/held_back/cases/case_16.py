"""A compiled sequence tagger, trained on sequences that become longer during training."""

import argparse
import statistics
import time

import torch
import torch._dynamo
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


class Tagger(nn.Module):
    """Gated convolutions over the sequence."""

    def __init__(self, vocabulary, width, depth, tags):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.ModuleList(nn.Linear(3 * width, 2 * width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, tags)

    def forward(self, ids):
        x = self.embed(ids)
        for mix, norm in zip(self.mix, self.norms):
            h = norm(x)
            left, right = F.pad(h, (0, 0, 1, 0))[:, :-1], F.pad(h, (0, 0, 0, 1))[:, 1:]
            x = x + F.glu(mix(torch.cat([left, h, right], dim=-1)), dim=-1)
        return self.head(x)


def make_batch(batch, length, vocabulary, tags, device):
    ids = torch.randint(1, vocabulary, (batch, length), device=device)
    return ids, ids % tags


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 64
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, width, depth = (2, 16, 1) if args.tiny else (64, 512, 1)
    shortest, growth = (8, 2) if args.tiny else (128, 16)
    longest = shortest + growth * ((args.steps - 1) // 8)
    model = Tagger(5000, width, depth, 12).to(device)
    compiled = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    meter = Meter(window=8, warmup=8)
    for step in range(args.steps):
        length = min(longest, shortest + growth * (step // 8))
        ids, tags = make_batch(batch, length, 5000, 12, device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = compiled(ids)
        loss = F.cross_entropy(logits.float().flatten(0, 1), tags.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
    print(f"length {length}, loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
