"""The GPU of an invented run: its time in each phase, and what the profiler saw in a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from tests.instruments.why.invented import MS, PHASES, SECOND

from ownlab.instruments.why.gpu.records import (
    CardReading,
    Compilation,
    Compilations,
    CopyKind,
    GpuCard,
    GpuEvidence,
    GpuMemory,
    GpuModel,
    GpuSettings,
    KernelWindow,
    Operation,
    RuntimeCalls,
    SyncLine,
)
from ownlab.instruments.why.places import Place
from ownlab.instruments.why.records import Process

GIB = 1 << 30
H200 = GpuCard("NVIDIA H200", "GPU-1", 132, (9, 0), 150_000_000_000)
SETTINGS = GpuSettings("high", True, True, False, False, True, False)


def operation(op: str, ms: float, **given: Any) -> Operation:
    """Kernels of an operator that take so long in each step."""
    fields: dict[str, Any] = {
        "phase": "forward",
        "types": (),
        "shapes": (),
        "kernel": "kernel",
        "count": 1,
        "unfilled_us": 0.0,
    }
    return Operation(op=op, us=ms * 1e3, **(fields | given))


def window(*operations: Operation, **given: Any) -> KernelWindow:
    """A window of one step in which these kernels ran."""
    by_phase: dict[str, float] = {}
    for each in operations:
        by_phase[each.phase] = by_phase.get(each.phase, 0.0) + each.us
    kernels = sum(each.count for each in operations)
    fields: dict[str, Any] = {
        "steps": 1,
        "wall_us": 0.0,
        "busy_us": sum(by_phase.values()),
        "busy_by_phase": by_phase,
        "kernels": kernels,
        "short_kernels": 0,
        "launches": kernels,
        "graph_launches": 0,
        "copies_us": 0.0,
        "waits_us": {},
        "idle_us": {"launch": 1.0},
        "operations": operations,
        "copies": (),
        "runtime": (),
    }
    return KernelWindow(**(fields | given))


def marks(process: Process, spans_ms: Mapping[str, float]) -> tuple[tuple[int, ...], ...]:
    """Each step on the GPU's clock: the phases one after the other, as long as they take there."""
    rows = []
    gpu = 0
    for number, step in enumerate(process.steps):
        host = step[0]
        row = [number]
        for name, ms in spans_ms.items():
            row += [PHASES.index(name), host, gpu]
            host += step[5 + PHASES.index(name)]
            gpu += round(ms * MS)
        rows.append((*row, PHASES.index("between"), step[0] + step[1], gpu))
    return tuple(rows)


def with_gpu(process: Process, spans_ms: Mapping[str, float], seen: KernelWindow | None, **given: Any) -> Process:
    """The same process, training on an H200."""
    memory = GpuMemory(100 * GIB, 140 * GIB, given.pop("peak", 60 * GIB), 60 * GIB, 0, 10, 0)
    fields: dict[str, Any] = {
        "card": H200,
        "settings": SETTINGS,
        "model": GpuModel({"float32": 1_000_000}, 0, channels_last=False),
        "memory": (memory, memory),
        "clock": (0, 0),
        "steps": marks(process, spans_ms),
        "lost": 0,
        "excluded": (),
        "compilation": Compilations(used=False, compiled=(), breaks={}),
        "sync_steps": 0,
        "syncs": (),
        "window_steps": 1,
        "window": seen,
    }
    return replace(process, device="cuda", gpu=GpuEvidence(**(fields | given)))


def reading(step: float, **given: Any) -> CardReading:
    """A reading of the card, so many seconds after the first step began."""
    fields: dict[str, Any] = {
        "uuid": "GPU-1",
        "clock": 1980.0,
        "clock_most": 1980.0,
        "throttle": (),
        "power": 600.0,
        "power_limit": 700.0,
        "sm": 90.0,
        "tensor": 55.0,
        "dram": 40.0,
        "processes": (),
    }
    return CardReading(at_ns=SECOND + round(step * SECOND), **(fields | given))


__all__ = [
    "GIB",
    "SETTINGS",
    "Compilation",
    "Compilations",
    "CopyKind",
    "GpuModel",
    "Place",
    "RuntimeCalls",
    "SyncLine",
    "marks",
    "operation",
    "reading",
    "window",
    "with_gpu",
]
