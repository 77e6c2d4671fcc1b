"""Distributed training loops with one planted cause each: `torchrun … planted_ranks.py CAUSE`, two ranks over gloo."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch  # noqa: TID251  # it runs in the interpreter that has torch
import torch.distributed as dist  # noqa: TID251
from torch.nn.parallel import DistributedDataParallel  # noqa: TID251

STEPS = 30


def train(*, slow_rank: int | None = None, accumulate: int = 1, **options: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        model = DistributedDataParallel(torch.nn.Linear(512, 512), **options)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            for _ in range(accumulate):
                x = tokenize(slow=slow_rank == dist.get_rank())
                model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        dist.barrier()
    finally:
        dist.destroy_process_group()


def tokenize(*, slow: bool) -> torch.Tensor:
    if slow:
        time.sleep(0.1)
    return torch.randn(4, 512)


def straggler() -> None:
    train(slow_rank=1)


def accumulation() -> None:
    train(accumulate=4)


def unused() -> None:
    train(find_unused_parameters=True)


def spawned(rank: int, folder: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    store = dist.FileStore(folder + "/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(tokenize(slow=rank == 1)[:, :8]).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "spawned":
        torch.multiprocessing.spawn(spawned, args=(sys.argv[2],), nprocs=2)
    else:
        globals()[sys.argv[1]]()
