"""A vision transformer, written out, in mixed precision."""

import argparse
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


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, side=224, patch=16, dim=384, depth=24, heads=6, classes=1000):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, dim) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, images):
        x = self.embed(F.unfold(images, self.patch, stride=self.patch).transpose(1, 2))
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.position
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def gradients_are_fine(model):
    for parameter in model.parameters():
        if torch.isnan(parameter.grad).any() or torch.isinf(parameter.grad).any():
            return False
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side = (2, 32) if args.tiny else (48, 224)
    model = ViT(side, dim=48 if args.tiny else 384, depth=2 if args.tiny else 24).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05, fused=device.type == "cuda")
    # The whole (small) data set lives on the device.
    images = torch.randint(0, 256, (8 * batch, 3, side, side), dtype=torch.uint8, device=device)
    labels = torch.randint(0, 1000, (8 * batch,), device=device)
    skipped = 0
    meter = Meter()
    for step in range(args.steps):
        chosen = slice(step % 8 * batch, (step % 8 + 1) * batch)
        inputs = images[chosen].float().div_(127.5).sub_(1)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(inputs), labels[chosen])
        loss.backward()
        if gradients_are_fine(model):
            optimizer.step()
        else:
            skipped += 1
        optimizer.zero_grad(set_to_none=True)
        meter.step()
    print(f"loss {loss.item():.3f}, {skipped} steps skipped")
    meter.report()


if __name__ == "__main__":
    main()
