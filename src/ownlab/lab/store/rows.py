"""What the store keeps, as plain rows, and what is asked of it.

Standard library only, and named tuples, not dataclasses (which import inspect): every supervisor imports this file, and
there is one supervisor for each runtime.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ownlab.units import PARTS

__all__ = ["CardRequest", "Device", "Lease", "Process", "QueuePosition", "RuntimeRow", "State", "UsageRow"]

# waiting: in the queue for a card; starting: has its cards, the kernel is not there yet; ending: asked to end.
State = Literal["waiting", "starting", "running", "ending"]


class Process(NamedTuple):
    """A process that cannot be mistaken for a later one of the same number."""

    pid: int
    started: int  # clock ticks after boot: field 22 of /proc/PID/stat


class Device(NamedTuple):
    """A card, or a MIG instance of one, that can be leased."""

    uuid: str  # as CUDA_VISIBLE_DEVICES takes it: GPU-…, MIG-…; "amd:0" where a vendor's tool gives no UUID
    vendor: str  # nvidia, amd, intel, huawei, …
    number: int  # in the order of its vendor's tool
    name: str  # "NVIDIA H200": its kind; requests ask for a kind
    memory: int | None = None  # bytes
    whole_only: bool = False  # a MIG instance is not divided further
    strangers: tuple[
        str, ...
    ] = ()  # who uses its memory without a lease, in words: "python train.py (pid 4711) of ann, 12 GiB"


class CardRequest(NamedTuple):
    """What a runtime asks for: `cards` devices of one kind, `parts` twelfths of each. No kind: a CPU runtime."""

    kind: str | None = None
    cards: int = 0
    parts: int = PARTS


class Lease(NamedTuple):
    """A device, or a part of one, in the hands of a runtime."""

    runtime: str
    device: str
    parts: int


class QueuePosition(NamedTuple):
    """Not granted yet: the place in the queue (1 is next) and why, in words."""

    place: int
    why: str


class RuntimeRow(NamedTuple):
    """A runtime as everyone who shares the store sees it. Never a key, never an environment."""

    id: str  # the kernel's id
    uid: int
    person: str  # the OS user's name
    lab: str | None  # id of the lab that started it; None: papermill, `jupyter execute`, VS Code
    notebook: str  # path as its starter gave it; "" where there is none
    type: str  # name of the kernelspec: ownlab-cpu
    label: str  # "Python 3 (1 × NVIDIA H200)"
    want: CardRequest
    state: State
    queued_at: float  # seconds since the epoch, as everything named _at
    started_at: float | None
    boot: str  # /proc/sys/kernel/random/boot_id
    keeper: Process
    supervisor: Process
    kernel: Process | None
    busy: bool
    changed_at: float  # since when it is busy or idle
    ends_at: float | None  # when a limit will end it, as it stands now
    ends_why: str  # "after 90 min idle", "sessions end after 12 h"; "" where nothing ends it
    may_extend: bool
    units_per_hour: float


class UsageRow(NamedTuple):
    """What a runtime used on one day (UTC)."""

    day: str  # 2026-11-15
    uid: int
    person: str
    runtime: str
    notebook: str
    label: str
    kind: str | None
    seconds: float
    card_seconds: float  # seconds × cards × share
    units: float
