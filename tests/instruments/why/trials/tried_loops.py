"""Training loops with one planted cause each that can be removed from outside: `python tried_loops.py CAUSE`.

Data are slow by sleeping, which the load of the machine does not change. They are drawn from the index, so that every run has the same.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch  # noqa: TID251  # it runs in the interpreter that has torch
from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: TID251

STEPS = 120
BATCH = 8


class Samples(Dataset):  # type: ignore[misc]  # mypy does not see torch
    def __init__(self, *, read_ms: float = 0.0, count: int = STEPS * BATCH) -> None:
        self.read_ms, self.count = read_ms, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if self.read_ms:
            time.sleep(self.read_ms / 1e3)
        return torch.full((16,), index / self.count), index % 4


class Stream(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[Any]:
        for index in range(STEPS * BATCH):
            time.sleep(0.003)
            yield torch.full((16,), index / STEPS / BATCH), index % 4


def small_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def train(loader: Any, *, epochs: int = 1, after_step: Any = None) -> None:
    torch.set_num_threads(1)
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for x, y in loader:
            time.sleep(0.005)  # a step that no change makes shorter
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if after_step is not None:
                after_step()


def no_workers() -> None:
    train(DataLoader(Samples(read_ms=5), batch_size=BATCH))


def no_workers_shuffled() -> None:
    train(DataLoader(Samples(read_ms=5), batch_size=BATCH, shuffle=True))


def no_workers_stream() -> None:
    train(DataLoader(Stream(), batch_size=BATCH))


def few_workers() -> None:
    train(DataLoader(Samples(read_ms=15), batch_size=BATCH, num_workers=1))


def workers_restarted() -> None:
    train(DataLoader(Samples(count=3 * BATCH), batch_size=BATCH, num_workers=1), epochs=40)


def collate_in_main() -> None:
    def collate(samples: list[Any]) -> Any:
        time.sleep(0.04)
        return torch.utils.data.default_collate(samples)

    train(DataLoader(Samples(), batch_size=BATCH, collate_fn=collate))


def garbage_collection() -> None:
    kept = [[number] for number in range(200_000)]
    train(DataLoader(Samples(), batch_size=BATCH), after_step=lambda: gc.collect())  # looked up when it is called
    assert kept


def many_threads() -> None:
    torch.set_num_threads(64)
    weights = torch.nn.Parameter(torch.ones(70_000))
    optimizer = torch.optim.SGD([weights], lr=0.001)
    for _ in range(STEPS):
        values = weights
        for _ in range(60):
            values = values * 1.0001
        loss = values.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def unfused_optimizer() -> None:
    torch.set_num_threads(1)
    model = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(400)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for _ in range(STEPS):
        loss = sum(layer.weight.square().sum() + layer.bias.sum() for layer in model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
