"""Sorts the events of a trace: steps, work of each GPU, what the host did.

The names and categories are those of Kineto, from PyTorch 1.8 ("Operator", "Kernel", "Runtime") to 2.x ("cpu_op", "kernel", "cuda_runtime"), and
of ROCm, whose runtime has "hip" for "cuda".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ownlab.instruments.why.trace.intervals import IntervalCollector

__all__ = ["HOST_PARTS", "Totals", "Trace", "TraceReader"]

# What the host does, the first that applies: a copy within the optimizer is a copy.
HOST_PARTS = ("data", "sync", "cache", "copy", "optimizer", "backward", "forward")

_RUNTIME = frozenset(("cuda_runtime", "cuda_driver", "runtime"))
_ON_GPU = frozenset(("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"))
_OPERATORS = frozenset(("cpu_op", "operator", "user_annotation"))
_VENDOR = re.compile(r"^(?:cuda|hip|cu)(?=[A-Z])")
_ALLOCATION = ("Malloc", "Free", "HostAlloc", "HostMalloc", "HostFree", "MemAlloc", "MemFree", "MemCreate", "MemRelease", "MemMap", "MemUnmap")  # fmt: skip
_COLLECTIVE = re.compile(r"nccl(?:Dev)?Kernel|ncclKernel|rccl", re.IGNORECASE)
_LAYOUT = re.compile(r"nchwToNhwc|nhwcToNchw", re.IGNORECASE)
_STEP = "ProfilerStep#"
_MOST_NAMES = 20_000
_LONGEST_NAME = 160
# Microseconds: a kernel that is shorter takes the GPU less time than the host needs to launch it.
_SHORT_US = 10.0


class Totals:
    """Count and time by name."""

    def __init__(self) -> None:
        self.of: dict[str, list[float]] = {}

    def add(self, name: str, duration: float, size: int = 0) -> None:
        """Add one event, in microseconds."""
        name = name[:_LONGEST_NAME]
        known = self.of.get(name)
        if known is None:
            if len(self.of) >= _MOST_NAMES:
                return
            known = self.of[name] = [0, 0.0, 0]
        known[0] += 1
        known[1] += duration
        known[2] += size


class Trace:
    """What was read, before it is divided by steps."""

    def __init__(self) -> None:
        self.events = 0
        self.steps: list[tuple[int, int]] = []
        self.optimizer_ends: list[int] = []
        self.host = {name: IntervalCollector() for name in HOST_PARTS}
        self.gpus: dict[str, IntervalCollector] = {}
        self.collectives = IntervalCollector()
        self.computing = IntervalCollector()  # kernels that are no collectives
        self.kernels, self.operators, self.runtime, self.copies = Totals(), Totals(), Totals(), Totals()
        self.syncs: list[tuple[int, int]] = []
        self.layout_us = 0.0
        self.short_kernels = 0
        self.launches = 0
        self.loaders: set[str] = set()  # kinds of iterators of DataLoaders


class TraceReader:
    """Takes events in any order."""

    def __init__(self) -> None:
        self.trace = Trace()

    def read(self, events: Iterable[dict[str, Any]]) -> None:
        """Read all events. Those that have no time are left out."""
        for event in events:
            self.trace.events += 1
            if event.get("ph") != "X":
                continue
            try:
                begin, duration = float(event["ts"]), float(event.get("dur") or 0)
                span = round(begin * 1000), round((begin + duration) * 1000)
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
            name, kind = event.get("name"), event.get("cat")
            if not isinstance(name, str) or not isinstance(kind, str) or duration < 0:
                continue
            self._sort(kind.lower(), name, span, duration, event.get("args"))

    def _sort(self, kind: str, name: str, span: tuple[int, int], duration: float, details: Any) -> None:
        details = details if isinstance(details, dict) else {}
        if kind in _ON_GPU:
            self._add_gpu(kind, name, span, duration, details)
        elif kind in _RUNTIME:
            self._add_runtime(name, span, duration)
        elif kind in _OPERATORS:
            self._add_operator(kind, name, span, duration)

    def _add_gpu(self, kind: str, name: str, span: tuple[int, int], duration: float, details: dict[str, Any]) -> None:
        trace = self.trace
        trace.gpus.setdefault(str(details.get("device", 0)), IntervalCollector()).add(*span)
        if kind != "kernel":
            size = details.get("bytes")
            trace.copies.add(name, duration, size if isinstance(size, int) else 0)
            return
        trace.kernels.add(name, duration)
        trace.short_kernels += duration < _SHORT_US
        trace.layout_us += duration if _LAYOUT.search(name) else 0.0
        (trace.collectives if _COLLECTIVE.search(name) else trace.computing).add(*span)

    def _add_runtime(self, name: str, span: tuple[int, int], duration: float) -> None:
        trace, function = self.trace, _VENDOR.sub("", name)
        if "Launch" in function:
            trace.launches += 1
        elif "Synchronize" in function or function in ("Memcpy", "MemcpyHtoD", "MemcpyDtoH"):
            trace.host["sync"].add(*span)
            trace.syncs.append(span)
            trace.runtime.add(name, duration)
        elif function.startswith(_ALLOCATION):
            trace.host["cache"].add(*span)
            trace.runtime.add(name, duration)
        elif function.startswith("Memcpy"):
            trace.host["copy"].add(*span)
            trace.runtime.add(name, duration)

    def _add_operator(self, kind: str, name: str, span: tuple[int, int], duration: float) -> None:
        trace = self.trace
        if name.startswith(_STEP):
            trace.steps.append(span)
        elif name.startswith("enumerate(DataLoader)"):
            trace.host["data"].add(*span)
            trace.loaders.add(name.partition("#")[2].partition(".")[0])
        elif name.startswith("Optimizer.step"):
            trace.host["optimizer"].add(*span)
            trace.optimizer_ends.append(span[1])
        elif name.startswith("Optimizer."):
            trace.host["optimizer"].add(*span)
        elif name.startswith("autograd::engine"):
            trace.host["backward"].add(*span)
        elif kind != "user_annotation":
            trace.host["forward"].add(*span)
            trace.operators.add(name, duration)
