"""Reads /proc/PID/stat. Standard library only: supervisors import it."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

__all__ = ["UNSEEN", "Stat", "all_processes", "children_of", "descendants_of", "process_started", "read_stat"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PF_KTHREAD = 0x00200000  # include/linux/sched.h
# The process ended before or while its file was read, or this machine hides it (hidepid).
UNSEEN = (FileNotFoundError, ProcessLookupError, PermissionError)


class Stat(NamedTuple):
    """A line of /proc/PID/stat. A busy machine has thousands: fields are converted to numbers on access."""

    pid: int
    command: str
    fields: list[bytes]  # starting with the state, field 3 of proc(5)

    @property
    def parent(self) -> int:
        return int(self.fields[1])

    @property
    def session(self) -> int:
        return int(self.fields[3])

    @property
    def is_kernel_thread(self) -> bool:
        """Whether it is a thread of the Linux kernel."""
        return bool(int(self.fields[6]) & _PF_KTHREAD)

    @property
    def ticks(self) -> int:
        """CPU time: its own, and that of the children it has waited for."""
        return sum(int(ticks) for ticks in self.fields[11:15])

    @property
    def threads(self) -> int:
        return int(self.fields[17])

    @property
    def started(self) -> int:
        """In clock ticks after boot."""
        return int(self.fields[19])

    @property
    def rss(self) -> int:
        """Resident memory, in bytes."""
        return int(self.fields[21]) * _PAGE

    @property
    def is_zombie(self) -> bool:
        return self.fields[0] in (b"Z", b"X")

    @property
    def is_in_exec(self) -> bool:
        """Whether it is inside execve(): its memory has no room for an environment yet (an empty one has)."""
        return not self.is_zombie and self.fields[47] == b"0"


def read_stat(pid: int, root: str | os.PathLike[str] = "/") -> Stat | None:
    """Read one process; None if it does not exist or is not visible."""
    try:
        # Twice as fast as open().
        descriptor = os.open(os.path.join(root, f"proc/{pid}/stat"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except UNSEEN:
        return None
    # The command, in parentheses, may contain blanks and parentheses: split after the last one.
    head, _, tail = line.rpartition(b")")
    return Stat(pid, head.partition(b"(")[2].decode("utf-8", "replace"), tail.split())


def all_processes(root: str | os.PathLike[str] = "/", *, but: Container[int] = ()) -> dict[int, Stat]:
    """Read every visible process except those in `but`, in one pass over /proc."""
    numbers = (int(name) for name in os.listdir(os.path.join(root, "proc")) if name.isdigit())
    return {pid: stat for pid in numbers if pid not in but and (stat := read_stat(pid, root)) is not None}


def children_of(table: Mapping[int, Stat]) -> dict[int, list[int]]:
    """Return parent -> children."""
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat.parent, []).append(pid)
    return children


def descendants_of(root: int, children: Mapping[int, Iterable[int]]) -> list[int]:
    """Return all descendants of a process."""
    descendants = list(children.get(root, ()))
    for pid in descendants:  # grows during the loop
        descendants.extend(children.get(pid, ()))
    return descendants


def process_started(pid: int) -> int | None:
    """Return the start time of a process in clock ticks after boot; None if it does not exist."""
    stat = read_stat(pid)
    return None if stat is None else stat.started
