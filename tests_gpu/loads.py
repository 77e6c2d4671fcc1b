"""Kinds of work that a card can be given, each in a process of its own: `python -m tests_gpu.loads NAME`.

Prints "ready" once the load is steady, and runs until it is stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["LOADS"]

GIB = 1024**3


def _torch() -> Any:
    import torch

    torch.cuda.init()
    return torch


def _ready(torch: Any) -> None:
    torch.cuda.synchronize()
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def _held() -> None:
    """Memory taken, and nothing done with it."""
    torch = _torch()
    kept = torch.ones(20 * GIB, dtype=torch.uint8, device="cuda")
    _ready(torch)
    while kept is not None:
        time.sleep(1)


def _tiny() -> None:
    """One block of one kernel after the other: a card that is "100 % busy" with one of its multiprocessors."""
    torch = _torch()
    tensor = torch.ones(32, device="cuda")
    torch.cuda._sleep(1_000_000)
    _ready(torch)
    while tensor is not None:
        for _ in range(50):
            torch.cuda._sleep(2_000_000)  # a kernel of one thread
        torch.cuda.synchronize()


def _product(dtype: str, side: int, *, tf32: bool = False) -> None:
    torch = _torch()
    torch.backends.cuda.matmul.allow_tf32 = tf32
    left, right = (torch.randn(side, side, device="cuda", dtype=getattr(torch, dtype)) for _ in range(2))
    torch.matmul(left, right)
    _ready(torch)
    while True:
        for _ in range(20):
            torch.matmul(left, right)
        torch.cuda.synchronize()


def _copy() -> None:
    """From one end of the card's memory to the other."""
    torch = _torch()
    source = torch.ones(4 * GIB, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    _ready(torch)
    while True:
        for _ in range(50):
            target.copy_(source)
        torch.cuda.synchronize()


def _starved() -> None:
    """A training loop that waits for its data: the host makes a batch for a while, then the card works for a while."""
    torch = _torch()
    layer = torch.nn.Sequential(*[torch.nn.Linear(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(8)])
    batch = torch.empty(8192, 8192, pin_memory=True, dtype=torch.bfloat16)
    layer(batch.cuda())
    _ready(torch)
    while True:
        until = time.perf_counter() + 0.09  # as decoding does, one core works
        while time.perf_counter() < until:
            sum(range(1000))
        layer(batch.to("cuda", non_blocking=True)).sum().item()


def _upload() -> None:
    """From the host's pinned memory to the card, and hardly any work there."""
    torch = _torch()
    source = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    target.copy_(source, non_blocking=True)
    _ready(torch)
    while True:
        for _ in range(10):
            target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()


def _small_batches() -> None:
    """A small network at batch size 1: many kernels, each too small for the card."""
    torch = _torch()
    layers = [layer for _ in range(16) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    network = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(network.parameters())
    batch = torch.randn(1, 256, device="cuda")
    network(batch).sum().backward()
    _ready(torch)
    while True:
        for _ in range(20):
            optimizer.zero_grad()
            network(batch).sum().backward()
            optimizer.step()
        torch.cuda.synchronize()


def _transformer() -> None:
    """A layer of a transformer trained in bfloat16, as it should be."""
    torch = _torch()
    layer = torch.nn.TransformerEncoderLayer(4096, 32, 16384, batch_first=True, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    batch = torch.randn(16, 1024, 4096, device="cuda", dtype=torch.bfloat16)
    layer(batch).sum().backward()
    _ready(torch)
    while True:
        optimizer.zero_grad()
        layer(batch).float().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()


LOADS: dict[str, Callable[[], None]] = {
    "held": _held,
    "tiny": _tiny,
    "bf16": lambda: _product("bfloat16", 8192),
    "fp32": lambda: _product("float32", 8192),
    "tf32": lambda: _product("float32", 8192, tf32=True),
    "fp64": lambda: _product("float64", 8192),
    "copy": _copy,
    "starved": _starved,
    "upload": _upload,
    "small-batches": _small_batches,
    "transformer": _transformer,
}


if __name__ == "__main__":
    LOADS[sys.argv[1]]()
