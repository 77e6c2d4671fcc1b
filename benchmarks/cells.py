"""The cost of each cell of letting earlier output leave the kernel first (`ownlab_guest.kernel.output_flush`).

One kernel runs the same trivial cells with and without it, in turn: as in Run all, and one after the other as the page gets
their results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]
from benchmarks.rows import row
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

__all__ = ["cells_rows"]

CELLS = 500
CELL = "value = 1"
PRINT = "print('line')"
PREPARE = """
from ownlab_guest.kernel.output_flush import OutputFlush
flushed_kernel, flush = get_ipython().kernel, OutputFlush(get_ipython().kernel.iopub_thread)
def flush_cell(info):
    flush.finish()
"""
ON = "flush.follow(flushed_kernel); get_ipython().events.register('pre_run_cell', flush_cell)"
OFF = "del flushed_kernel._publish_status; get_ipython().events.unregister('pre_run_cell', flush_cell)"


class Taken(NamedTuple):
    """Seconds that cells took, and those that the kernel had a processor for them."""

    wall: float
    processor: float


def cells_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of cells."""
    with _kernel() as (client, process):
        _run_one(client, PREPARE)
        names = {
            "of Run all": _pairs(client, process, _all_at_once, CELL, rounds),
            "one after the other": _pairs(client, process, _one_after_the_other, CELL, rounds),
            "that print, one after the other": _pairs(client, process, _one_after_the_other, PRINT, rounds),
        }
    rows = []
    for name, pairs in names.items():
        walls = [(ours.wall, theirs.wall) for ours, theirs in pairs]
        processors = [(ours.processor, theirs.processor) for ours, theirs in pairs]
        rows.append(row(f"{CELLS} cells {name}, earlier output let out before each / without", walls, "1.02"))
        rows.append(row("the same, processor time of the kernel", processors, ""))
    return rows


@contextmanager
def _kernel() -> Iterator[tuple[BlockingKernelClient, psutil.Process]]:
    manager = KernelManager(kernel_name="python3", transport="ipc")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=90)
        yield client, psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def _pairs(
    client: BlockingKernelClient,
    process: psutil.Process,
    run: Callable[[BlockingKernelClient, str], None],
    cell: str,
    rounds: int,
) -> list[tuple[Taken, Taken]]:
    def measure() -> Taken:
        before, began = process.cpu_times(), time.perf_counter()
        run(client, cell)
        wall, after = time.perf_counter() - began, process.cpu_times()
        return Taken(wall, after.user + after.system - before.user - before.system)

    pairs = []
    for _ in range(rounds):
        _run_one(client, ON)
        with_it = measure()
        _run_one(client, OFF)
        pairs.append((with_it, measure()))
    return pairs


def _all_at_once(client: BlockingKernelClient, cell: str) -> None:
    _await_idle(client, {client.execute(cell) for _ in range(CELLS)})


def _one_after_the_other(client: BlockingKernelClient, cell: str) -> None:
    for _ in range(CELLS):
        _run_one(client, cell)


def _run_one(client: BlockingKernelClient, code: str) -> None:
    _await_idle(client, {client.execute(code)})


def _await_idle(client: BlockingKernelClient, asked: set[str]) -> None:
    """Wait until these executions have ended, and their replies are there. SystemExit if one failed."""
    left = set(asked)
    while left:
        message = client.get_iopub_msg(timeout=90)
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            left.discard(message["parent_header"].get("msg_id"))
    left = set(asked)
    while left:
        reply = client.get_shell_msg(timeout=90)
        left.discard(reply["parent_header"].get("msg_id"))
        if reply["content"]["status"] != "ok":
            raise SystemExit(f"A cell failed: {reply['content']}")
