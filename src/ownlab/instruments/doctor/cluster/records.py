"""The facts of a cluster as they are seen from one machine, and what the doctor makes of them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.instruments.doctor.records import Finding
from ownlab.machine.facts import NOT_READ, Fact

__all__ = [
    "ClusterDiagnosis",
    "ClusterFacts",
    "ClusterVerdict",
    "Controller",
    "NodeCheck",
    "NodeFacts",
    "NodeJobs",
    "UserDifference",
]

# On which nodes a job is run: on those without any other job, on all that take jobs, on none.
NodeJobs = Literal["idle", "all", "none"]


class Controller(Struct, frozen=True):
    """A slurmctld."""

    name: str
    is_up: bool  # scontrol ping says so
    address: str = ""
    port: int | None = None
    connection: str = ""  # "open", "refused", "silent" (nothing answers), or why it was not tried


class UserDifference(Struct, frozen=True):
    """A person whose number is not the same everywhere."""

    name: str
    here: int | None  # None: there is no such user
    there: int | None


class NodeCheck(Struct, frozen=True):
    """What a job on a node found. Times are in seconds since the epoch."""

    job: str
    problem: str = ""  # "": it ended well. "pending", "failed", "folder", "other-folder", "python", "ownlab"
    detail: str = ""  # Slurm's reason, or the last lines of its log
    host: str = ""
    user: str = ""  # as the node calls the one who asked
    credential: str = ""  # what unmunge says there of a credential that was made here: "Success (0)"
    encoded_at: float | None = None  # by the clock here
    decoded_at: float | None = None  # by the clock of the node
    seen_at: float | None = None  # when the report had arrived, by the clock here
    python: str = ""  # version of the interpreter that runs ownlab
    ownlab: str = ""
    cards: Fact[int] = NOT_READ  # GPUs on its PCI bus
    current_folder: str = ""  # "same", "missing", "other"
    users: tuple[UserDifference, ...] = ()
    unreachable: tuple[str, ...] = ()  # other nodes to whose free ports it could not connect
    from_here: str = ""  # to a free port of this node: "open", "refused", "silent"

    @property
    def clock_difference(self) -> float:
        """By how many seconds the node's clock is ahead of the clock here, at least; negative: behind."""
        if self.encoded_at is None or self.decoded_at is None or self.seen_at is None:
            return 0.0
        # It was decoded after it was encoded, and before the report was seen.
        if self.decoded_at < self.encoded_at:
            return self.decoded_at - self.encoded_at
        return max(0.0, self.decoded_at - self.seen_at)


class NodeFacts(Struct, frozen=True):
    """A node, as the controller describes it, and as a job on it found it."""

    name: str
    state: str  # IDLE, MIXED, DOWN …
    flags: tuple[str, ...]  # DRAIN, NOT_RESPONDING, …
    usable: bool  # it takes jobs, now or later
    reason: str
    gpus: int  # as the configuration says
    gpu_types: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    version: str = ""  # of its slurmd
    address: str = ""
    port: int | None = None
    connection: str = ""  # to its slurmd from here: "open", "refused", "silent", or why it was not tried
    check: NodeCheck | None = None
    unchecked: str = ""  # why no job was run there


class ClusterFacts(Struct, frozen=True):
    """The cluster, seen from one machine."""

    host: str
    user: str
    commands: Fact[str] = NOT_READ  # version of Slurm's commands here
    configuration: str = ""  # the slurm.conf that was found; "" if there is none here
    munge: Fact[str] = NOT_READ  # what unmunge says of a credential made here: "Success (0)"
    controllers: tuple[Controller, ...] = ()
    controller: Fact[str] = NOT_READ  # its version; the reason is what Slurm said
    cluster: str = ""  # its name
    nodes: tuple[NodeFacts, ...] = ()
    folder: str = ""  # ownlab's state folder
    current_folder: str = ""
    python: str = ""  # the interpreter that runs ownlab
    ownlab: str = ""
    node_jobs: NodeJobs = "idle"
    read_at: float = 0.0


class ClusterVerdict(Struct, frozen=True):
    usable: Literal["yes", "no"]
    sentence: str


class ClusterDiagnosis(Struct, frozen=True):
    """`ownlab doctor --cluster --json`."""

    verdict: ClusterVerdict
    findings: tuple[Finding, ...]
    cluster: ClusterFacts
