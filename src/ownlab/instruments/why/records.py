"""The records of `ownlab why`: the evidence that the guest has collected, and the explanation made of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.instruments.why.attach.records import Observed
from ownlab.instruments.why.gpu.records import CardReading, GpuEvidence
from ownlab.instruments.why.nccl.records import NcclLog
from ownlab.instruments.why.places import Place
from ownlab.instruments.why.trace.records import TraceSummary

__all__ = [
    "EVIDENCE_FORMAT",
    "Call",
    "Change",
    "Counters",
    "DataParallel",
    "Distributed",
    "Evidence",
    "Explanation",
    "Fetch",
    "Finding",
    "Lane",
    "Loader",
    "Mode",
    "ModelFacts",
    "Optimizer",
    "Place",
    "Process",
    "Sample",
    "Segment",
    "Snippet",
    "StepTimes",
    "Trial",
    "TrialFacts",
    "Trials",
    "Worker",
]

EVIDENCE_FORMAT = 1


class Call(Struct, frozen=True):
    """Calls of one function from one line."""

    phase: str
    what: str
    where: Place | None
    detail: str
    count: int
    ns: int
    first_step: int
    last_step: int


class Sample(Struct, frozen=True):
    """How often, and for how long, the stack of a thread was seen at one line."""

    phase: str
    stack: tuple[Place, ...]  # the lines of the user's code, the innermost first
    library: str  # the library that ran there; "" for the user's own code
    in_model: bool
    call: str  # the function of the library that the user's line called
    count: int
    ns: int

    @property
    def where(self) -> Place | None:
        """The innermost line of the user's code."""
        return self.stack[0] if self.stack else None


class Fetch(Struct, frozen=True, array_like=True):
    """What fetching one batch has cost, in a worker or in the training process. Times in nanoseconds."""

    begin: int
    wall: int
    cpu: int  # of the thread that fetches
    queue: int  # ready to run, without a core
    process_cpu: int  # of all threads of the process
    read: int  # bytes, by system calls
    disk: int  # bytes, from disks
    collate: int  # part of `wall`
    samples: int
    batch_bytes: int

    @property
    def blocked(self) -> int:
        """The time that is neither CPU nor waiting for a core: reading files, the network, a lock, a sleep."""
        return max(0, self.wall - self.cpu - self.queue)


class Loader(Struct, frozen=True):
    """One DataLoader."""

    dataset: str
    dataset_where: Place | None
    iterable: bool
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    prefetch_factor: int | None
    persistent_workers: bool
    start_method: str | None
    where: Place | None  # the line that made it
    batches: int
    trained: int  # batches that were followed by backward()
    wait_ns: int
    epochs: tuple[tuple[int, int], ...]  # of each: to start the iteration, to the first batch; nanoseconds
    pids: tuple[int, ...]
    fetches: tuple[Fetch, ...]  # in the training process


class Mode(Struct, frozen=True):
    """A mode of torch that the script has switched on: anomaly, profiler, float64 (the default type)."""

    name: str
    where: Place | None  # the line that did
    backwards: int  # backward passes during which it was on


class Optimizer(Struct, frozen=True):
    name: str
    fused: bool
    foreach: bool | None
    tensors: int
    bytes: int
    device: str
    where: Place | None = None  # the line that made it


class DataParallel(Struct, frozen=True):
    where: Place | None
    devices: int


class Distributed(Struct, frozen=True):
    """DistributedDataParallel."""

    where: Place | None
    find_unused_parameters: bool
    static_graph: bool
    no_sync: int  # how often the context was entered
    logged: dict[str, str | int | float | None] = {}  # what DDP itself has measured; times in nanoseconds
    problem: str = ""


class Counters(Struct, frozen=True):
    """Counters of the whole machine, or of the control group."""

    at_ns: int = 0
    cpu_ns: int = 0  # of the training process
    queue_ns: int = 0  # the training thread was ready to run, without a core
    swap_in: int = 0  # pages
    swap_out: int = 0
    memory_stall_us: int = 0
    machine_busy_ticks: int = 0  # hundredths of a second of all cores
    throttled_us: int = 0  # of the control group


class ModelFacts(Struct, frozen=True):
    """What a trial knows of the model: the outermost module that a step of training calls."""

    where: Place | None
    parameters: int
    convolutions: int
    channels_last: bool
    distributed: bool
    compiled: bool
    full_precision: bool
    bf16: bool  # whether the hardware computes it


class TrialFacts(Struct, frozen=True):
    """What one process adds in a run of `--try`."""

    losses: tuple[float | None, ...]  # None: not finite
    orders: dict[str, tuple[int, ...]]  # by DataLoader: a checksum of the samples of each batch
    model: ModelFacts | None
    optimizers: tuple[Place | None, ...]  # the lines that made them
    threads_where: Place | None
    applied: tuple[str, ...]
    written: tuple[str, ...]
    network: tuple[str, ...]


class Process(Struct, frozen=True):
    """One process of the script, as `ownlab_guest.why.session` writes it."""

    format: int
    pid: int
    argv: tuple[str, ...]
    python: str
    torch: str
    rank: int | None
    world: int | None
    ended: Literal["exit", "measured", "running"]
    began_ns: int
    now_ns: int
    device: str  # of the parameters: cpu, cuda, mps …
    cores: int
    cpu_quota: float | None
    torch_threads: int
    phases: tuple[str, ...]
    steps: tuple[tuple[int, ...], ...]  # begin, duration, CPU, backwards, batches, then the time of each phase
    unfinished: tuple[int, ...]
    unfinished_phase: str
    spans: tuple[tuple[int, int, int], ...]  # begin, end, phase: the last ones
    calls: tuple[Call, ...]
    samples: tuple[Sample, ...]
    loaders: tuple[Loader, ...]
    optimizers: tuple[Optimizer, ...]
    data_parallel: DataParallel | None
    ddp: Distributed | None
    counters: tuple[Counters, Counters]
    problems: tuple[str, ...] = ()
    trial: TrialFacts | None = None  # of --try
    modes: tuple[Mode, ...] = ()
    gpu: GpuEvidence | None = None  # of a process that trains on one


class Worker(Struct, frozen=True):
    """One worker process of a DataLoader."""

    worker: int
    pid: int
    threads: int
    fetches: tuple[Fetch, ...]
    samples: tuple[Sample, ...] = ()


class Snippet(Struct, frozen=True):
    """A statement of the user's code, kept so that a change can be shown where the file is not."""

    file: str
    first_line: int
    text: str


class Evidence(Struct, frozen=True):
    """`ownlab why --save FILE`: everything that was measured."""

    format: int
    ownlab: str
    command: tuple[str, ...]
    exit_code: int | None  # None: ended by ownlab after the measurement
    processes: tuple[Process, ...]
    workers: tuple[Worker, ...]
    snippets: tuple[Snippet, ...] = ()
    pythons: int = 0  # Python processes that were seen at all
    problems: tuple[str, ...] = ()
    cards: tuple[CardReading, ...] = ()  # what the driver said of the cards meanwhile


class Change(Struct, frozen=True):
    """A change of the user's code."""

    file: str
    line: int
    diff: str  # lines with "-" and "+" before them


class Finding(Struct, frozen=True):
    """One cause, and what removing it is worth."""

    code: str
    title: str
    headline: str  # one sentence with the figures
    cost_ms: float  # of each step, in the mean
    share: float  # of the step
    evidence: tuple[str, ...]
    meaning: str
    advice: tuple[str, ...]
    where: Place | None = None
    change: Change | None = None
    step_ms_after: tuple[float, float] | None = None  # the predicted band; None where nothing can be predicted


class StepTimes(Struct, frozen=True):
    """A mean step, in milliseconds."""

    count: int  # steps that were used
    step_ms: float
    step_ms_quartiles: tuple[float, float]
    training_ms: float  # forward, backward and optimizer, as the host sees them
    parts_ms: dict[str, float]
    gpu_ms: float | None = None  # how long the GPU works in it; None if that was not measured
    gpu_parts_ms: dict[str, float] = {}  # by forward, backward and optimizer
    gpu_idle_ms: dict[str, float] = {}  # by what the host did meanwhile; "launch" is between the kernels


class Segment(Struct, frozen=True):
    """A part of a lane: milliseconds from the begin of the step."""

    begin_ms: float
    end_ms: float
    what: str


class Lane(Struct, frozen=True):
    """What one process did during a typical step."""

    name: str
    segments: tuple[Segment, ...]


class Trial(Struct, frozen=True):
    """One change that `--try` has measured, or why it has not."""

    code: str
    title: str
    status: Literal["faster", "same", "slower", "unsafe", "failed", "untried"]
    reason: str = ""  # of unsafe, failed, untried
    step_ms: float | None = None
    speedup: float | None = None
    speedup_band: tuple[float, float] | None = None
    loss: str = ""  # what was seen of the losses
    changes: tuple[Change, ...] = ()  # of the user's code
    advice: tuple[str, ...] = ()  # where there is no line to change


class Trials(Struct, frozen=True):
    """What `--try` has measured."""

    sentence: str
    budget_seconds: float
    spent_seconds: float
    steps: int
    isolated: bool  # in a throw-away copy of the file systems
    baseline_ms: float | None
    baseline_band_ms: tuple[float, float] | None
    trials: tuple[Trial, ...]
    together: Trial | None  # the best ones at once
    network: tuple[str, ...]
    notes: tuple[str, ...]


class Explanation(Struct, frozen=True):
    """`ownlab why --json`."""

    sentence: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]  # what was not measured, and why
    command: tuple[str, ...]
    exit_code: int | None
    device: str
    ranks: int
    step: StepTimes | None = None
    lanes: tuple[Lane, ...] = ()
    nccl: NcclLog | None = None  # of --nccl
    trace: TraceSummary | None = None  # of --trace
    observed: Observed | None = None  # of --pid
    trials: Trials | None = None  # of --try
