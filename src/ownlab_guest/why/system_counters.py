"""Counters of the system around the script: how long threads waited for a core, what was read, swapped and throttled.

Files of /proc are opened once and read with pread, which costs microseconds. A file under /proc/self or thread-self stays that of
the process or thread that has opened it, so a fork needs new ones.
"""

import os
import re
import time
from typing import Any, Dict, Optional

__all__ = ["IoCounter", "QueueCounter", "available_cores", "cpu_quota", "read_counters"]


class _Counter:
    path = ""

    def __init__(self) -> None:
        try:
            self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # not Linux, or hidden by the container
            self._file = -1

    @property
    def known(self) -> bool:
        return self._file >= 0

    def _read(self) -> bytes:
        return os.pread(self._file, 512, 0) if self._file >= 0 else b""


class QueueCounter(_Counter):
    """How long the thread that made this object was ready to run and had no core (/proc/thread-self/schedstat, field 2)."""

    path = "/proc/thread-self/schedstat"

    def nanoseconds(self) -> int:
        fields = self._read().split()
        return int(fields[1]) if len(fields) > 1 else 0


class IoCounter(_Counter):
    """What this process has read: by system calls, and from disks (/proc/self/io)."""

    path = "/proc/self/io"

    def bytes_read(self) -> "tuple[int, int]":
        """Return the bytes of all reads, and those that came from a disk."""
        fields = self._read().split()
        return (int(fields[1]), int(fields[9])) if len(fields) > 9 else (0, 0)


def available_cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def read_counters(queue: Optional[QueueCounter]) -> Dict[str, Any]:
    """Read what is compared between begin and end of the measurement; `queue` is that of the training thread."""
    counters: Dict[str, Any] = {
        "at_ns": time.perf_counter_ns(),
        "cpu_ns": time.process_time_ns(),
        "swap_in": 0,
        "swap_out": 0,
    }
    counters["queue_ns"] = 0 if queue is None else queue.nanoseconds()
    for line in _text("/proc/vmstat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("pswpin", "pswpout"):
            counters["swap_in" if name == "pswpin" else "swap_out"] = int(value)
    counters["memory_stall_us"] = _stall("/proc/pressure/memory")
    fields = _text("/proc/stat").partition("\n")[0].split()[1:9]
    if len(fields) == 8:
        ticks = [int(field) for field in fields]
        counters["machine_busy_ticks"] = sum(ticks) - ticks[3] - ticks[4]  # without idle and iowait
    counters["throttled_us"] = _throttled()
    return counters


def cpu_quota() -> Optional[float]:
    """The cores that the control group of this process may use in the mean, or None without a limit (cgroup v2)."""
    quota, _, period = (_text(os.path.join(_group(), "cpu.max")).strip() or "max 0").partition(" ")
    return None if quota == "max" or not int(period) else int(quota) / int(period)


def _group() -> str:
    match = re.search(r"^0::(/\S*)$", _text("/proc/self/cgroup"), re.MULTILINE)
    return "/sys/fs/cgroup" + (match.group(1) if match else "")


def _throttled() -> int:
    match = re.search(r"^throttled_usec (\d+)", _text(os.path.join(_group(), "cpu.stat")), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _stall(path: str) -> int:
    match = re.search(r"^some .*total=(\d+)", _text(path), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
