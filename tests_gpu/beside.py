"""Our measurements beside others' of the same thing, one after the other in one process: `python tests_gpu/beside.py`; prints JSON."""

from __future__ import annotations

import json
import statistics
import sys

import torch
from triton.testing import do_bench

from ownlab_guest.bench import device, torch_operations
from ownlab_guest.bench.request import Request

SIZE, MIB = 8192, 1024
# The card's clock follows its power: both sides must work for about as long.
ROUNDS, SECONDS = 5, 1.5


def product_by_triton() -> float:
    """Seconds of one product, as Triton's own clock has it: the cache is cleared before each."""
    left, right = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    result = torch.empty_like(left)
    milliseconds = do_bench(lambda: torch.mm(left, right, out=result), warmup=300, rep=1200, return_mode="median")
    return float(milliseconds) / 1000


def copy_by_hand(count: int = 200) -> float:
    """Seconds of one copy, as one would write it."""
    source = torch.randn(MIB << 18, device="cuda")
    target = torch.empty_like(source)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(20):
        target.copy_(source)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(count):
        target.copy_(source)
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / count


def main() -> None:
    """Medians of each round, ours and theirs."""
    target = device.find_device(Request())
    timings: dict[str, dict[str, list[float]]] = {
        "product": {"ours": [], "theirs": []},
        "copy": {"ours": [], "theirs": []},
    }
    for _ in range(ROUNDS):
        ours = torch_operations.product(target, SECONDS, "bf16", SIZE)
        timings["product"]["ours"].append(statistics.median(ours.seconds))
        timings["product"]["theirs"].append(product_by_triton())
        ours = torch_operations.copy_within(target, SECONDS, MIB)
        timings["copy"]["ours"].append(statistics.median(ours.seconds))
        timings["copy"]["theirs"].append(copy_by_hand())
    sys.stdout.write(json.dumps({**timings, "notes": target.notes}))


if __name__ == "__main__":
    main()
