"""Reads the trace of a window of a few steps: which operator launched which kernels, in which part of a step.

The trace begins with an idle profiler and ends with a drained GPU, so the kernels in it are those of whole steps.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from ownlab.instruments.why.gpu.records import CopyKind, KernelWindow, Operation, RuntimeCalls
from ownlab.instruments.why.trace.event_stream import EventStream
from ownlab.instruments.why.trace.intervals import IntervalCollector, Intervals, common, length, without

__all__ = ["read_window"]

_MOST_OPERATIONS = 250
_LONGEST_KERNEL = 100
_MOST_INPUTS = 4
_DEEPEST = 40
_SHORT_US = 10.0
_VENDOR = re.compile(r"^(?:cuda|hip|cu)(?=[A-Z])")
_ALLOCATES = re.compile(r"Malloc|Free|HostAlloc|MemMap|MemUnmap|MemCreate|MemRelease")
_NOTED = re.compile(r"Synchronize|Malloc|Free|Memcpy|HostAlloc|MemMap|MemCreate")


class _Operator(NamedTuple):
    name: str
    types: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


class _Kernel(NamedTuple):
    begin: int
    end: int
    name: str
    correlation: int
    external: int
    unfilled: bool


class _Call(NamedTuple):
    begin: int
    end: int
    name: str
    thread: int
    correlation: int


_UNKNOWN = _Operator("", (), ())


def read_window(path: str, steps: int) -> KernelWindow | None:
    """Return what the trace says of so many steps; None if no kernel ran in it."""
    events = _Events()
    events.read(EventStream(path))
    return events.window(steps) if events.kernels else None


class _Events:
    """The events of a trace by what they are."""

    def __init__(self) -> None:
        self.kernels: list[_Kernel] = []
        self.copies: list[tuple[int, int, str, int]] = []
        self.launched: dict[int, tuple[int, int]] = {}  # correlation -> time, thread
        self.runtime: list[_Call] = []
        self.operators: dict[int, _Operator] = {}
        self.optimizer = IntervalCollector()
        self.host = IntervalCollector()  # some operator or call of CUDA runs
        self.allocating = IntervalCollector()
        self.spans: dict[int, list[tuple[int, int]]] = {}  # operators of each thread
        self.to_gpu: set[int] = set()  # correlations of copies from the host
        self.main: Counter[int] = Counter()
        self.engines: set[int] = set()  # threads of the autograd engine
        self.engine_ends: list[int] = []
        self.launches = self.graph_launches = 0

    def read(self, events: Iterable[dict[str, Any]]) -> None:
        """Sort the events."""
        for event in events:
            if event.get("ph") != "X" or not isinstance(event.get("name"), str):
                continue
            begin = round(float(event.get("ts", 0)) * 1000)
            end = begin + round(float(event.get("dur") or 0) * 1000)
            details = event.get("args")
            self._sort(
                str(event.get("cat", "")).lower(), event, begin, end, details if isinstance(details, dict) else {}
            )

    def _sort(self, kind: str, event: dict[str, Any], begin: int, end: int, details: dict[str, Any]) -> None:
        name, thread = event["name"], event.get("tid")
        thread = thread if isinstance(thread, int) else 0
        if kind == "kernel":
            blocks = details.get("blocks per SM")
            self.kernels.append(
                _Kernel(
                    begin, end, name, int(details.get("correlation", 0)), int(details.get("External id", 0)),
                    isinstance(blocks, int | float) and blocks < 1,
                )
            )  # fmt: skip
        elif kind in ("gpu_memcpy", "gpu_memset"):
            size = details.get("bytes")
            self.copies.append((begin, end, name, size if isinstance(size, int) else 0))
            if "HtoD" in name:
                self.to_gpu.add(int(details.get("correlation", 0)))
        elif kind in ("cuda_runtime", "cuda_driver"):
            self._add_runtime(name, begin, end, thread, details)
        elif kind in ("cpu_op", "user_annotation"):
            self._add_operator(name, begin, end, thread, details)
            if kind == "cpu_op" and not name.startswith("autograd::engine"):
                self.host.add(begin, end)
                self.spans.setdefault(thread, []).append((begin, end))

    def _add_runtime(self, name: str, begin: int, end: int, thread: int, details: dict[str, Any]) -> None:
        function = _VENDOR.sub("", name)
        self.host.add(begin, end)
        if _ALLOCATES.search(function):
            self.allocating.add(begin, end)
        if "Launch" in function:
            self.launches += 1
            self.graph_launches += function.startswith("GraphLaunch")
            self.launched[int(details.get("correlation", 0))] = (begin, thread)
        elif _NOTED.search(function):
            self.runtime.append(_Call(begin, end, name, thread, int(details.get("correlation", 0))))

    def _add_operator(self, name: str, begin: int, end: int, thread: int, details: dict[str, Any]) -> None:
        if name.startswith("Optimizer."):
            self.optimizer.add(begin, end)
            self.main[thread] += 1
        if name.startswith("autograd::engine"):
            self.engines.add(thread)
            self.engine_ends.append(end)
        types, shapes = details.get("Input type"), details.get("Input Dims")
        self.operators[int(details.get("External id", 0))] = _Operator(
            name,
            tuple(str(each) for each in types[:_MOST_INPUTS]) if isinstance(types, list) else (),
            tuple(_shape(each) for each in shapes[:_MOST_INPUTS]) if isinstance(shapes, list) else (),
        )

    # --- the window ---------------------------------------------------------------------------------------------------

    def window(self, steps: int) -> KernelWindow:
        """Sum up."""
        optimizer = self._optimizer_spans()
        main = self.main.most_common(1)[0][0] if self.main else None
        by_phase: dict[str, IntervalCollector] = {}
        everything, copying = IntervalCollector(), IntervalCollector()
        sums: dict[tuple[Any, ...], list[float]] = {}
        for kernel in sorted(self.kernels):
            phase = self._phase(kernel, optimizer, main)
            everything.add(kernel.begin, kernel.end)
            by_phase.setdefault(phase, IntervalCollector()).add(kernel.begin, kernel.end)
            operator = self.operators.get(kernel.external, _UNKNOWN)
            total = sums.setdefault((phase, *operator, kernel.name[:_LONGEST_KERNEL]), [0, 0.0, 0.0])
            duration = (kernel.end - kernel.begin) / 1e3
            total[0] += 1
            total[1] += duration
            total[2] += duration if kernel.unfilled else 0.0
        for begin, end, _, _ in self.copies:
            copying.add(begin, end)
        busy = everything.merged()
        alone = without(copying.merged(), busy)
        working = sorted([*busy, *alone])
        return KernelWindow(
            steps=steps,
            wall_us=self._wall(working),
            busy_us=length(busy) / 1e3,
            busy_by_phase={phase: length(times.merged()) / 1e3 for phase, times in by_phase.items()},
            kernels=len(self.kernels),
            short_kernels=sum(kernel.end - kernel.begin < _SHORT_US * 1e3 for kernel in self.kernels),
            launches=self.launches,
            graph_launches=self.graph_launches,
            copies_us=length(alone) / 1e3,
            waits_us=self._waits(),
            idle_us=self._idle(working, optimizer),
            operations=_operations(sums),
            copies=self._copy_kinds(),
            runtime=self._runtime_calls(),
        )

    def _optimizer_spans(self) -> Intervals:
        """When the optimizer worked: after the closure, if it was given one to call, in which forward and backward ran."""
        ends = sorted(self.engine_ends)
        spans = []
        for begin, end in self.optimizer.merged():
            at = bisect_right(ends, end) - 1
            spans.append((max(begin, ends[at]) if at >= 0 else begin, end))
        return spans

    def _phase(self, kernel: _Kernel, optimizer: Intervals, main: int | None) -> str:
        time, thread = self.launched.get(kernel.correlation, (kernel.begin, -1))
        at = bisect_right(optimizer, (time, 1 << 62)) - 1
        if at >= 0 and optimizer[at][0] <= time <= optimizer[at][1]:
            return "optimizer"
        if thread in self.engines or (main is not None and thread not in (main, -1)):
            return "backward"
        return "forward"

    def _idle(self, working: Intervals, optimizer: Intervals) -> dict[str, float]:
        """Idle time of the GPU by what the host did: it allocated, was in the optimizer, ran operators, or plain Python."""
        if not working:
            return {}
        idle = without([(working[0][0], working[-1][1])], sorted(working))
        allocating = common(idle, self.allocating.merged())
        rest = without(idle, self.allocating.merged())
        stepping, rest = common(rest, optimizer), without(rest, optimizer)
        operators = common(rest, self.host.merged())
        return {
            "allocation": length(allocating) / 1e3,
            "optimizer": length(stepping) / 1e3,
            "launch": length(operators) / 1e3,
            "python": (length(rest) - length(operators)) / 1e3,
        }

    def _wall(self, working: Intervals) -> float:
        ends = [*(call.end for call in self.runtime), *(end for _, end in working)]
        begins = [*(call.begin for call in self.runtime), *(begin for begin, _ in working)]
        return (max(ends) - min(begins)) / 1e3

    def _waits(self) -> dict[str, float]:
        """How long operators take that wait for the GPU, without and with a copy from the host. They would send work otherwise."""
        waits = {"sync": IntervalCollector(), "copy": IntervalCollector()}
        spans = {thread: sorted(spans) for thread, spans in self.spans.items()}
        copied: dict[tuple[int, int], bool] = {}
        for call in self._own_calls():
            if "Memcpy" in call.name:
                around = _innermost(spans.get(call.thread, []), call)
                copied[around] = copied.get(around, False) or call.correlation in self.to_gpu
        for call in self._own_calls():
            if "Synchronize" in call.name:
                around = _innermost(spans.get(call.thread, []), call)
                waits["copy" if copied.get(around) else "sync"].add(*around)
        return {kind: length(times.merged()) / 1e3 for kind, times in waits.items()}

    def _own_calls(self) -> list[_Call]:
        """Calls of the script: at its end the profiler itself waits for the GPU."""
        last = max((kernel.end for kernel in self.kernels), default=0)
        return [
            call
            for call in self.runtime
            if call.begin <= last and not ("DeviceSynchronize" in call.name and call.end >= last)
        ]

    def _copy_kinds(self) -> tuple[CopyKind, ...]:
        sums: dict[str, list[int]] = {}
        for begin, end, name, size in self.copies:
            total = sums.setdefault(name, [0, 0, 0])
            total[0] += 1
            total[1] += size
            total[2] += end - begin
        return tuple(CopyKind(name, count, size, ns / 1e3) for name, (count, size, ns) in sorted(sums.items()))

    def _runtime_calls(self) -> tuple[RuntimeCalls, ...]:
        sums: dict[str, list[int]] = {}
        for call in self._own_calls():
            total = sums.setdefault(call.name, [0, 0])
            total[0] += 1
            total[1] += call.end - call.begin
        return tuple(RuntimeCalls(name, count, ns / 1e3) for name, (count, ns) in sorted(sums.items()))


def _innermost(spans: list[tuple[int, int]], call: _Call) -> tuple[int, int]:
    """The operator that makes a call; the call itself if there is none."""
    at = bisect_right(spans, (call.begin, 1 << 62)) - 1
    for begin, end in reversed(spans[max(0, at - _DEEPEST) : at + 1]):
        if end >= call.end:
            return begin, end
    return call.begin, call.end


def _shape(value: Any) -> tuple[int, ...]:
    """The sizes of a tensor; () for what is none, or a list of tensors."""
    return tuple(value) if isinstance(value, list) and all(isinstance(each, int) for each in value) else ()


def _operations(sums: dict[tuple[Any, ...], list[float]]) -> tuple[Operation, ...]:
    """The kernels that took longest, one by one; of the others the sum of each phase."""
    ordered = sorted(sums.items(), key=lambda item: -item[1][1])
    listed = [
        Operation(phase, op, types, shapes, kernel, int(count), round(us, 2), round(unfilled, 2))
        for (phase, op, types, shapes, kernel), (count, us, unfilled) in ordered[:_MOST_OPERATIONS]
    ]
    others: dict[str, list[float]] = {}
    for key, values in ordered[_MOST_OPERATIONS:]:
        total = others.setdefault(key[0], [0, 0.0, 0.0])
        for number, value in enumerate(values):
            total[number] += value
    rest = [
        Operation(phase, "", (), (), "", int(count), us, unfilled) for phase, (count, us, unfilled) in others.items()
    ]
    return (*listed, *rest)
