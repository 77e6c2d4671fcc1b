"""CPU, memory, disks and network of the host, as rates since the last reading (Linux, /proc)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ownlab.instruments.top.records import HostSample
from ownlab.machine.host.cpu_and_memory import find_cpu_quota
from ownlab.units import KIB

__all__ = ["HostSampler"]

_SECTOR = 512  # the unit of /proc/diskstats, whatever the disk's own (Documentation/admin-guide/iostats.rst)
# Devices in memory or on top of other disks, whose traffic is counted there.
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")


class _Cores(NamedTuple):
    """Ticks since boot."""

    everything: int
    idle: int
    waiting: int


class _Counts(NamedTuple):
    at: float
    cores: Mapping[str, _Cores]
    disks: tuple[int, int] | None  # bytes read and written
    network: tuple[int, int] | None  # bytes received and sent
    used: float | None  # seconds of CPU time, by the group that has a quota


class HostSampler:
    """Reads the host; keeps the counters of the last reading."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before: _Counts | None = None
        self._quota = find_cpu_quota(root)
        self._is_disk: dict[str, bool] = {}
        self._is_physical: dict[str, bool] = {}

    def read(self) -> HostSample:
        """Return the state now and the rates since the last call; the first call has no rates."""
        used = None if self._quota is None else self._quota.used()
        now = _Counts(time.monotonic(), self._cores(), self._disks(), self._network(), used)
        before, self._before = self._before, now
        memory = self._memory()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        shares = {} if before is None else _shares(before.cores, now.cores)
        all_cores = shares.get("cpu")
        by_core = [busy for name, (busy, _) in shares.items() if name != "cpu"]
        seconds = 0.0 if before is None else now.at - before.at
        read, written = _rates(before and before.disks, now.disks, seconds)
        received, sent = _rates(before and before.network, now.network, seconds)
        return HostSample(
            cores=len(now.cores) - 1 if len(now.cores) > 1 else None,
            cpu=all_cores[0] if all_cores else None,
            busiest_core=max(by_core) if by_core else None,
            io_wait=all_cores[1] if all_cores else None,
            load=self._load(),
            memory=total,
            memory_used=total - available if total is not None and available is not None else None,
            swap_used=memory["SwapTotal"] - memory["SwapFree"] if {"SwapTotal", "SwapFree"} <= set(memory) else None,
            disk_read=read,
            disk_written=written,
            received=received,
            sent=sent,
            quota=None if self._quota is None else self._quota.cores.value,
            quota_used=self._quota_used(before, now),
        )

    def _quota_used(self, before: _Counts | None, now: _Counts) -> float | None:
        if self._quota is None or before is None or before.used is None or now.used is None or now.at <= before.at:
            return None
        allowed = self._quota.cores.value * (now.at - before.at)
        return 100 * max(0.0, now.used - before.used) / allowed if allowed > 0 else None

    def _lines(self, name: str) -> list[str]:
        """Return the lines of a file in /proc; none if it does not exist (other systems) or is hidden."""
        try:
            return (self._root / "proc" / name).read_text().splitlines()
        except OSError:
            return []

    def _cores(self) -> dict[str, _Cores]:
        cores = {}
        for line in self._lines("stat"):
            if not line.startswith("cpu"):
                break  # the lines after these are long
            name, *words = line.split()
            ticks = [int(word) for word in words[:8]]  # guest time is counted in user time already
            cores[name] = _Cores(sum(ticks), ticks[3], ticks[4])
        return cores

    def _load(self) -> float | None:
        lines = self._lines("loadavg")
        return float(lines[0].split()[0]) if lines else None

    def _memory(self) -> dict[str, int]:
        wanted = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
        parts = (line.partition(":") for line in self._lines("meminfo"))
        return {name: int(value.split()[0]) * KIB for name, _, value in parts if name in wanted}

    def _disks(self) -> tuple[int, int] | None:
        rows = [words for line in self._lines("diskstats") if len(words := line.split()) >= 10]
        disks = [words for words in rows if self._is_whole_disk(words[2])]
        return (
            (sum(int(words[5]) for words in disks) * _SECTOR, sum(int(words[9]) for words in disks) * _SECTOR)
            if disks
            else None
        )

    def _is_whole_disk(self, name: str) -> bool:
        """Partitions are counted in their disk."""
        if name not in self._is_disk:
            whole = os.path.exists(self._root / "sys/block" / name.replace("/", "!"))
            self._is_disk[name] = whole and not name.startswith(_NOT_DISKS)
        return self._is_disk[name]

    def _network(self) -> tuple[int, int] | None:
        rows = {
            name.strip(): words.split()
            for name, colon, words in (line.partition(":") for line in self._lines("net/dev"))
            if colon
        }
        rows.pop("lo", None)
        # Traffic of bridges, tunnels and containers also passes a physical device. In a container there is none.
        rows = {name: words for name, words in rows.items() if self._is_device(name)} or rows
        return (
            (sum(int(words[0]) for words in rows.values()), sum(int(words[8]) for words in rows.values()))
            if rows
            else None
        )

    def _is_device(self, name: str) -> bool:
        if name not in self._is_physical:
            self._is_physical[name] = os.path.exists(self._root / "sys/class/net" / name / "device")
        return self._is_physical[name]


def _shares(before: Mapping[str, _Cores], now: Mapping[str, _Cores]) -> dict[str, tuple[float, float]]:
    """Return, by core, the percentages of busy time and of I/O wait."""
    shares = {}
    for name, cores in now.items():
        old = before.get(name)
        spent = 0 if old is None else cores.everything - old.everything
        if old is not None and spent > 0:  # the counters of a core that comes back online restart
            waited = max(0, cores.waiting - old.waiting)
            idle = max(0, cores.idle - old.idle) + waited
            shares[name] = (_percent(spent - idle, spent), _percent(waited, spent))
    return shares


def _percent(part: int, whole: int) -> float:
    return min(100.0, max(0.0, 100.0 * part / whole))


def _rates(
    before: Sequence[int] | None, now: Sequence[int] | None, seconds: float
) -> tuple[float, float] | tuple[None, None]:
    """Return the rates of two counters; None without a previous reading. A counter that went backwards was reset: 0."""
    if before is None or now is None or seconds <= 0:
        return None, None
    return max(0, now[0] - before[0]) / seconds, max(0, now[1] - before[1]) / seconds
