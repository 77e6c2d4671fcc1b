"""What Linux tells of processes: the one reader of /proc/PID/stat. Standard library only: supervisors import it."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

__all__ = ["UNSEEN", "Stat", "below", "children_of", "everyone", "process_started", "read_stat"]

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PF_KTHREAD = 0x00200000  # include/linux/sched.h
# It ended before the file was opened, or while it was read; or this machine hides it (hidepid).
UNSEEN = (FileNotFoundError, ProcessLookupError, PermissionError)


class Stat(NamedTuple):
    """A line of /proc/PID/stat. There are thousands on a busy machine: a field is made a number when it is asked for."""

    pid: int
    command: str
    fields: list[bytes]  # from the state on, which is field 3 of proc(5)

    @property
    def parent(self) -> int:
        return int(self.fields[1])

    @property
    def session(self) -> int:
        return int(self.fields[3])

    @property
    def is_kernels(self) -> bool:
        """Whether it is a thread of the Linux kernel."""
        return bool(int(self.fields[6]) & _PF_KTHREAD)

    @property
    def ticks(self) -> int:
        """Of CPU time: its own, and that of its children that it has waited for."""
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
        """Whether its memory has no place for an environment yet; one that is truly empty has a place."""
        return not self.is_zombie and self.fields[47] == b"0"


def read_stat(pid: int, root: str | os.PathLike[str] = "/") -> Stat | None:
    """None where there is no such process, or where it may not be seen."""
    try:
        # In half the time that open() takes.
        descriptor = os.open(os.path.join(root, f"proc/{pid}/stat"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            line = os.read(descriptor, 4096)
        finally:
            os.close(descriptor)
    except UNSEEN:
        return None
    # The command, in brackets, may hold blanks and brackets itself: what follows its last bracket is in columns.
    head, _, tail = line.rpartition(b")")
    return Stat(pid, head.partition(b"(")[2].decode("utf-8", "replace"), tail.split())


def everyone(root: str | os.PathLike[str] = "/", *, but: Container[int] = ()) -> dict[int, Stat]:
    """Every process that can be seen, but those: one pass over /proc."""
    numbers = (int(name) for name in os.listdir(os.path.join(root, "proc")) if name.isdigit())
    return {pid: stat for pid in numbers if pid not in but and (stat := read_stat(pid, root)) is not None}


def children_of(table: Mapping[int, Stat]) -> dict[int, list[int]]:
    """Parent -> its children."""
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat.parent, []).append(pid)
    return children


def below(root: int, children: Mapping[int, Iterable[int]]) -> list[int]:
    """All that descend from a process."""
    found = list(children.get(root, ()))
    for pid in found:  # grows while it is walked
        found.extend(children.get(pid, ()))
    return found


def process_started(pid: int) -> int | None:
    """When a process started, in clock ticks after boot; None where there is none."""
    stat = read_stat(pid)
    return None if stat is None else stat.started
