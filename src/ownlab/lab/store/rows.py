"""The rows of the store, and requests for cards.

Standard library only, and named tuples instead of dataclasses (which import inspect): every supervisor imports this file,
and there is one for each runtime.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ownlab.units import PARTS

__all__ = ["CardRequest", "Device", "Lease", "Process", "QueuePosition", "RuntimeRow", "State", "UsageRow"]

# waiting: in the queue for cards; starting: it has its cards but no kernel yet; ending: it was asked to end.
State = Literal["waiting", "starting", "running", "ending"]


class Process(NamedTuple):
    """A process, distinguished from a later one with the same pid by its start time."""

    pid: int
    started: int  # clock ticks after boot: field 22 of /proc/PID/stat


class Device(NamedTuple):
    """A card, or a MIG instance of one, that can be leased."""

    uuid: str  # as CUDA_VISIBLE_DEVICES takes it: GPU-…, MIG-…; "amd:0" if the vendor's tool gives no UUID
    vendor: str  # nvidia, amd, intel, huawei, …
    number: int  # in the order of its vendor's tool
    name: str  # "NVIDIA H200": the kind that requests name
    memory: int | None = None  # bytes
    whole_only: bool = False  # a MIG instance cannot be shared
    strangers: tuple[
        str, ...
    ] = ()  # processes that use its memory without a lease: "python train.py (pid 4711) of ann, 12 GiB"


class CardRequest(NamedTuple):
    """A request: `cards` devices of one kind, `parts` twelfths of each. Without a kind: a CPU runtime."""

    kind: str | None = None
    cards: int = 0
    parts: int = PARTS


class Lease(NamedTuple):
    """A device, or a part of it, leased to a runtime."""

    runtime: str
    device: str
    parts: int


class QueuePosition(NamedTuple):
    """A request that has to wait: its position in the queue (1 is next), and the reason."""

    place: int
    why: str


class RuntimeRow(NamedTuple):
    """A runtime as everyone who shares the store sees it. It never contains a key or an environment."""

    id: str  # the kernel's id
    uid: int
    person: str  # the OS user's name
    lab: str | None  # id of the lab that started it; None: papermill, `jupyter execute`, VS Code
    notebook: str  # path as given at the start; "" if there is none
    type: str  # name of the kernelspec: ownlab-cpu
    label: str  # "Python 3 (1 × NVIDIA H200)"
    want: CardRequest
    state: State
    queued_at: float  # seconds since the epoch, as all fields named _at
    started_at: float | None
    boot: str  # /proc/sys/kernel/random/boot_id
    keeper: Process
    supervisor: Process
    kernel: Process | None
    busy: bool
    changed_at: float  # since when it is busy or idle
    ends_at: float | None  # when a limit will end it
    ends_why: str  # "after 90 min idle", "sessions end after 12 h"; "" without a limit
    may_extend: bool
    units_per_hour: float


class UsageRow(NamedTuple):
    """The usage of a runtime on one day (UTC)."""

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
