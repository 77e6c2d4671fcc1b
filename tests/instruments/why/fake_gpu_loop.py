"""A training loop on a GPU that is not there: CPU torch, with a stand-in for torch.cuda whose clock runs behind the host's.

The stand-in is made before the first step. Work takes the GPU 3 ms for each forward, backward and optimizer step; it begins when it is
sent, or when the work before it is done.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import time
import types
import warnings
from typing import Any

import torch  # noqa: TID251  # it runs in the interpreter that has torch


class Clock:
    """When the GPU has done what was sent to it."""

    free_at = time.perf_counter()

    @classmethod
    def work(cls, seconds: float) -> None:
        cls.free_at = max(cls.free_at, time.perf_counter()) + seconds


class Event:
    made = 0

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        Event.made += 1
        self.at = 0.0
        self.pid = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.pid:
            os.abort()  # as CUDA's do in a forked process

    def record(self) -> None:
        self.at = max(Clock.free_at, time.perf_counter())

    def query(self) -> bool:
        return time.perf_counter() >= self.at

    def elapsed_time(self, end: Event) -> float:
        assert self.query(), "an event was read before the GPU had reached it"
        assert end.query(), "an event was read before the GPU had reached it"
        return (end.at - self.at) * 1e3


mode = 0


def set_mode(new: int) -> None:
    global mode
    mode = new


def synchronising_call() -> None:
    while time.perf_counter() < Clock.free_at:
        time.sleep(0.0001)
    if mode:
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=1)


def slow_closure(loss: torch.Tensor) -> torch.Tensor:
    time.sleep(0.02)
    return loss


def pretend() -> None:
    cuda: Any = torch.cuda
    cuda.Event = Event
    cuda.is_initialized = lambda: True
    cuda.is_current_stream_capturing = lambda: "capture" in sys.argv and 20 <= steps < 25
    cuda.current_device = lambda: 0
    cuda.get_device_properties = lambda index: types.SimpleNamespace(
        name="Stand-in", uuid="GPU-0", multi_processor_count=132, major=9, minor=0, total_memory=1 << 37
    )
    cuda.memory_stats = lambda: {"allocated_bytes.all.peak": 1 << 30, "num_device_alloc": steps}
    cuda.mem_get_info = lambda: (1 << 36, 1 << 37)
    cuda.get_sync_debug_mode = lambda: mode
    cuda.set_sync_debug_mode = set_mode
    hooks: Any = sys.modules["ownlab_guest.why.training_hooks"]
    describe = hooks.TrainingHooks._describe

    def on_gpu(self: Any, optimizer: Any) -> None:
        describe(self, optimizer)
        self.device = "cuda"

    hooks.TrainingHooks._describe = on_gpu
    if "broken" in sys.argv:
        Event.record = lambda self: 1 / 0  # type: ignore[method-assign, assignment]


steps = 0
if __name__ == "__main__":
    pretend()
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    data: Any = torch.utils.data.DataLoader(torch.randn(100_000, 64), batch_size=8)
    if "forks" in sys.argv:
        short = torch.utils.data.DataLoader(torch.randn(80, 64), batch_size=8, num_workers=1)
        data = itertools.chain.from_iterable(iter(short) for _ in range(100))
    own = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) if "profiles" in sys.argv else None
    for batch in data:
        if own is not None and steps == 12:
            own.start()
        if own is not None and steps == 16:
            own.stop()
        time.sleep(0.01)
        Clock.work(0.003)
        loss = model(batch).square().mean()
        Clock.work(0.003)
        loss.backward()
        Clock.work(0.003)
        if "closure" in sys.argv:
            optimizer.step(functools.partial(slow_closure, loss))
        else:
            optimizer.step()
        optimizer.zero_grad()
        synchronising_call()
        steps += 1
        if steps == 120:
            break
    warnings.warn("the script's own", stacklevel=1)
    if own is not None:
        sys.stdout.write(f"{len(own.events()) > 0} own events\n")
    sys.stdout.write(f"{Event.made} events, mode {mode}\n")
