"""What a log of NCCL says: ranks, connections, networks, and failures."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Communicator", "Connection", "Failure", "Machine", "NcclLog", "Rank", "Timeout"]


class Rank(Struct, frozen=True):
    """One rank of a communicator."""

    rank: int
    machine: str  # "" where the log has no host names
    pid: int
    bus_id: str  # of its GPU, as NCCL writes it; "" if unknown


class Connection(Struct, frozen=True):
    """How one rank sends to another."""

    sender: int
    receiver: int
    transport: str  # P2P, SHM, NET or another word of NCCL's
    network: str  # of NET: Socket, IB, a plugin's name; "" otherwise
    gpu_direct: bool  # of NET: the network card reads the GPU's memory
    how: str  # as NCCL writes it
    channels: int
    same_machine: bool | None


class Communicator(Struct, frozen=True):
    """Ranks that work together."""

    id: str
    size: int  # 0: the log does not say
    ranks: tuple[Rank, ...]
    connections: tuple[Connection, ...]
    ring: tuple[int, ...]  # the order of ranks in channel 0
    complete: int  # ranks that say that they are ready


class Machine(Struct, frozen=True):
    """What NCCL found and chose on one machine."""

    name: str
    versions: tuple[str, ...]
    network: str  # "Using network …"
    plugin: str  # "" if none was loaded
    interfaces: tuple[str, ...]  # of IP, for NET/Socket
    bootstrap: str  # the interface of IP on which the ranks meet
    adapters: tuple[str, ...]  # of InfiniBand and RoCE, such as mlx5_0:1/IB
    no_adapter: str  # why there is none, as NCCL says it
    gpu_direct: dict[str, bool]  # by adapter
    paths: tuple[str, ...]  # the farthest path between GPUs in the rings: NVL, PIX, PHB, SYS …
    settings: dict[str, str]  # NCCL_… variables that were set
    p2p_disabled: tuple[str, ...]  # pairs of GPUs, such as "0-1"


class Failure(Struct, frozen=True):
    """A warning of NCCL. Equal ones of a machine are counted."""

    kind: str
    machine: str
    message: str
    ranks: tuple[int, ...]
    peer: str
    detail: str
    count: int


class Timeout(Struct, frozen=True):
    """A collective that PyTorch's watchdog gave up."""

    rank: int
    group: str  # of processes; "" if the line does not say
    sequence: int
    operation: str
    elements: int | None
    ran_ms: int
    last_enqueued: int | None = None
    last_completed: int | None = None


class NcclLog(Struct, frozen=True):
    """Everything that was read from logs of one run."""

    files: tuple[str, ...]
    lines: int  # of NCCL
    informative: bool  # whether NCCL_DEBUG was INFO
    versions: tuple[str, ...]
    channels: int | None  # for collectives
    machines: tuple[Machine, ...]
    communicators: tuple[Communicator, ...]  # the largest first
    failures: tuple[Failure, ...]
    timeouts: tuple[Timeout, ...]
