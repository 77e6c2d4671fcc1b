"""Records of runtimes, cards and types, for `ownlab runtimes --json`, the page and the terminal.

Sizes are in bytes, times in seconds since the epoch. None: unknown, or there is none.
"""

from __future__ import annotations

from msgspec import Struct

from ownlab.instruments.top.records import Saturation, Verdict
from ownlab.lab.store.rows import State

__all__ = [
    "CPU_TYPE",
    "CardHolder",
    "CardPoint",
    "CardShare",
    "CardState",
    "HostState",
    "ListedType",
    "NodeUsage",
    "Point",
    "RemovedTypes",
    "Runtime",
    "RuntimeChange",
    "RuntimePoint",
    "RuntimeType",
    "ScriptJob",
    "Snapshot",
    "TypeList",
    "Usage",
    "UsageLine",
]

# The type that every machine has.
CPU_TYPE = "ownlab-cpu"


class RuntimeType(Struct, frozen=True):
    """A type of runtime that can be started; a kernelspec."""

    name: str  # ownlab-cpu, ownlab-1-nvidia-h200, ownlab-half-nvidia-h200, ownlab-myenv-cpu
    label: str  # "Python 3 (1 × NVIDIA H200)"
    environment: str  # "default", or the name given to `ownlab env add`
    python: str  # the interpreter that it starts
    kind: str | None  # the card's name; None: CPU
    cards: int
    parts: int  # twelfths of each card
    units_per_hour: float
    free: bool = True  # whether it can start now without waiting
    why_not: str = ""  # "held by ann (train.ipynb) since 10:02"
    starts_at: float | None = None  # when a cluster would start it if it is not free, in seconds since the epoch
    engine: str = ""  # of a cluster, on a node of which it starts; "": this machine
    partition: str = ""  # of that cluster
    time_limit: float | None = None  # seconds that it may run there; None: no limit


class CardShare(Struct, frozen=True):
    """A card, or a part of it, that a runtime holds."""

    uuid: str
    index: int | None  # None: the card is no longer there
    name: str
    parts: int
    vram: int | None = None  # used by this runtime on this card
    booked: int | None = None  # its share of the card's memory
    utilisation: float | None = None  # percent of the time in which kernels of this runtime ran on it


class HostState(Struct, frozen=True):
    cpu: float | None  # percent of all cores
    memory: int | None
    memory_used: int | None
    cores: int | None = None
    disk: int | None = None  # the size of the file system with the lab's folder, on a node of that with the notebook's
    disk_used: int | None = None


class NodeUsage(Struct, frozen=True):
    """What a runtime uses on a node of a cluster, and the state of that node."""

    at: float  # by the node's clock
    host: HostState
    ram: int | None = None
    cpu: float | None = None  # percent of one core
    cards: tuple[CardShare, ...] = ()
    notices: tuple[str, ...] = ()  # why something is unknown


class Runtime(Struct, frozen=True):
    """One runtime: a kernel with its supervisor, and what it holds."""

    id: str
    person: str
    mine: bool  # whether the caller may stop and extend it
    notebook: str
    lab: str | None  # folder of the lab that started it, if known
    type: str
    label: str
    state: State
    place: int | None  # in the queue, 1 is next
    why: str  # why it waits, or why it is ending
    queued_at: float
    started_at: float | None
    busy: bool
    changed_at: float
    cards: tuple[CardShare, ...]
    ram: int | None
    vram: int | None
    ends_at: float | None
    ends_why: str
    warned: bool  # the end is near: people are warned
    may_extend: bool
    units_per_hour: float
    units: float  # used up to now
    kernel_pid: int | None
    cpu: float | None = None  # percent of one core, of all its processes
    utilisation: float | None = None  # mean over its cards
    node: str = ""  # of a cluster, on which it runs; "": this machine
    host: HostState | None = None  # of that node; None: this machine, or not known yet


class CardHolder(Struct, frozen=True):
    runtime: str
    person: str
    notebook: str
    parts: int
    since: float


class CardState(Struct, frozen=True):
    """One card and its holders."""

    uuid: str
    vendor: str
    index: int
    name: str
    memory: int | None
    memory_used: int | None
    utilisation: int | None  # percent of time in which any kernel ran
    free_parts: int
    holders: tuple[CardHolder, ...]
    strangers: tuple[str, ...]
    saturation: Saturation | None = None  # how much of it was active
    no_saturation: str = ""  # why that is unknown
    power: float | None = None  # watts
    power_limit: float | None = None
    temperature: float | None = None  # degrees Celsius
    verdict: Verdict | None = None  # over the last half minute


class CardPoint(Struct, frozen=True):
    """A card in the graph of the last minutes, in percent."""

    uuid: str
    utilisation: float | None = None
    sm: float | None = None


class RuntimePoint(Struct, frozen=True):
    """A runtime in the graph of the last minutes, in percent: of one core, and of the time of its cards."""

    id: str
    cpu: float | None = None
    utilisation: float | None = None


class Point(Struct, frozen=True):
    """One point of the graph of the last minutes."""

    at: float
    cpu: float | None
    memory_used: int | None
    vram_used: int | None
    utilisation: float | None  # mean over the cards
    cards: tuple[CardPoint, ...] = ()
    runtimes: tuple[RuntimePoint, ...] = ()


class ScriptJob(Struct, frozen=True):
    """A script of this user in the queue or on nodes of a cluster (`ownlab run --engine slurm train.py`)."""

    id: str  # of the run
    script: str
    label: str  # "4 × a100 on 2 nodes of partition gpu"
    engine: str
    reference: str  # the number of the job
    state: str  # "waiting" or "running"
    folder: str  # with its logs
    submitted_at: float
    why: str = ""  # it waits
    nodes: tuple[str, ...] = ()
    ends_at: float | None = None  # its time limit


class Snapshot(Struct, frozen=True):
    """Everything that the panel shows."""

    at: float
    person: str
    store: str
    shared: bool
    runtimes: tuple[Runtime, ...]
    cards: tuple[CardState, ...]
    types: tuple[RuntimeType, ...]
    host: HostState
    notices: tuple[str, ...] = ()  # warnings: "The store is on a network file system."
    history: tuple[Point, ...] = ()
    jobs: tuple[ScriptJob, ...] = ()  # only in `ownlab runtimes --json`


class UsageLine(Struct, frozen=True):
    """The usage of a person in a week, or of a notebook in it."""

    week: str  # "2026-W46", the ISO week (UTC)
    person: str
    notebook: str | None
    label: str | None
    hours: float
    card_hours: float
    units: float
    card_hours_left: float | None = None  # of the weekly quota


class Usage(Struct, frozen=True):
    """`ownlab runtimes usage --json`."""

    weeks: int
    lines: tuple[UsageLine, ...]


class RuntimeChange(Struct, frozen=True):
    """`ownlab runtimes stop|extend --json`."""

    runtime: str
    notebook: str
    told: str  # stop, extend
    ends_at: float | None = None  # when it will end, after it was extended


class ListedType(Struct, frozen=True):
    """A type that this machine can start."""

    type: RuntimeType
    written: bool  # whether its kernelspec on disk is current, so that Jupyter offers it


class TypeList(Struct, frozen=True):
    """`ownlab types --json`."""

    folder: str
    types: tuple[ListedType, ...]
    gone: tuple[str, ...] = ()  # kernelspecs on disk of a card or an environment that is gone
    export: str = ""  # a shell command, if Jupyter does not find the folder otherwise


class RemovedTypes(Struct, frozen=True):
    """`ownlab types remove --json`."""

    folder: str
    removed: int
