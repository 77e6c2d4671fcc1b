"""What a trace of torch.profiler adds to an explanation."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Copies", "TimedName", "TraceSummary"]


class TimedName(Struct, frozen=True):
    """A kernel, an operator, or a function of the CUDA runtime."""

    name: str
    count: int  # in the whole trace
    ms: float  # in the whole trace


class Copies(Struct, frozen=True):
    """Copies of one kind, such as "HtoD (Pageable -> Device)"."""

    kind: str
    count: int
    bytes: int
    ms: float


class TraceSummary(Struct, frozen=True):
    """The trace as a whole, and the mean step of the GPU."""

    file: str
    events: int
    complete: bool  # False: the file ends within an event
    steps: int
    steps_by: str  # ProfilerStep, optimizer or trace
    devices: int
    gpu_busy_ms: float | None  # of a step; None without events of a GPU
    idle_ms: dict[str, float]  # GPU idle per step, by what the host did meanwhile
    kernels: tuple[TimedName, ...]  # the longest
    operators: tuple[TimedName, ...]  # with what they call
    runtime: tuple[TimedName, ...]  # functions of CUDA that wait or allocate
    copies: tuple[Copies, ...]
