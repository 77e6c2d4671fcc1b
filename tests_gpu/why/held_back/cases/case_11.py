"""A character language model with a layer-normalised LSTM."""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 96


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


class LSTMLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.from_input = nn.Linear(width, 4 * width)
        self.from_hidden = nn.Linear(width, 4 * width, bias=False)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.width)
        c = x.new_zeros(x.shape[0], self.width)
        outputs = []
        for t in range(x.shape[1]):
            gates = self.from_input(x[:, t]) + self.from_hidden(h)
            i, f, g, o = gates.chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class CharModel(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(LSTMLayer(width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids):
        x = self.embed(ids)
        for layer, norm in zip(self.layers, self.norms):
            x = norm(x + layer(x))
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, length, width = (2, 12, 16) if args.tiny else (64, 96, 512)
    text = torch.randint(0, VOCABULARY, (100_000,), device=device)
    model = CharModel(width, 2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=device.type == "cuda")
    offsets = torch.arange(length + 1, device=device)
    meter = Meter()
    for _ in range(args.steps):
        starts = torch.randint(0, len(text) - length - 1, (batch, 1), device=device)
        chunk = text[starts + offsets]
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        meter.step()
    print("loss", loss.item())
    meter.report()


if __name__ == "__main__":
    main()
