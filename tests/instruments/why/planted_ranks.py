"""Distributed training loops with one planted cause each: `torchrun … planted_ranks.py CAUSE`, two ranks over gloo.

`planted_ranks.py forked FOLDER CAUSE…` forks the ranks itself, after one import of torch, and prints "PID CAUSE" for each.
"""

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
    store = os.environ.get("PLANTED_STORE")
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=dist.FileStore(store, world) if store else None, rank=rank, world_size=world)
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


def run_forked(folder: str, causes: list[str]) -> None:
    for cause in causes:
        ranks = []
        sys.stdout.flush()
        for rank in range(2):
            pid = os.fork()
            if pid == 0:
                os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "PLANTED_STORE": f"{folder}/{cause}"}
                globals()[cause]()
                return
            ranks.append(pid)
        for pid in ranks:
            _, status = os.waitpid(pid, 0)
            if status:
                sys.exit(f"{cause} ended with {os.waitstatus_to_exitcode(status)}")
            sys.stdout.write(f"{pid} {cause}\n")


if __name__ == "__main__":
    if sys.argv[1] == "forked":
        run_forked(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "spawned":
        torch.multiprocessing.spawn(spawned, args=(sys.argv[2],), nprocs=2)
    else:
        globals()[sys.argv[1]]()
