"""ViT-B/16 in the manner of the timm training script: mixup on the device, EMA of the weights, clipping."""

import argparse
import copy
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
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, c))


class Block(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim), Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, img_size, dim, depth, num_heads, num_classes=1000, patch=16):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, (img_size // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.Sequential(*(Block(dim, num_heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, num_classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class ModelEma:
    def __init__(self, model, decay=0.9998):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(list(self.module.parameters()), list(model.parameters()), 1 - self.decay)


class SyntheticLoader:
    """Like the prefetcher of the script: uint8 batches are normalised on the device."""

    def __init__(self, batch, side, device, classes):
        self.images = torch.randint(0, 256, (4, batch, 3, side, side), dtype=torch.uint8, device=device)
        self.targets = torch.randint(0, classes, (4, batch), device=device)

    def batches(self, count):
        for number in range(count):
            yield self.images[number % 4].float().sub_(127.5).div_(127.5), self.targets[number % 4]


def mixup(images, targets, classes, strength):
    soft = F.one_hot(targets, classes).float()
    return (
        images.mul(strength).add_(images.flip(0), alpha=1 - strength),
        soft * strength + soft.flip(0) * (1 - strength),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(42)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, side, dim, depth = (2, 32, 64, 2) if args.tiny else (192, 224, 768, 12)
    model = VisionTransformer(side, dim, depth, max(1, dim // 64)).to(device)
    ema = ModelEma(model)
    for block in model.blocks:  # all blocks have the same code: it is compiled once
        block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=device.type == "cuda")
    loader = SyntheticLoader(batch, side, device, 1000)
    strengths = torch.distributions.Beta(0.8, 0.8).sample((args.steps,)).tolist()
    total = torch.zeros((), device=device)
    meter = Meter()
    for step, (images, targets) in enumerate(loader.batches(args.steps)):
        images, soft = mixup(images, targets, 1000, strengths[step])
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), soft)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        ema.update(model)
        total += loss.detach()
        meter.step()
    print(f"Train: loss {total.item() / args.steps:.4g}")
    meter.report()


if __name__ == "__main__":
    main()
