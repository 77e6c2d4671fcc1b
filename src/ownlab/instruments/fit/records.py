"""The records of `ownlab fit`: what it asks a guest, what the guest answers, what is predicted, and what is measured."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "KINDS",
    "Band",
    "BiggestBatch",
    "CardFit",
    "Decoding",
    "Device",
    "Events",
    "Fit",
    "Flops",
    "GuestCard",
    "Kind",
    "Measured",
    "MeasuredAlone",
    "MeasuredDecoding",
    "MeasuredMemory",
    "ModuleShare",
    "OutOfMemoryReport",
    "Parameters",
    "Parts",
    "Peak",
    "Phase",
    "RemedyTrial",
    "Request",
    "Sharing",
    "Spread",
    "Strategy",
    "Tag",
    "Timeline",
    "Trace",
    "Trial",
    "Trouble",
    "Work",
]

Kind = Literal["weights", "gradients", "optimizer", "activations", "inputs", "temporary", "workspace"]
Phase = Literal["setup", "forward", "backward", "optimizer"]
Strategy = Literal["ddp", "zero1", "zero2", "zero3", "fsdp"]
# The longest-lived first: charts stack them in this order.
KINDS: tuple[Kind, ...] = (
    "weights",
    "optimizer",
    "inputs",
    "gradients",
    "activations",
    "temporary",
    "workspace",
)


class GuestCard(Struct, frozen=True):
    """The properties of a card that decide which kernels run. The defaults are an H200's, where workspaces were measured."""

    capability: float = 9.0
    multiprocessors: int = 132
    threads: int = 2048  # per multiprocessor
    cublas_bytes: int | None = None  # the cuBLAS workspace of one thread, if it was measured


class Request(Struct, frozen=True, kw_only=True):
    """The step to predict or measure; the guest reads it from a file."""

    target: str  # FILE.py:build, package.module:build, hf:CONFIG.json
    train: bool = True
    optimizer: str = "adamw"  # NAME, or NAME:ARGUMENT=VALUE,…
    foreach: bool | None = None  # None: torch decides
    fused: bool = False
    precision: str = "fp32"
    batch: int | None = None  # None: the default of build()
    seq: int | None = None
    checkpointing: bool = False
    channels_last: bool = False
    accumulate: int = 1
    steps: int = 3
    weights: str = ""  # the format of quantized weights: nf4, int8, gptq:group=64 …; "": not quantized
    lora: str = ""  # adapters to add: r=16,targets=q_proj,v_proj
    card: GuestCard = GuestCard()


# -- the guest's answer --------------------------------------------------------------------------------------------------


class Parameters(Struct, frozen=True):
    """The number of parameters of the model."""

    total: int = 0
    trainable: int = 0
    buffers: int = 0
    tied: int = 0


class Flops(Struct, frozen=True):
    """Floating-point operations of one step; a multiply-add counts as 2."""

    forward: int = 0
    backward: int = 0

    @property
    def total(self) -> int:
        """FLOPs of both passes."""
        return self.forward + self.backward


class Tag(Struct, frozen=True):
    """The purpose of a piece of memory, and what allocated it."""

    kind: Kind
    phase: Phase
    module: str = ""
    op: str = ""


class Events(Struct, frozen=True):
    """Storages that are allocated and freed, in order; columns of equal length. -1 bytes: freed."""

    name: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    tag: tuple[int, ...] = ()


class Uncertain(Struct, frozen=True):
    """Workspaces of libraries whose size is an estimate; columns of equal length."""

    name: tuple[int, ...] = ()  # of the storage, as in the events
    bytes: tuple[tuple[int, ...], ...] = ()  # sizes that are likely, each as often as it was voted for


class Trouble(Struct, frozen=True):
    """Why the guest could not trace or measure."""

    kind: str
    message: str
    line: int | None = None
    file: str | None = None


class Trace(Struct, frozen=True):
    """All allocations of a few steps, as the guest recorded them."""

    parameters: Parameters = Parameters()
    flops: Flops = Flops()
    events: Events = Events()
    tags: tuple[Tag, ...] = ()
    marks: tuple[int, ...] = ()  # the number of events at the end of each step
    guesses: tuple[str, ...] = ()
    torch: str = ""
    batch: int | None = None
    seq: int | None = None
    error: Trouble | None = None
    optimizer_arguments: dict[str, bool | int | float] = {}  # as torch took them, defaults included
    uncertain: Uncertain = Uncertain()


# -- the prediction ------------------------------------------------------------------------------------------------------


class Peak(Struct, frozen=True):
    """The most memory in use at once. `device_bytes` is what nvidia-smi shows for the process."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    phase: Phase
    module: str
    op: str


class Band(Struct, frozen=True):
    """The range of the peak, which depends on the order of allocations."""

    reserved_low_bytes: int
    reserved_high_bytes: int
    device_low_bytes: int
    device_high_bytes: int
    why: str


class Parts(Struct, frozen=True):
    """What holds the memory at the peak; adds up to its `device_bytes`."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    inputs: int = 0
    temporary: int = 0
    workspace: int = 0
    slack: int = 0  # reserved by the allocator, and used by no tensor
    context: int = 0  # of CUDA itself: kernels, handles


class ModuleShare(Struct, frozen=True):
    """The memory that a module and its submodules hold at the peak."""

    module: str  # "layers.*": all layers; "": the model itself, the loss and the optimizer
    count: int  # number of modules with this name
    bytes: int
    depth: int


class Timeline(Struct, frozen=True):
    """The step with the peak: bytes of each kind over its events."""

    at: tuple[float, ...]  # position in the step, 0 to 1
    held: dict[Kind, tuple[int, ...]]
    phases: tuple[tuple[float, Phase], ...]  # the position where each phase begins
    peak_at: float


class Work(Struct, frozen=True):
    """The work of one step: from it follows the least time on any card."""

    flops: int
    serial_bytes: int  # bytes that move while nothing is multiplied: their time adds up
    overlapped_bytes: int  # bytes that may move during products
    convolves: bool  # or has recurrent layers: cuDNN computes both
    kinds: tuple[str, ...] = ()  # of layers with products: convolution, attention, recurrent


class CardFit(Struct, frozen=True):
    """The verdict for one card: whether the step fits, and its least time there."""

    name: str
    memory_bytes: int  # that programs can use; where it was inferred, at least
    fits: Literal["yes", "tight", "no", "unknown"]  # unknown: the usable memory was inferred, and decides
    spare_bytes: int  # from the upper end of the band; negative: missing
    calibrated: bool  # workspaces and context were measured on this card
    floor_seconds: float | None = None
    bound_by: Literal["arithmetic", "memory"] | None = None
    biggest_batch: int | None = None
    source: str = ""
    as_of: str = ""
    memory_high_bytes: int | None = None  # at most, where the usable memory was inferred; None: it was reported
    precision: str = ""  # what the card lacks for the precision of the step, and what to do; "": nothing


class RemedyTrial(Struct, frozen=True):
    """A remedy, tried on the model."""

    code: str
    title: str
    option: str  # option of `ownlab fit` that tries it
    device_bytes: int | None = None  # the upper end of the band; None: it could not be tried
    saved_bytes: int | None = None  # negative: it takes more
    arithmetic: float | None = None  # FLOPs of a step, relative to those without it
    fits: tuple[str, ...] = ()  # names of the cards that are sure to hold it then
    refused: str = ""  # why it could not be tried
    note: str = ""  # a restriction of the figures


class Sharing(Struct, frozen=True):
    """The memory of each of several cards, computed from the prediction for one; the parts add up to `device_bytes`."""

    strategy: Strategy
    world: int  # number of cards
    device_bytes: int  # from the upper end of the band of one card
    weights: int
    gradients: int  # with their buckets
    optimizer: int
    gathered: int  # parameters of other cards, while they are needed
    rest: int  # activations, inputs, temporary tensors, libraries, cache, CUDA itself
    fits: tuple[str, ...]  # names of the cards that are large enough
    note: str


class Decoding(Struct, frozen=True):
    """The KV cache after a prompt and new tokens."""

    batch: int
    prompt_tokens: int
    new_tokens: int
    prompt_bytes: int  # of the cache after the prompt
    cache_bytes: int  # of the cache at the end
    device_bytes: int  # of the card during the last token; the upper end of the band

    @property
    def bytes_per_token(self) -> float:
        """Bytes that each new token of one sequence adds."""
        return (self.cache_bytes - self.prompt_bytes) / max(1, self.new_tokens * self.batch)


# -- the measurement -----------------------------------------------------------------------------------------------------


class Device(Struct, frozen=True):
    """The device of a measurement. Fields that do not apply to a processor are None."""

    kind: Literal["cuda", "rocm", "cpu"]
    name: str
    multiprocessors: int  # cores of a processor
    memory_bytes: int | None = None
    free_bytes: int | None = None  # for our process before the step, including its context
    capability: float | None = None
    threads: int = 2048

    @property
    def card(self) -> GuestCard:
        """The properties that decide which kernels run; for a processor those of an H200."""
        if self.capability is None:
            return GuestCard()
        return GuestCard(self.capability, self.multiprocessors, self.threads)


class Spread(Struct, frozen=True):
    """Percentiles of the seconds of repetitions."""

    count: int
    least: float
    median: float
    p90: float
    p99: float  # the maximum if there are fewer than a hundred repetitions
    most: float


class MeasuredMemory(Struct, frozen=True):
    """Memory of a card during the steps that the prediction traces, too."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int | None  # what nvidia-smi shows for the process; None: unknown
    device_source: str  # or why it is unknown
    context_bytes: int | None
    phases: dict[str, int]  # the peak of each phase
    steps: tuple[int, ...]  # the peak up to the end of each step
    retries: int  # how often the allocator released its cache
    segments: int
    start_bytes: int | None = None  # of the context, before any computation
    later_bytes: int | None = None  # peak of reserved memory over all repetitions
    parts: dict[str, int] | None = None  # by kind, at the peak of an extra step; None: see `parts_reason`
    parts_reason: str = ""


class MeasuredDecoding(Struct, frozen=True):
    """A prompt, and new tokens one after the other."""

    prompt_seconds: float
    token: Spread
    tokens_per_second: float  # over all sequences of the batch
    cache_bytes: int


class OutOfMemoryReport(Struct, frozen=True):
    """The step ran out of memory."""

    message: str
    phase: str
    step: int


class Measured(Struct, frozen=True):
    """The measurement of the real step."""

    device: Device
    torch: str
    cuda: str | None
    batch: int | None
    memory: MeasuredMemory | None  # None on a processor: its memory says nothing about a card
    alone: Spread | None = None  # each repetition with synchronization: the latency
    steady: Spread | None = None  # back to back, by CUDA events
    per_second: float | None = None  # samples
    floor_seconds: float | None = None  # the least time on this card
    decoding: MeasuredDecoding | None = None
    out_of_memory: OutOfMemoryReport | None = None

    @property
    def step_seconds(self) -> float | None:
        """The median time of a step."""
        spread = self.steady or self.alone
        return None if spread is None else spread.median


class MeasuredAlone(Struct, frozen=True):
    """The measurement of a step that could not be predicted."""

    request: Request
    measured: Measured
    why: str  # it could not be predicted


class Trial(Struct, frozen=True):
    """One batch, run on the card in its own process."""

    batch: int
    ran: bool
    device_bytes: int | None = None
    why: str = ""  # it did not run


class BiggestBatch(Struct, frozen=True):
    """The biggest batch that ran."""

    batch: int | None  # None: none ran
    predicted: int | None
    fails: int | None  # the smallest that did not run; None: none failed
    trials: tuple[Trial, ...]


# -- the document --------------------------------------------------------------------------------------------------------


class Fit(Struct, frozen=True):
    """`ownlab fit --json`."""

    request: Request
    torch: str
    allocator: str  # settings as in PYTORCH_ALLOC_CONF
    batch: int | None
    parameters: Parameters
    flops: Flops
    peak: Peak
    band: Band
    parts: Parts
    smallest_bytes: int  # memory of a card that is enough if the allocator releases its cache
    modules: tuple[ModuleShare, ...]
    timeline: Timeline
    cards: tuple[CardFit, ...]
    guesses: tuple[str, ...]
    # As torch took them, defaults included. None: of a version in which "sgd" meant momentum=0.9.
    optimizer_arguments: dict[str, bool | int | float] | None = None
    remedies: tuple[RemedyTrial, ...] = ()  # --remedies
    decoding: Decoding | None = None  # --decode
    measured: Measured | None = None  # --measure
    biggest: BiggestBatch | None = None  # --batch max --measure
    sharing: Sharing | None = None  # --strategy
    searched: tuple[int, int] | None = None  # --batch max or A..B: the least and the most batch that was considered
    work: Work | None = None  # of one step; None in reports of older versions
