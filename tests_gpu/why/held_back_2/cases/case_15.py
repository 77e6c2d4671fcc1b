# ruff: noqa: N812, T201
"""A Llama-like language model: compiled layers, bf16, fused AdamW, batches copied ahead on a side stream."""

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
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cos, sin):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, c))


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1).to(x.dtype)


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attention = Attention(dim, heads)
        self.w13 = nn.Linear(dim, 2 * hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        gate, up = self.w13(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.w2(F.silu(gate) * up)


def head_loss(x, weight, targets):
    return F.cross_entropy(F.linear(x, weight).flatten(0, 1).float(), targets.flatten())


class Llama(nn.Module):
    def __init__(self, vocabulary, length, dim, depth, heads, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList([DecoderLayer(dim, heads, hidden) for _ in range(depth)])
        self.norm, self.head = nn.RMSNorm(dim), nn.Linear(dim, vocabulary, bias=False)
        half = dim // heads // 2
        angles = torch.arange(length)[:, None] * 10000 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        self.loss = head_loss

    def forward(self, tokens, targets):
        x = self.embed(tokens).to(torch.bfloat16)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return self.loss(self.norm(x), self.head.weight, targets)


class Prefetcher:
    """The next batch is copied from pinned memory while the present one is in use."""

    def __init__(self, tokens, batch, length, device):
        self.tokens, self.batch, self.length, self.device = tokens, batch, length, device
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
        self.load()

    def load(self):
        starts = torch.randint(0, len(self.tokens) - self.length - 1, (self.batch,)).tolist()
        chunk = torch.stack([self.tokens[start : start + self.length + 1] for start in starts])
        if self.stream is None:
            self.following = chunk.long()
            return
        with torch.cuda.stream(self.stream):
            self.following = chunk.pin_memory().to(self.device, non_blocking=True).long()

    def next(self):
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            self.following.record_stream(torch.cuda.current_stream())
        chunk = self.following
        self.load()
        return chunk[:, :-1], chunk[:, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vocabulary, length, dim, depth, hidden, batch = (
        (256, 32, 64, 2, 128, 2) if args.tiny else (32_000, 1024, 1024, 12, 2816, 24)
    )
    tokens = torch.randint(0, vocabulary, (4_000_000,), dtype=torch.int32)
    model = Llama(vocabulary, length, dim, depth, dim // 64, hidden).to(device)
    for layer in model.layers:  # one graph serves all of them
        layer.compile()
    model.loss = torch.compile(head_loss)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=device.type == "cuda"
    )
    batches = Prefetcher(tokens, batch, length, device)
    meter = Meter()
    for step in range(args.steps):
        x, y = batches.next()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(x, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        meter.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}, gradient norm {norm.item():.2f}")
    meter.report()


if __name__ == "__main__":
    main()
