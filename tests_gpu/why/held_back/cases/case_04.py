"""Property prediction on small molecule-like graphs with message passing (index_add, no graph library)."""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = 16


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


class RandomMolecules(Dataset):
    """Points in a box; those near each other are neighbours."""

    def __init__(self, length, nodes):
        self.length, self.nodes = length, nodes

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        count = int(rng.integers(self.nodes // 2, self.nodes))
        points = rng.random((count, 3), dtype=np.float32)
        distance = ((points[:, None] - points[None]) ** 2).sum(-1)
        source, target = np.nonzero((distance < 0.06) & (distance > 0))
        features = rng.standard_normal((count, FEATURES), dtype=np.float32)
        return {"x": features, "edges": np.stack([source, target]), "y": float(distance.mean())}


def merge_graphs(samples):
    """One big graph of all: node numbers are shifted by the nodes that came before."""
    nodes, sources, targets, owner, values = [], [], [], [], []
    offset = 0
    for number, sample in enumerate(samples):
        for row in sample["x"]:
            nodes.append([float(value) for value in row])
            owner.append(number)
        for source, target in sample["edges"].T:
            sources.append(int(source) + offset)
            targets.append(int(target) + offset)
        values.append(sample["y"])
        offset += len(sample["x"])
    return torch.tensor(nodes), torch.tensor([sources, targets]), torch.tensor(owner), torch.tensor(values)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message, self.update, self.norm = nn.Linear(width, width), nn.Linear(2 * width, width), nn.LayerNorm(width)

    def forward(self, h, edges):
        sent = self.message(h)[edges[0]]
        received = torch.zeros_like(h).index_add(0, edges[1], sent.to(h.dtype))
        return h + torch.relu(self.norm(self.update(torch.cat([h, received], dim=-1))))


class GraphNet(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x, edges, owner, graphs):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, edges)
        pooled = torch.zeros(graphs, h.shape[1], device=h.device, dtype=h.dtype).index_add(0, owner, h)
        return self.readout(pooled).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    graphs = 8 if args.tiny else 192
    dataset = RandomMolecules(graphs * (args.steps + 40), 20 if args.tiny else 60)
    loader = DataLoader(
        dataset, batch_size=graphs, shuffle=True, num_workers=2 if args.tiny else 12, collate_fn=list, drop_last=True
    )
    model = GraphNet(16 if args.tiny else 256, 2 if args.tiny else 6).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    meter = Meter()
    for step, samples in enumerate(loader):
        if step == args.steps:
            break
        batch = merge_graphs(samples)
        x, edges, owner, y = (tensor.to(device) for tensor in batch)
        loss = nn.functional.mse_loss(model(x, edges, owner, graphs), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.step()
    print(f"done, loss {loss.item():.4f}")
    meter.report()


if __name__ == "__main__":
    main()
