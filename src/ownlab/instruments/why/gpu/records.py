"""What is measured of the GPU of a training process, as it is kept with the evidence."""

from __future__ import annotations

from msgspec import Struct

from ownlab.instruments.why.places import Place

__all__ = [
    "CardReading",
    "Compilation",
    "Compilations",
    "CopyKind",
    "GpuCard",
    "GpuEvidence",
    "GpuMemory",
    "GpuModel",
    "GpuSettings",
    "KernelWindow",
    "Operation",
    "RuntimeCalls",
    "SyncLine",
]


class GpuCard(Struct, frozen=True):
    name: str
    uuid: str
    processors: int  # streaming multiprocessors
    capability: tuple[int, int]
    memory: int  # bytes


class GpuMemory(Struct, frozen=True):
    """The allocator of PyTorch, and what the driver has left. Bytes."""

    free: int
    total: int
    peak_allocated: int
    reserved: int
    retries: int
    device_allocations: int  # calls of cudaMalloc, since the process began
    device_frees: int


class GpuSettings(Struct, frozen=True):
    """Settings of torch that decide which kernels run."""

    matmul_precision: str
    matmul_tf32: bool
    cudnn_tf32: bool
    cudnn_benchmark: bool
    cudnn_deterministic: bool
    flash_attention: bool
    deterministic: bool


class GpuModel(Struct, frozen=True):
    """What the optimizer's parameters say of the model."""

    parameters: dict[str, int]  # how many, by their type
    convolutions: int
    channels_last: bool


class Compilation(Struct, frozen=True):
    """One compilation by torch.compile."""

    at: float  # seconds since the epoch
    seconds: float
    function: str
    file: str
    line: int
    reason: str  # why it was compiled again; "" for the first time


class Compilations(Struct, frozen=True):
    """What torch.compile has done."""

    used: bool
    compiled: tuple[Compilation, ...]
    breaks: dict[str, int]  # graph breaks by their reason
    replays: int = 0
    cached: int = 0  # graphs that were found in the cache on disk


class SyncLine(Struct, frozen=True):
    """A line that waits for the GPU, as torch's synchronisation debug mode names it."""

    where: Place | None
    count: int  # in the window


class Operation(Struct, frozen=True, array_like=True):
    """Kernels of one kind that one operator has launched during the window."""

    phase: str  # forward, backward or optimizer
    op: str  # the innermost operator; "" if it is not known
    types: tuple[str, ...]  # of its first inputs
    shapes: tuple[tuple[int, ...], ...]
    kernel: str
    count: int
    us: float
    unfilled_us: float = 0.0  # of kernels with fewer blocks than the card has processors


class CopyKind(Struct, frozen=True):
    """Copies of one kind during the window, such as "HtoD (Pageable -> Device)"."""

    kind: str
    count: int
    bytes: int
    us: float


class RuntimeCalls(Struct, frozen=True):
    """Calls of one function of the CUDA runtime during the window, that waits, copies or allocates."""

    name: str
    count: int
    us: float


class KernelWindow(Struct, frozen=True):
    """What torch's profiler saw of the GPU in a few steps."""

    steps: int
    wall_us: float  # from the first to the last event
    busy_us: float  # some kernel ran
    busy_by_phase: dict[str, float]
    kernels: int
    short_kernels: int  # under 10 µs
    launches: int  # by the host; a CUDA graph is one
    graph_launches: int
    copies_us: float  # copies during which no kernel ran
    waits_us: dict[str, float]  # operators in which the host waited: copy (from the host), sync (all others)
    idle_us: dict[str, float]  # of the GPU, by what the host did: allocation, optimizer, launch (operators), python
    operations: tuple[Operation, ...]
    copies: tuple[CopyKind, ...]
    runtime: tuple[RuntimeCalls, ...]


class CardReading(Struct, frozen=True):
    """One reading of a card by the driver, while the script ran. Shares in percent, as NVML gives them."""

    at_ns: int  # of the clock that the steps have
    uuid: str
    clock: float | None  # MHz
    clock_most: float | None
    throttle: tuple[str, ...]
    power: float | None
    power_limit: float | None
    sm: float | None
    tensor: float | None
    dram: float | None
    processes: tuple[tuple[int, int | None, float | None], ...]  # pid, memory, sm


class GpuEvidence(Struct, frozen=True):
    """The GPU of one process, as `ownlab_guest.why.gpu_measurement` writes it."""

    card: GpuCard
    settings: GpuSettings
    model: GpuModel
    memory: tuple[GpuMemory, GpuMemory]  # after the first step, and at the end
    clock: tuple[int, int]  # the system's clock and that of the steps, at one moment
    steps: tuple[tuple[int, ...], ...]  # index, then phase, host's time and GPU's time of each mark
    lost: int
    excluded: tuple[int, ...]  # steps in which a window was open, or that follow one
    compilation: Compilations
    sync_steps: int  # length of the window in which synchronising calls were noted
    syncs: tuple[SyncLine, ...]
    no_profiler: str = (
        ""  # "workers": a DataLoader will start workers again, and a process that has used the profiler should not fork
    )
    trace: str = ""
    window_ns: tuple[int, ...] = ()  # what the profiler has cost: to prepare, start, stop, write
    window_steps: int = 3
    window: KernelWindow | None = None  # made of the trace
