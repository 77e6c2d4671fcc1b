"""Memory: how much there is, how much is left, how much of it this process's control group may have."""

from __future__ import annotations

import os
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.host.cgroup import read_memory_limit
from ownlab.machine.host.files import parse_fields, read_text
from ownlab.machine.records import Memory
from ownlab.units import parse_bytes

__all__ = ["read_memory"]

_SHM = "/dev/shm"  # noqa: S108 - measured, never written to


def read_memory(root: Path) -> Memory:
    """The memory of a Linux machine."""
    info = read_text(root / "proc/meminfo", root)
    total = _field(info, "MemTotal")
    limit = read_memory_limit(root)
    if isinstance(limit, Known) and isinstance(total, Known) and limit.value >= total.value:
        limit = Unknown("no limit")  # one above what is here limits nothing
    shm_total, shm_free = _shm(root)
    return Memory(
        total=total,
        available=_field(info, "MemAvailable"),
        cgroup_limit=limit,
        swap_total=_field(info, "SwapTotal"),
        shm_total=shm_total,
        shm_free=shm_free,
    )


def _field(info: Fact[str], name: str) -> Fact[int]:
    if isinstance(info, Unknown):
        return info
    text = parse_fields(info.value).get(name)
    if text is None:
        return Unknown(f"{info.source} has no {name}")
    number, _, unit = text.partition(" ")
    if not number.isdecimal():
        return Unknown(f"{info.source} says {name}: {text}")
    # The kernel writes kB and means 1024 bytes.
    return Known(parse_bytes(f"{number} KiB" if unit == "kB" else number), source=info.source, unit="B")


def _shm(root: Path) -> tuple[Fact[int], Fact[int]]:
    try:
        space = os.statvfs(root / _SHM.lstrip("/"))
    except FileNotFoundError:
        missing = Unknown(f"there is no {_SHM} here")
        return missing, missing
    except OSError as exc:
        refused = Unknown(f"{_SHM} cannot be measured: {exc.strerror}")
        return refused, refused
    return (
        Known(space.f_blocks * space.f_frsize, source=_SHM, unit="B"),
        Known(space.f_bavail * space.f_frsize, source=_SHM, unit="B"),
    )
