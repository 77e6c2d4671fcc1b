"""What was seen of a process from outside."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["AttachedProcess", "Observed"]


class AttachedProcess(Struct, frozen=True):
    """One process, over the time in which it was observed."""

    pid: int
    role: str  # training, worker or other
    cpu_share: float | None  # CPU time of all threads against the clock; more than 1 with several threads
    queue_share: float | None  # its main thread was ready to run, without a core
    read_bytes: int | None  # from disks; None where that may not be read
    swapped_bytes: int | None


class Observed(Struct, frozen=True):
    """`ownlab why --pid --json`: where the training thread was seen."""

    pid: int
    seconds: float
    samples: int  # of the training thread
    ended: bool  # the process has ended meanwhile
    shares: dict[str, float]  # of the training thread's time, by part of a step
    processes: tuple[AttachedProcess, ...]
