"""What is sampled and what is said of it, as records: `ownlab top --json` prints them, recordings keep them.

Sizes are in bytes, rates in bytes a second, times in seconds since the epoch, shares in percent (0 to 100). None: not
known, or not known yet: a rate needs two samples. What a sample says of its interval is the mean over all of it.
"""

from __future__ import annotations

from msgspec import Struct

__all__ = [
    "CardProcess",
    "CardSample",
    "HostSample",
    "Look",
    "Owner",
    "ProcessSample",
    "Sample",
    "Saturation",
    "Verdict",
]


class Saturation(Struct, frozen=True):
    """How much of a card worked: NVML's GPM, on Hopper and newer. Percent of what the card could do in the interval."""

    graphics: float | None = None  # of the time, in which anything ran at all
    sm: float | None = None  # of the multiprocessors that were busy
    occupancy: float | None = None  # of the warps that they could hold
    tensor: float | None = None  # of the time, in which tensor cores worked
    dram: float | None = None  # of the memory's bandwidth
    integer: float | None = None
    fp64: float | None = None  # outside tensor cores, as the two after it
    fp32: float | None = None
    fp16: float | None = None
    nvlink_sent: float | None = None
    nvlink_received: float | None = None
    tensor_fp64: float | None = None  # of the time, in which tensor cores worked in FP64


class CardProcess(Struct, frozen=True):
    """A process as the driver knows it on a card."""

    pid: int  # as the driver counts: in a container, perhaps not as this machine's /proc does
    kind: str = "compute"  # or "graphics"
    memory: int | None = None
    sm: float | None = None  # percent of the interval in which its kernels ran


class CardSample(Struct, frozen=True):
    """One card, or one MIG instance of one."""

    uuid: str
    index: int
    name: str = ""
    bus_id: str = ""
    parent: str = ""  # of a MIG instance, the card's UUID
    memory_total: int | None = None
    memory_used: int | None = None
    utilisation: float | None = None  # of the time in which any kernel ran, as nvidia-smi says it
    memory_utilisation: float | None = None  # of the time in which memory was read or written; not of its bandwidth
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
    throttle: tuple[str, ...] | None = None  # why clocks are lower than they could be, by the names of machine.records
    pcie_sent: float | None = None  # by the card
    pcie_received: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    saturation: Saturation | None = None
    no_saturation: str = ""  # why there is none
    processes: tuple[CardProcess, ...] | None = None
    lost: str = ""  # what the driver says of a card that no longer answers
    driver: str = ""  # its version
    power_limit_default: float | None = None  # watts; what the limit is where nobody changed it
    memory_free: int | None = None  # less than what is not used: the driver keeps a part for itself


class Owner(Struct, frozen=True):
    """Whose a process is, where the lab started it."""

    runtime: str
    notebook: str
    person: str


class ProcessSample(Struct, frozen=True):
    """A process that uses a card, or that the lab started, with everything that descends from it."""

    pid: int
    command: str = ""  # program and script, never options: these may be secret
    user: str = ""
    container: str = ""  # its id or name, where it is in one
    owner: Owner | None = None
    started: float | None = None
    cpu: float | None = None  # percent of one core, of the whole tree
    memory: int | None = None  # of the whole tree
    disk_read: float | None = None
    disk_written: float | None = None
    processes: int = 1  # in the tree
    here: bool = True  # False: of another PID namespace; only what the driver says is known


class HostSample(Struct, frozen=True):
    """The machine around the cards."""

    cores: int | None = None
    cpu: float | None = None  # percent of all cores
    busiest_core: float | None = None
    io_wait: float | None = None
    load: float | None = None  # processes that want to run, mean of a minute
    memory: int | None = None
    memory_used: int | None = None
    swap_used: int | None = None
    disk_read: float | None = None
    disk_written: float | None = None
    received: float | None = None  # over the network, without loopback
    sent: float | None = None
    quota: float | None = None  # cores that this process's control groups allow; None: all
    quota_used: float | None = None  # percent of that, by everything in the group that has the limit


class Sample(Struct, frozen=True):
    """Everything at one moment, and over the interval that ended with it."""

    at: float
    seconds: float | None  # since the sample before; None: there was none
    host: HostSample
    cards: tuple[CardSample, ...] = ()
    processes: tuple[ProcessSample, ...] = ()
    trouble: str = ""  # why the cards are not known


class Verdict(Struct, frozen=True):
    """What one card's time went into, over a window of samples."""

    card: str  # its UUID
    code: str  # "idle", "held", "starved" …: see verdicts.toml
    sentence: str  # what it is, in one line, with figures
    advice: str = ""  # what to try next
    because: tuple[str, ...] = ()  # the figures that it rests on, and their limits
    seconds: float = 0.0  # of samples that it is drawn from
    since: float | None = None  # the moment from which on it has been so, as far as somebody looked; idle and held
    inferred: bool = False  # the card does not measure how much of it works: a guess from utilisation and power


class Look(Struct, frozen=True):
    """`ownlab top --json`: a sample, and what is said of it."""

    sample: Sample
    verdicts: tuple[Verdict, ...] = ()
