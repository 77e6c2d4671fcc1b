"""What `ownlab fit` asks a guest, what the guest answers, and what is concluded from it."""

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
    "Spread",
    "Tag",
    "Timeline",
    "Trace",
    "Trial",
    "Trouble",
]

Kind = Literal["weights", "gradients", "optimizer", "activations", "inputs", "temporary", "workspace"]
Phase = Literal["setup", "forward", "backward", "optimizer"]
# What lives longest first: so they are stacked in drawings.
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
    """As much of a card as decides which kernels run: those of the H200, where hidden memory was measured."""

    capability: float = 9.0
    multiprocessors: int = 132
    threads: int = 2048  # that one multiprocessor holds
    cublas_bytes: int | None = None  # cuBLAS's workspace for one thread, where it was measured


class Request(Struct, frozen=True, kw_only=True):
    """The step that is meant; the guest reads it from a file."""

    target: str  # FILE.py:build, package.module:build, hf:CONFIG.json
    train: bool = True
    optimizer: str = "adamw"
    foreach: bool | None = None  # None: torch's own choice
    fused: bool = False
    precision: str = "fp32"
    batch: int | None = None  # None: what build() makes of itself
    seq: int | None = None
    checkpointing: bool = False
    channels_last: bool = False
    accumulate: int = 1
    steps: int = 3
    card: GuestCard = GuestCard()


# -- the guest's answer --------------------------------------------------------------------------------------------------


class Parameters(Struct, frozen=True):
    """How many numbers the model has."""

    total: int = 0
    trainable: int = 0
    buffers: int = 0
    tied: int = 0


class Flops(Struct, frozen=True):
    """Floating-point operations of one step, 2 for each multiply-add."""

    forward: int = 0
    backward: int = 0

    @property
    def total(self) -> int:
        """Both passes."""
        return self.forward + self.backward


class Tag(Struct, frozen=True):
    """What a piece of memory is for, and who took it."""

    kind: Kind
    phase: Phase
    module: str = ""
    op: str = ""


class Events(Struct, frozen=True):
    """Storages that come and go, in their order; columns of equal length. -1 bytes: it goes."""

    name: tuple[int, ...] = ()
    bytes: tuple[int, ...] = ()
    tag: tuple[int, ...] = ()


class Trouble(Struct, frozen=True):
    """Why there is no trace."""

    kind: str
    message: str
    line: int | None = None
    file: str | None = None


class Trace(Struct, frozen=True):
    """What the guest saw: all that is allocated in a few steps."""

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


# -- what is concluded ---------------------------------------------------------------------------------------------------


class Peak(Struct, frozen=True):
    """The most that is held at once. `device_bytes` is what nvidia-smi shows of the process."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int
    phase: Phase
    module: str
    op: str


class Band(Struct, frozen=True):
    """Between what the figure lies, where it depends on the path."""

    reserved_low_bytes: int
    reserved_high_bytes: int
    device_low_bytes: int
    device_high_bytes: int
    why: str


class Parts(Struct, frozen=True):
    """What the device holds at the peak; adds up to the peak's `device_bytes`."""

    weights: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    inputs: int = 0
    temporary: int = 0
    workspace: int = 0
    slack: int = 0  # reserved by the allocator, and held by nothing
    context: int = 0  # CUDA's own: kernels, handles


class ModuleShare(Struct, frozen=True):
    """A module and all inside it: what it holds at the peak."""

    module: str  # "layers.*": all of them; "": what the model itself, the loss and the optimizer hold
    count: int  # of modules with this name
    bytes: int
    depth: int


class Timeline(Struct, frozen=True):
    """The last step, from its beginning to its end: bytes held of each kind, at evenly chosen events."""

    at: tuple[float, ...]  # share of the step's events, 0 to 1
    held: dict[Kind, tuple[int, ...]]
    phases: tuple[tuple[float, Phase], ...]  # from where on each one is
    peak_at: float


class CardFit(Struct, frozen=True):
    """One card: whether it fits, and the least time a step takes there."""

    name: str
    memory_bytes: int  # that programs can have
    fits: Literal["yes", "tight", "no"]
    spare_bytes: int  # against the upper end of the band; below 0: so much is missing
    calibrated: bool  # hidden memory and context were measured on this card
    floor_seconds: float | None = None
    bound_by: Literal["arithmetic", "memory"] | None = None
    biggest_batch: int | None = None
    source: str = ""
    as_of: str = ""


class RemedyTrial(Struct, frozen=True):
    """A remedy, tried on the model."""

    code: str
    title: str
    option: str  # of `ownlab fit`, which tries it
    device_bytes: int | None = None  # the upper end of the band; None: it could not be tried
    saved_bytes: int | None = None  # below 0: it takes more
    arithmetic: float | None = None  # FLOPs of a step, as a multiple of those without it
    fits: tuple[str, ...] = ()  # which of the cards are sure to hold it then
    refused: str = ""  # why it could not be tried
    note: str = ""  # how far to trust it, where it is not as the others


class Decoding(Struct, frozen=True):
    """The cache of keys and values after a prompt and new tokens."""

    batch: int
    prompt_tokens: int
    new_tokens: int
    prompt_bytes: int  # of the cache when the prompt is read
    cache_bytes: int  # of the cache at the end
    device_bytes: int  # of the card, while the last token is made; the upper end of the band

    @property
    def bytes_per_token(self) -> float:
        """That each new token of one sequence adds."""
        return (self.cache_bytes - self.prompt_bytes) / max(1, self.new_tokens * self.batch)


# -- what is measured ----------------------------------------------------------------------------------------------------


class Device(Struct, frozen=True):
    """Where a step is measured. What a processor has no such thing of is None."""

    kind: Literal["cuda", "rocm", "cpu"]
    name: str
    multiprocessors: int  # of a processor: its cores
    memory_bytes: int | None = None
    free_bytes: int | None = None  # for our process before the step, its context included
    capability: float | None = None
    threads: int = 2048

    @property
    def card(self) -> GuestCard:
        """As much of it as decides which kernels run; for a processor those of the card where hidden memory was measured."""
        if self.capability is None:
            return GuestCard()
        return GuestCard(self.capability, self.multiprocessors, self.threads)


class Spread(Struct, frozen=True):
    """Seconds of repetitions."""

    count: int
    least: float
    median: float
    p90: float
    p99: float  # of fewer than a hundred repetitions: the greatest
    most: float


class MeasuredMemory(Struct, frozen=True):
    """Of a card, while the steps ran that the prediction follows."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int | None  # what nvidia-smi shows of the process; None: it was not told
    device_source: str  # or why not
    context_bytes: int | None
    phases: dict[str, int]  # the most that was allocated in each
    steps: tuple[int, ...]  # the most that was allocated until the end of each
    retries: int  # how often the allocator gave back what it had cached
    segments: int
    start_bytes: int | None = None  # of the context, before anything was computed
    later_bytes: int | None = None  # that was reserved at most, with all repetitions
    parts: dict[str, int] | None = None  # by kind, at the peak of one step more; None: see `parts_reason`
    parts_reason: str = ""


class MeasuredDecoding(Struct, frozen=True):
    """A prompt and new tokens, one after the other."""

    prompt_seconds: float
    token: Spread
    tokens_per_second: float  # of all sequences of the batch
    cache_bytes: int


class OutOfMemoryReport(Struct, frozen=True):
    """The step ran out of memory."""

    message: str
    phase: str
    step: int


class Measured(Struct, frozen=True):
    """The real step."""

    device: Device
    torch: str
    cuda: str | None
    batch: int | None
    memory: MeasuredMemory | None  # None on a processor: what a step takes there says nothing of a card
    alone: Spread | None = None  # each repetition for itself: the latency
    steady: Spread | None = None  # one after the other, by the card's own events
    per_second: float | None = None  # of what the batch counts
    floor_seconds: float | None = None  # the least that this card could take
    decoding: MeasuredDecoding | None = None
    out_of_memory: OutOfMemoryReport | None = None

    @property
    def step_seconds(self) -> float | None:
        """The median of a step."""
        spread = self.steady or self.alone
        return None if spread is None else spread.median


class MeasuredAlone(Struct, frozen=True):
    """A step that was measured, and could not be predicted."""

    request: Request
    measured: Measured
    why: str  # it could not


class Trial(Struct, frozen=True):
    """One batch, tried on the card in a process of its own."""

    batch: int
    ran: bool
    device_bytes: int | None = None
    why: str = ""  # it did not


class BiggestBatch(Struct, frozen=True):
    """The biggest batch that ran."""

    batch: int | None  # None: none did
    predicted: int | None
    fails: int | None  # the smallest that did not run; None: none failed
    trials: tuple[Trial, ...]


# -- all of it -----------------------------------------------------------------------------------------------------------


class Fit(Struct, frozen=True):
    """`ownlab fit --json`."""

    request: Request
    torch: str
    allocator: str  # its options, as in PYTORCH_ALLOC_CONF
    batch: int | None
    parameters: Parameters
    flops: Flops
    peak: Peak
    band: Band
    parts: Parts
    smallest_bytes: int  # of a card's memory that suffices, where the allocator gives back what it caches
    modules: tuple[ModuleShare, ...]
    timeline: Timeline
    cards: tuple[CardFit, ...]
    guesses: tuple[str, ...]
    remedies: tuple[RemedyTrial, ...] = ()  # where they were asked for
    decoding: Decoding | None = None  # --decode
    measured: Measured | None = None  # --measure
    biggest: BiggestBatch | None = None  # --batch max --measure
