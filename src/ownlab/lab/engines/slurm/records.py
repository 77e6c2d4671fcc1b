"""Partitions, nodes and jobs of a cluster, as Slurm describes them. Times are in seconds since the epoch."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ClusterConfig", "ClusterNode", "Gpus", "Partition", "SlurmJob"]


class Gpus(NamedTuple):
    """GPUs of one type: `gpu:a100:4`."""

    type: str  # "": the site has named none
    number: int


class Partition(NamedTuple):
    """A partition (`scontrol show partition`)."""

    name: str
    is_default: bool
    is_up: bool
    time_limit: float | None  # seconds; None: no limit
    default_time: float | None  # of a job that names none; None: the limit of the partition
    nodes: str  # a host list: n[1-4]; "" if it has none
    most_nodes: int | None  # of one job; None: no limit


class ClusterNode(NamedTuple):
    """A node (`scontrol show node`)."""

    name: str
    state: str  # IDLE, MIXED, ALLOCATED, DOWN …, without flags
    flags: frozenset[str]  # DRAIN, NOT_RESPONDING, …
    partitions: tuple[str, ...]
    gpus: tuple[Gpus, ...]
    used_gpus: int
    cpus: int
    reason: str  # why it is down or drained
    address: str = ""  # NodeAddr
    port: int | None = None  # of its slurmd
    version: str = ""  # of its slurmd; "": it has not registered

    @property
    def is_usable(self) -> bool:
        """Whether it takes jobs, now or when it is free again."""
        return self.state in ("IDLE", "MIXED", "ALLOCATED", "COMPLETING") and not self.flags & _UNUSABLE

    @property
    def free_gpus(self) -> int:
        """How many GPUs no job has."""
        return sum(each.number for each in self.gpus) - self.used_gpus


_UNUSABLE = frozenset({"DRAIN", "DRAINING", "DRAINED", "DOWN", "FAIL", "NOT_RESPONDING", "INVALID_REG", "FUTURE"})


class SlurmJob(NamedTuple):
    """A job (`squeue` or `scontrol show job`)."""

    number: str  # "1234", or "1234_5" of an array
    user: str
    state: str  # PENDING, RUNNING, COMPLETED, CANCELLED, TIMEOUT …
    reason: str  # Resources, Priority, QOSMaxGRESPerUser …; "" if there is none
    nodes: str  # a host list
    starts_at: float | None
    ends_at: float | None
    comment: str
    exit_code: int | None = None
    signal: int | None = None
    cards: tuple[int, ...] = ()  # numbers of the GPUs on its first node


class ClusterConfig(NamedTuple):
    """What of `scontrol show config` matters here."""

    cluster: str
    version: tuple[int, int]
    kill_wait: float  # seconds between SIGTERM and SIGKILL
    keeps_ended: float  # MinJobAge: for how many seconds ended jobs are known
    controllers: tuple[str, ...]
    node_port: int | None = None  # SlurmdPort
    socket: str = ""  # of munged, if it is not the usual one
    most_in_array: int = 1000  # tasks of a job array: one less than MaxArraySize
