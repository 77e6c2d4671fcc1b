"""The machine around the cards: its cores, memory, disks and network, as rates since the last look (Linux, /proc)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ownlab.instruments.top.records import HostSample
from ownlab.machine.host.cpu_and_memory import find_cpu_quota
from ownlab.units import KIB

__all__ = ["Host"]

_SECTOR = 512  # of /proc/diskstats, whatever the disk's own is (Documentation/admin-guide/iostats.rst)
# What lies on other disks, whose traffic is counted there, or in memory.
_NO_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")


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


class Host:
    """Keeps the counters of the last look."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before: _Counts | None = None
        self._quota = find_cpu_quota(root)
        self._is_disk: dict[str, bool] = {}
        self._is_physical: dict[str, bool] = {}

    def read(self) -> HostSample:
        """How it stands, and what went on since the last call; rates are None the first time."""
        used = None if self._quota is None else self._quota.used()
        now = _Counts(time.monotonic(), self._cores(), self._disks(), self._network(), used)
        before, self._before = self._before, now
        memory = self._memory()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        shares = {} if before is None else _shares(before.cores, now.cores)
        of_all = shares.get("cpu")
        each = [busy for name, (busy, _) in shares.items() if name != "cpu"]
        seconds = 0.0 if before is None else now.at - before.at
        read, written = _rates(before and before.disks, now.disks, seconds)
        received, sent = _rates(before and before.network, now.network, seconds)
        return HostSample(
            cores=len(now.cores) - 1 if len(now.cores) > 1 else None,
            cpu=of_all[0] if of_all else None,
            busiest_core=max(each) if each else None,
            io_wait=of_all[1] if of_all else None,
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
        """Of a file of /proc; none where it is not there, as on other systems, or hidden."""
        try:
            return (self._root / "proc" / name).read_text().splitlines()
        except OSError:
            return []

    def _cores(self) -> dict[str, _Cores]:
        found = {}
        for line in self._lines("stat"):
            if not line.startswith("cpu"):
                break  # the lines after these are long, and not asked for
            name, *words = line.split()
            ticks = [int(word) for word in words[:8]]  # guest time is counted in user time already
            found[name] = _Cores(sum(ticks), ticks[3], ticks[4])
        return found

    def _load(self) -> float | None:
        lines = self._lines("loadavg")
        return float(lines[0].split()[0]) if lines else None

    def _memory(self) -> dict[str, int]:
        wanted = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
        parts = (line.partition(":") for line in self._lines("meminfo"))
        return {name: int(value.split()[0]) * KIB for name, _, value in parts if name in wanted}

    def _disks(self) -> tuple[int, int] | None:
        rows = [words for line in self._lines("diskstats") if len(words := line.split()) >= 10]
        disks = [words for words in rows if self._knows_disk(words[2])]
        return (
            (sum(int(each[5]) for each in disks) * _SECTOR, sum(int(each[9]) for each in disks) * _SECTOR)
            if disks
            else None
        )

    def _knows_disk(self, name: str) -> bool:
        """A whole disk: its partitions are counted in it."""
        if name not in self._is_disk:
            whole = os.path.exists(self._root / "sys/block" / name.replace("/", "!"))
            self._is_disk[name] = whole and not name.startswith(_NO_DISKS)
        return self._is_disk[name]

    def _network(self) -> tuple[int, int] | None:
        rows = {
            name.strip(): words.split()
            for name, colon, words in (line.partition(":") for line in self._lines("net/dev"))
            if colon
        }
        rows.pop("lo", None)
        # What goes over bridges, tunnels and containers' ends goes over a device as well; in a container there is none.
        rows = {name: words for name, words in rows.items() if self._knows_device(name)} or rows
        return (
            (sum(int(each[0]) for each in rows.values()), sum(int(each[8]) for each in rows.values())) if rows else None
        )

    def _knows_device(self, name: str) -> bool:
        if name not in self._is_physical:
            self._is_physical[name] = os.path.exists(self._root / "sys/class/net" / name / "device")
        return self._is_physical[name]


def _shares(before: Mapping[str, _Cores], now: Mapping[str, _Cores]) -> dict[str, tuple[float, float]]:
    """By core, the percentages that it worked, and that it waited for disks."""
    found = {}
    for name, cores in now.items():
        old = before.get(name)
        spent = 0 if old is None else cores.everything - old.everything
        if old is not None and spent > 0:  # a core may come back, and count anew
            waited = max(0, cores.waiting - old.waiting)
            idle = max(0, cores.idle - old.idle) + waited
            found[name] = (_percent(spent - idle, spent), _percent(waited, spent))
    return found


def _percent(part: int, whole: int) -> float:
    return min(100.0, max(0.0, 100.0 * part / whole))


def _rates(
    before: Sequence[int] | None, now: Sequence[int] | None, seconds: float
) -> tuple[float, float] | tuple[None, None]:
    """Of two counters; None where there is nothing to compare with. One that went back was reset: 0."""
    if before is None or now is None or seconds <= 0:
        return None, None
    return max(0, now[0] - before[0]) / seconds, max(0, now[1] - before[1]) / seconds
