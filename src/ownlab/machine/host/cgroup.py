"""The control groups that hold this process, and the limits on the way from its own group up to the root."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.host.files import parse_list, read_text, shown
from ownlab.machine.host.mounts import Mount, read_mounts

__all__ = ["CpuQuota", "find_cpu_quota", "read_cpu_quota", "read_cpuset", "read_memory_limit"]

# Version 1 writes "no limit" as the largest multiple of a page in 63 bits; whatever is near it is none either.
_NO_LIMIT_V1 = 2**62


class CpuQuota(NamedTuple):
    """A limit on CPU time, and the group that has it."""

    cores: Known[float]
    folder: Path
    version: int

    def used(self) -> float | None:
        """Seconds of CPU time that the group has used so far."""
        try:
            if self.version == 1:
                return int((self.folder / "cpuacct.usage").read_text()) / 1e9
            words = (self.folder / "cpu.stat").read_text().split()
            return int(words[words.index("usage_usec") + 1]) / 1e6
        except (OSError, ValueError, IndexError):
            return None


def read_cpu_quota(root: Path) -> Fact[float]:
    """The smallest quota, in cores, or Unknown("no limit")."""
    quota = find_cpu_quota(root)
    return Unknown("no limit") if quota is None else quota.cores


def find_cpu_quota(root: Path) -> CpuQuota | None:
    """The smallest quota; None: there is no limit."""
    smallest: CpuQuota | None = None
    for folder, version in _folders(root, "cpu"):
        cores = _quota_v2(folder, root) if version == 2 else _quota_v1(folder, root)
        if cores is not None and (smallest is None or cores.value < smallest.cores.value):
            smallest = CpuQuota(cores, folder, version)
    return smallest


def read_memory_limit(root: Path) -> Fact[int]:
    """The smallest limit, in bytes, or Unknown("no limit")."""
    smallest: Known[int] | None = None
    for folder, version in _folders(root, "memory"):
        path = folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")
        text = read_text(path, root)
        if isinstance(text, Unknown) or not text.value.isdecimal() or int(text.value) >= _NO_LIMIT_V1:
            continue
        if smallest is None or int(text.value) < smallest.value:
            smallest = Known(int(text.value), source=shown(path, root), unit="B")
    return smallest or Unknown("no limit")


def read_cpuset(root: Path) -> Fact[frozenset[int]]:
    """The cores that the nearest group with a cpuset allows."""
    for folder, version in _folders(root, "cpuset"):
        name = "cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus"
        text = read_text(folder / name, root)
        if isinstance(text, Known) and parse_list(text.value):
            return Known(parse_list(text.value), source=text.source)
    return Unknown("no limit")


def _quota_v2(folder: Path, root: Path) -> Known[float] | None:
    path = folder / "cpu.max"
    text = read_text(path, root)
    if isinstance(text, Unknown):
        return None
    words = text.value.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # "max 100000": none
    return Known(int(words[0]) / int(words[1]), source=f"{shown(path, root)}: {text.value}")


def _quota_v1(folder: Path, root: Path) -> Known[float] | None:
    path = folder / "cpu.cfs_quota_us"
    quota, period = read_text(path, root), read_text(folder / "cpu.cfs_period_us", root)
    if isinstance(quota, Unknown) or isinstance(period, Unknown):
        return None
    if not quota.value.isdecimal() or not period.value.isdecimal() or int(period.value) == 0:
        return None  # "-1": none
    return Known(
        int(quota.value) / int(period.value), source=f"{shown(path, root)}: {quota.value} of {period.value} µs"
    )


def _folders(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """The group of this process for a controller and all groups above it, nearest first, each with its version."""
    groups, mounts = read_text(root / "proc/self/cgroup", root), read_mounts(root)
    if isinstance(groups, Unknown) or isinstance(mounts, Unknown):
        return
    entries = [line.split(":", 2) for line in groups.value.splitlines() if line.count(":") >= 2]
    # On a hybrid system a controller is served by version 1 or by version 2, never by both.
    for mount in mounts.value:
        if mount.filesystem == "cgroup" and controller in mount.options.split(","):
            for _, controllers, path in entries:
                if controller in controllers.split(","):
                    yield from ((folder, 1) for folder in _upwards(root, mount, path))
                    return
    for mount in mounts.value:
        if mount.filesystem == "cgroup2":
            for number, controllers, path in entries:
                if number == "0" and not controllers:
                    yield from ((folder, 2) for folder in _upwards(root, mount, path))
                    return


def _upwards(root: Path, mount: Mount, path: str) -> Iterator[Path]:
    top = root / mount.point.lstrip("/")
    # In a container without a cgroup namespace the path is the host's, of which only the part below the mount is seen.
    base = mount.folder.rstrip("/")
    inside = path[len(base) :] if path == base or path.startswith(base + "/") else "/"
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:  # outside our cgroup namespace
        parts = []
    for length in range(len(parts), -1, -1):
        yield top.joinpath(*parts[:length])
