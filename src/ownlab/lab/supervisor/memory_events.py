"""Whether the system killed a kernel because memory ran out: from the counters of its control group, or the kernel log."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["MemoryGroup", "OutOfMemory", "find_out_of_memory", "machine_memory"]

_CGROUPS = "/sys/fs/cgroup"
_KERNEL_LOG = "/dev/kmsg"
_KERNEL_LOG_RECORD = 8192  # bytes; the longest record of the kernel log
_ROOT_PID_NAMESPACE = (
    "pid:[4026531836]"  # PROC_PID_INIT_INO in linux/proc_ns.h: only there the log's process ids are ours
)
_UNLIMITED = 1 << 60  # bytes; cgroup v1 writes a huge number for "no limit"


class MemoryGroup(NamedTuple):
    """The memory control group of a process, and how many of its processes the system had killed when it was read."""

    folder: str
    version: int
    kills: int

    @classmethod
    def read(cls, pid: int, root: str = _CGROUPS, proc: str = "/proc") -> MemoryGroup | None:
        """Return the group of a process; None if it has none that can be read."""
        try:
            with open(f"{proc}/{pid}/cgroup", encoding="utf-8") as file:
                lines = [line.rstrip("\n").split(":", 2) for line in file]
        except OSError:
            return None
        for _, controllers, path in (line for line in lines if len(line) == 3):
            # A group outside our cgroup namespace is listed as /../name: it cannot be read from here.
            if "/../" in f"{path}/":
                continue
            if "memory" in controllers.split(","):
                group = cls(_join(root, "memory", path), 1, 0)._count()
            elif not controllers:
                group = cls(_join(root, path), 2, 0)._count()
            else:
                group = None
            if group is not None:
                return group
        return None

    def new_kills(self) -> int:
        """Return how many processes the system has killed in this group since it was read."""
        now = self._count()
        return now.kills - self.kills if now is not None else 0

    def limit_bytes(self) -> int | None:
        """Return the smallest limit of the group and the groups around it; None if there is none."""
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        limits, folder = [], self.folder
        while os.path.lexists(os.path.join(folder, "cgroup.procs")):
            content = _read(os.path.join(folder, name)).strip()
            if content.isdecimal() and int(content) < _UNLIMITED:
                limits.append(int(content))
            folder = os.path.dirname(folder)
        return min(limits, default=None)

    def _count(self) -> MemoryGroup | None:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        found = re.search(r"^oom_kill (\d+)$", _read(os.path.join(self.folder, name)), re.MULTILINE)
        return self._replace(kills=int(found[1])) if found else None


class OutOfMemory(NamedTuple):
    """What says that memory ran out ("cgroup", "kernel-log" or "", if nothing does), and the limit of the control group."""

    source: str
    limit_bytes: int | None


def find_out_of_memory(
    pid: int, started: float, group: MemoryGroup | None, kernel_log: str = _KERNEL_LOG
) -> OutOfMemory:
    """Look for the reason of a SIGKILL. `started`: when the process started, in seconds since the machine did."""
    limit = group.limit_bytes() if group else None
    if group is not None and group.new_kills() > 0:
        return OutOfMemory("cgroup", limit)
    return OutOfMemory("kernel-log" if _is_in_kernel_log(pid, started, kernel_log) else "", limit)


def machine_memory() -> int | None:
    """Return the machine's memory in bytes; None if it is unknown."""
    found = re.search(r"^MemTotal:\s+(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _is_in_kernel_log(pid: int, started: float, path: str) -> bool:
    """Whether the kernel log says that this process was killed for lack of memory. Most users may not read the log."""
    try:
        if os.readlink("/proc/self/ns/pid") != _ROOT_PID_NAMESPACE:
            return False
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return any(_names_killed(record, pid, started) for record in _records(log))
    finally:
        os.close(log)


def _records(log: int) -> Iterator[str]:
    while True:
        try:
            record = os.read(log, _KERNEL_LOG_RECORD)
        except BrokenPipeError:  # a record was overwritten before we read it
            continue
        except OSError:  # EAGAIN: this was the last one
            return
        if not record:
            return
        yield from record.decode(errors="replace").splitlines()


def _names_killed(record: str, pid: int, started: float) -> bool:
    """Whether a record like "6,1234,5678901,-;Out of memory: Killed process 4711 (python) …" names this process.

    The third number is the time, in microseconds.
    """
    head, _, message = record.partition(";")
    fields = head.split(",")
    if "out of memory" not in message.lower() or f"illed process {pid} " not in message or len(fields) < 3:
        return False
    return fields[2].isdecimal() and int(fields[2]) / 1e6 >= started


def _join(root: str, *parts: str) -> str:
    return os.path.normpath(os.path.join(root, *(part.lstrip("/") for part in parts)))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
