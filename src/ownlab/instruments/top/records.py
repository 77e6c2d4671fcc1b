"""Samples and verdicts as records: `ownlab top --json` prints them, recordings keep them.

Sizes are in bytes, rates in bytes per second, times in seconds since the epoch, shares in percent (0 to 100). None means
unknown, or not known yet: a rate needs two samples. Values of an interval are means over all of it.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = [
    "CardProcess",
    "CardSample",
    "HostSample",
    "Owner",
    "ProcessSample",
    "Sample",
    "Saturation",
    "TopReading",
    "Verdict",
]


class Saturation(Struct, frozen=True):
    """How much of a card was active, as NVML's GPM measures it (Hopper and newer): percent of what the card could do."""

    graphics: float | None = None  # share of time in which anything ran
    sm: float | None = None  # share of the multiprocessors that were busy
    occupancy: float | None = None  # resident warps, of those that the SMs can hold
    tensor: float | None = None  # share of time in which tensor cores were active
    dram: float | None = None  # share of the memory bandwidth
    integer: float | None = None
    fp64: float | None = None  # outside tensor cores, like the next two
    fp32: float | None = None
    fp16: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None
    tensor_fp64: float | None = None  # share of time in which tensor cores were active in FP64


class CardProcess(Struct, frozen=True):
    """A process on a card, as the driver reports it."""

    pid: int  # the driver's number, which in a container may differ from /proc
    kind: str = "compute"  # or "graphics"
    memory: int | None = None
    sm: float | None = None  # percent of the interval in which its kernels ran


class CardSample(Struct, frozen=True):
    """One card, or one MIG instance of a card."""

    uuid: str
    index: int
    name: str = ""
    bus_id: str = ""
    parent: str = ""  # the card's UUID, for a MIG instance
    memory_total: int | None = None
    memory_used: int | None = None
    utilisation: float | None = None  # share of time in which any kernel ran: nvidia-smi's GPU-Util
    memory_utilisation: float | None = None  # share of time in which memory was accessed; not bandwidth
    power: float | None = None  # watts
    power_limit: float | None = None
    energy: float | None = None  # joules since the driver was loaded
    temperature: float | None = None  # degrees Celsius
    fan: float | None = None
    clock_sm: float | None = None  # MHz
    clock_sm_max: float | None = None
    clock_memory: float | None = None
    clock_memory_max: float | None = None
    pstate: int | None = None
    throttle: tuple[str, ...] | None = None  # why clocks are reduced, by the names of machine.records
    pcie_sent: float | None = None  # from the card
    pcie_received: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    saturation: Saturation | None = None
    no_saturation: str = ""  # why it is unknown
    processes: tuple[CardProcess, ...] | None = None
    lost: str = ""  # the driver's message about a card that no longer answers
    driver: str = ""  # version
    power_limit_default: float | None = None  # watts
    memory_free: int | None = None  # less than total - used: the driver reserves a part
    serial: str | None = None  # None: the card has none, or a recording of an older version


class Owner(Struct, frozen=True):
    """The owner of a process that the lab started."""

    runtime: str
    notebook: str
    person: str


class ProcessSample(Struct, frozen=True):
    """A process that uses a card or that the lab started, with all its descendants."""

    pid: int
    command: str = ""  # program and script without options, which may hold secrets
    user: str = ""
    container: str = ""  # id or name
    owner: Owner | None = None
    started: float | None = None
    cpu: float | None = None  # percent of one core, for the whole tree
    memory: int | None = None  # for the whole tree
    disk_read: float | None = None
    disk_written: float | None = None
    processes: int = 1  # in the tree
    here: bool = True  # False: in another PID namespace, so only the driver's figures are known


class HostSample(Struct, frozen=True):
    """The machine that the cards are in."""

    cores: int | None = None
    cpu: float | None = None  # percent of all cores
    busiest_core: float | None = None
    io_wait: float | None = None
    load: float | None = None  # runnable processes, mean over a minute
    memory: int | None = None
    memory_used: int | None = None
    swap_used: int | None = None
    disk_read: float | None = None
    disk_written: float | None = None
    received: float | None = None  # network, without loopback
    sent: float | None = None
    quota: float | None = None  # CPU quota of this process's control groups, in cores; None: no quota
    quota_used: float | None = None  # percent of the quota, by the whole group that has it


class Sample(Struct, frozen=True):
    """All measurements at one moment, and over the interval that ended with it."""

    at: float
    seconds: float | None  # since the previous sample; None: this is the first
    host: HostSample
    cards: tuple[CardSample, ...] = ()
    processes: tuple[ProcessSample, ...] = ()
    trouble: str = ""  # why the cards are unknown


class Verdict(Struct, frozen=True):
    """What limits one card's work, over a window of samples."""

    card: str  # its UUID
    code: str  # "idle", "held", "starved" …; see verdicts.toml
    sentence: str  # one line with figures
    advice: str = ""  # what to try next
    because: tuple[str, ...] = ()  # the metrics behind it, with their limits
    seconds: float = 0.0  # length of the samples behind it
    since: float | None = None  # since when it has held, as far as observed; for idle and held
    inferred: bool = False  # inferred from utilisation and power: the card does not measure its activity


class TopReading(Struct, frozen=True):
    """`ownlab top --json`: a sample and its verdicts."""

    sample: Sample
    verdicts: tuple[Verdict, ...] = ()
