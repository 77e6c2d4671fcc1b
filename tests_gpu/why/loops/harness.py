"""What all loops share: `python LOOP.py slow|fixed [STEPS]` trains, and prints one line of JSON with the time of a step.

The clock starts after a third of the steps, and the GPU is waited for only there and at the end.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch

FIXED = sys.argv[1:2] == ["fixed"]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
torch.manual_seed(1)
if "LOOP_LOCK" in os.environ:  # one loop at a time uses the card; others may import meanwhile
    fcntl.flock(os.open(os.environ["LOOP_LOCK"], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)


def timed(batches: Iterable[Any], samples: int) -> Iterator[Any]:
    """Pass on batches for STEPS steps, and print how long a step took."""
    began, warm = 0.0, STEPS // 3
    if "LOOP_READY" in os.environ:  # somebody waits for the first step
        open(os.environ["LOOP_READY"], "w").close()
    first = time.perf_counter()
    for number, batch in enumerate(forever(batches)):
        if number == warm:
            torch.cuda.synchronize()
            began = time.perf_counter()
        if number == STEPS:
            break
        yield batch
    torch.cuda.synchronize()
    now = time.perf_counter()
    step = (now - began) / (STEPS - warm)
    sys.stdout.write(json.dumps({"step_ms": step * 1e3, "samples": samples, "loop_s": now - first}) + "\n")


def forever(batches: Iterable[Any]) -> Iterator[Any]:
    """Epoch after epoch."""
    while True:
        yield from batches


def same(*shape: int, classes: int = 0, count: int = 4, dtype: torch.dtype = torch.float32) -> list[tuple[Any, Any]]:
    """A few batches that are on the GPU already."""
    targets = (lambda: torch.randint(classes, shape[:1], device="cuda")) if classes else (lambda: None)
    return [(torch.randn(*shape, device="cuda", dtype=dtype), targets()) for _ in range(count)]
