"""The processor: its name, its cores, how many of them this process may use, and the instruction sets that matter."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import parse_fields, parse_list, read_text, shown
from ownlab.machine.host.disks import Mount, read_mounts
from ownlab.machine.records import Cpu, Memory
from ownlab.units import parse_bytes

__all__ = [
    "CpuQuota",
    "find_cpu_quota",
    "read_cpu",
    "read_cpu_quota",
    "read_cpuset",
    "read_memory",
    "read_memory_limit",
]

# The kernel's flag -> what people call it. x86: Documentation/arch/x86/cpuinfo.rst; ARM: elf_hwcaps.rst.
_INSTRUCTION_SETS = {
    "avx": "AVX",
    "avx2": "AVX2",
    "fma": "FMA",
    "f16c": "F16C",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "avx512_fp16": "AVX-512 FP16",
    "avx_vnni": "AVX-VNNI",
    "amx_tile": "AMX",
    "amx_bf16": "AMX BF16",
    "amx_int8": "AMX INT8",
    "asimd": "NEON",
    "neon": "NEON",
    "sve": "SVE",
    "sve2": "SVE2",
    "bf16": "BF16",
    "i8mm": "I8MM",
}

# ARM's cores have numbers, not names. From util-linux, sys-utils/lscpu-arm.c (2.41), those seen beside accelerators.
_ARM_CORES = {
    ("0x41", "0xd08"): "ARM Cortex-A72",
    ("0x41", "0xd0b"): "ARM Cortex-A76",
    ("0x41", "0xd0c"): "ARM Neoverse-N1",
    ("0x41", "0xd40"): "ARM Neoverse-V1",
    ("0x41", "0xd42"): "ARM Cortex-A78AE",
    ("0x41", "0xd49"): "ARM Neoverse-N2",
    ("0x41", "0xd4f"): "ARM Neoverse-V2",
    ("0x48", "0xd01"): "HiSilicon TaiShan-v110",
    ("0x48", "0xd02"): "HiSilicon TaiShan-v120",
    ("0x4e", "0x004"): "NVIDIA Carmel",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


def read_cpu(root: Path) -> Cpu:
    """The processor of a Linux machine."""
    architecture = read_text(root / "proc/sys/kernel/arch", root)  # since Linux 6.1
    if isinstance(architecture, Unknown) and root == Path("/"):
        architecture = Known(platform.machine(), source="uname")
    info = read_text(root / "proc/cpuinfo", root)
    if isinstance(info, Unknown):
        return Cpu(info, architecture, info, info, info, info)
    blocks = [parse_fields(block) for block in info.value.split("\n\n")]
    cores = frozenset(int(block["processor"]) for block in blocks if block.get("processor", "").isdecimal())
    logical: Fact[int] = Unknown(f"{info.source} lists no processor")
    if cores:
        logical = Known(len(cores), source=info.source)
    return Cpu(
        model=_model(blocks, info.source),
        architecture=architecture,
        physical_cores=_physical_cores(blocks, cores, info.source, root),
        logical_cores=logical,
        usable_cores=_usable_cores(cores, root),
        instruction_sets=_instruction_sets(blocks, info.source),
    )


def _model(blocks: list[dict[str, str]], source: str) -> Fact[str]:
    fields = {name: value for block in reversed(blocks) for name, value in block.items()}
    # "cpu" is IBM POWER's, "Model" a board's (Raspberry Pi, Jetson).
    for name in ("model name", "cpu", "Model", "Hardware"):
        if fields.get(name):
            return Known(fields[name], source=source)
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    if implementer is None or part is None:
        return Unknown(f"{source} names no model")
    name = _ARM_CORES.get((implementer.lower(), part.lower()), f"ARM implementer {implementer} part {part}")
    return Known(name, source=f"{source}: implementer {implementer}, part {part}")


def _physical_cores(blocks: list[dict[str, str]], cores: frozenset[int], source: str, root: Path) -> Fact[int]:
    pairs = {(block.get("physical id"), block["core id"]) for block in blocks if "core id" in block}
    if pairs:
        return Known(len(pairs), source=source)
    siblings: set[str] = set()
    for core in cores:  # ARM's cpuinfo does not say which of them share a core
        text = read_text(root / f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list", root)
        if isinstance(text, Unknown):
            return text
        siblings.add(text.value)
    if not siblings:
        return Unknown(f"{source} lists no processor")
    return Known(len(siblings), source="/sys/devices/system/cpu/cpu*/topology/thread_siblings_list")


def _usable_cores(online: frozenset[int], root: Path) -> Fact[float]:
    status = read_text(root / "proc/self/status", root)
    if isinstance(status, Unknown):
        return status
    # The list may name cores that could be plugged in and are not (VMware, Hyper-V), hence the intersection.
    allowed = parse_list(parse_fields(status.value).get("Cpus_allowed_list", "")) & online
    if not allowed:
        return Unknown("the cores that this process may run on are not listed in /proc/self/status")
    usable: Known[float] = Known(float(len(allowed)), source="all cores: no affinity, cpuset or quota limits them")
    if allowed < online:
        cpuset = read_cpuset(root)
        if isinstance(cpuset, Known) and cpuset.value & online == allowed:
            usable = Known(float(len(allowed)), source=f"cpuset ({cpuset.source})")
        else:
            usable = Known(float(len(allowed)), source="affinity (/proc/self/status: Cpus_allowed_list)")
    quota = read_cpu_quota(root)
    if isinstance(quota, Known) and quota.value < usable.value:
        return Known(round(quota.value, 2), source=f"cgroup quota ({quota.source})")
    return usable


def _instruction_sets(blocks: list[dict[str, str]], source: str) -> Fact[tuple[str, ...]]:
    for block in blocks:
        flags = block.get("flags", block.get("Features"))
        if flags is not None:
            present = set(flags.split())
            names = dict.fromkeys(name for flag, name in _INSTRUCTION_SETS.items() if flag in present)
            return Known(tuple(names), source=source)
    return Unknown(f"{source} lists no instruction sets")


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
