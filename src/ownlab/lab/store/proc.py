"""What Linux tells of processes: the one reader of /proc/PID/stat and of the mark of a runtime. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["MARKER", "Stat", "below", "boot_id", "children_of", "everyone", "marker", "process_started", "read_stat"]

# Every process of a runtime has this in its environment, with the runtime's id.
MARKER = "OWNLAB_RUNTIME"

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PF_KTHREAD = 0x00200000  # include/linux/sched.h
# It ended before the file was opened, or while it was read; or this machine hides it (hidepid).
_UNSEEN = (FileNotFoundError, ProcessLookupError, PermissionError)


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
    except _UNSEEN:
        return None
    # The command, in brackets, may hold blanks and brackets itself: what follows its last bracket is in columns.
    head, _, tail = line.rpartition(b")")
    return Stat(pid, head.partition(b"(")[2].decode("utf-8", "replace"), tail.split())


def everyone() -> dict[int, Stat]:
    """Every process that can be seen: one pass over /proc."""
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return {pid: stat for pid in numbers if (stat := read_stat(pid)) is not None}


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


def marker(pid: int) -> str | None:
    """The runtime that its environment names; "" for none, and where it may not be read.

    None where the process is in the middle of an exec, and has no environment for a moment.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read()
    except _UNSEEN:
        return ""
    if not content:
        stat = read_stat(pid)
        return None if stat is not None and stat.is_in_exec else ""
    prefix = f"{MARKER}=".encode()
    entries = (entry for entry in content.split(b"\0") if entry.startswith(prefix))
    return next(entries, prefix)[len(prefix) :].decode("utf-8", "replace")


def boot_id() -> str:
    """Names this run of the machine: pids and start times mean nothing after it."""
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return file.read().strip()
