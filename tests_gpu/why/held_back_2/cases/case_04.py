# ruff: noqa: N812, T201
"""Node classification on a citation-like graph with a deep residual graph network."""

import argparse
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


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


class GraphConv(nn.Module):
    """Gated messages along the edges, averaged per node."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.message = nn.Linear(width, width)
        self.gate = nn.Linear(2 * width, 1)
        self.update = nn.Linear(2 * width, width)

    def forward(self, x, source, target, degree):
        h = self.norm(x)
        sent = self.message(h)[source]
        gate = torch.sigmoid(self.gate(torch.cat([sent, h[target]], dim=-1)))
        received = torch.zeros_like(h).index_add(0, target, gate * sent) / degree
        return x + F.relu(self.update(torch.cat([h, received], dim=-1)))


class DeepGCN(nn.Module):
    def __init__(self, features, width, depth, classes):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.layers = nn.ModuleList([GraphConv(width) for _ in range(depth)])
        self.last = nn.Linear(width, classes)

    def forward(self, x, source, target, degree):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, source, target, degree)
        return self.last(x)


def make_graph(nodes, edges, features, classes, device):
    labels = torch.randint(0, classes, (nodes,), device=device)
    x = torch.randn(nodes, features, device=device)
    x[:, :classes] += F.one_hot(labels, classes)
    source = torch.randint(0, nodes, (edges,), device=device)
    target = torch.randint(0, nodes, (edges,), device=device)
    degree = torch.bincount(target, minlength=nodes).clamp(min=1).unsqueeze(1).float()
    return x, labels, source, target, degree


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.autograd.set_detect_anomaly(True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    nodes, edges, width, depth = (50, 200, 16, 2) if args.tiny else (8_000, 40_000, 128, 24)
    x, labels, source, target, degree = make_graph(nodes, edges, 64, 16, device)
    known = torch.rand(nodes, device=device) < 0.5
    weight = known.float() / known.sum()
    model = DeepGCN(64, width, depth, 16).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device.type == "cuda")
    meter = Meter()
    for epoch in range(args.steps):
        model.train()
        out = model(x, source, target, degree)
        loss = (F.cross_entropy(out, labels, reduction="none") * weight).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
        if epoch % 25 == 0:
            print(f"epoch {epoch:03d} loss {loss.item():.4f}")
    meter.report()
