"""A loop without workers that collects garbage in each step: two changes that are better together.

Both causes sleep, which the load of the machine does not change; collecting for real takes long on a busy one.
"""

from __future__ import annotations

import gc
import time
from typing import Any


def collect(generation: int = 2) -> int:
    time.sleep(0.04)
    return 0


gc.collect = collect  # before torch is imported, as if Python itself were slow

import torch  # noqa: E402, TID251  # it runs in the interpreter that has torch
from torch.utils.data import DataLoader, Dataset  # noqa: E402, TID251


class Samples(Dataset):  # type: ignore[misc]  # mypy does not see torch
    def __len__(self) -> int:
        return 2000

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.01)
        return torch.full((16,), index / 2000), index % 4


def main() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Samples(), batch_size=8)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gc.collect()


if __name__ == "__main__":
    main()
