"""CPU and memory: what the machine has, and what affinity and control groups (cgroups) leave to this process."""

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
from ownlab.text import text
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

# The kernel's flag -> its usual name. x86: Documentation/arch/x86/cpuinfo.rst; ARM: elf_hwcaps.rst.
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

# ARM's cores have numbers, not names. From util-linux, sys-utils/lscpu-arm.c (2.41): cores used with accelerators.
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
    """Read the CPU of a Linux machine."""
    architecture = read_text(root / "proc/sys/kernel/arch", root)  # since Linux 6.1
    if isinstance(architecture, Unknown) and root == Path("/"):
        architecture = Known(platform.machine(), source="uname")
    info = read_text(root / "proc/cpuinfo", root)
    if isinstance(info, Unknown):
        return Cpu(info, architecture, info, info, info, info)
    blocks = [parse_fields(block) for block in info.value.split("\n\n")]
    cores = frozenset(int(block["processor"]) for block in blocks if block.get("processor", "").isdecimal())
    logical: Fact[int] = Unknown(text("{source} lists no processor", source=info.source))
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
    # IBM POWER has "cpu"; boards such as Raspberry Pi and Jetson have "Model".
    for name in ("model name", "cpu", "Model", "Hardware"):
        if fields.get(name):
            return Known(fields[name], source=source)
    implementer, part = fields.get("CPU implementer"), fields.get("CPU part")
    if implementer is None or part is None:
        return Unknown(text("{source} names no model", source=source))
    name = _ARM_CORES.get((implementer.lower(), part.lower()), f"ARM implementer {implementer} part {part}")
    return Known(name, source=f"{source}: implementer {implementer}, part {part}")


def _physical_cores(blocks: list[dict[str, str]], cores: frozenset[int], source: str, root: Path) -> Fact[int]:
    pairs = {(block.get("physical id"), block["core id"]) for block in blocks if "core id" in block}
    if pairs:
        return Known(len(pairs), source=source)
    siblings: set[str] = set()
    for core in cores:  # ARM's cpuinfo does not show which of them share a core
        content = read_text(root / f"sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list", root)
        if isinstance(content, Unknown):
            return content
        siblings.add(content.value)
    if not siblings:
        return Unknown(text("{source} lists no processor", source=source))
    return Known(len(siblings), source="/sys/devices/system/cpu/cpu*/topology/thread_siblings_list")


def _usable_cores(online: frozenset[int], root: Path) -> Fact[float]:
    status = read_text(root / "proc/self/status", root)
    if isinstance(status, Unknown):
        return status
    # The list may name cores that could be plugged in but are not (VMware, Hyper-V), hence the intersection.
    allowed = parse_list(parse_fields(status.value).get("Cpus_allowed_list", "")) & online
    if not allowed:
        return Unknown(text("the cores that this process may run on are not listed in /proc/self/status"))
    usable: Known[float] = Known(
        float(len(allowed)), source=text("all cores: no affinity, cpuset or quota limits them")
    )
    if allowed < online:
        cpuset = read_cpuset(root)
        if isinstance(cpuset, Known) and cpuset.value & online == allowed:
            usable = Known(float(len(allowed)), source=f"cpuset ({cpuset.source})")
        else:
            usable = Known(float(len(allowed)), source=text("affinity (/proc/self/status: Cpus_allowed_list)"))
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
    return Unknown(text("{source} lists no instruction sets", source=source))


_SHM = "/dev/shm"  # noqa: S108 - measured, never written to


def read_memory(root: Path) -> Memory:
    """Read the memory of a Linux machine."""
    info = read_text(root / "proc/meminfo", root)
    total = _field(info, "MemTotal")
    limit = read_memory_limit(root)
    if isinstance(limit, Known) and isinstance(total, Known) and limit.value >= total.value:
        limit = Unknown(text("no limit"))  # a limit above the machine's memory has no effect
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
    content = parse_fields(info.value).get(name)
    if content is None:
        return Unknown(text("{source} has no {name}", source=info.source, name=name))
    number, _, unit = content.partition(" ")
    if not number.isdecimal():
        return Unknown(
            text(
                "{source} has {name}: {content}, which is not a number", source=info.source, name=name, content=content
            )
        )
    # The kernel writes kB for 1024 bytes.
    return Known(parse_bytes(f"{number} KiB" if unit == "kB" else number), source=info.source, unit="B")


def _shm(root: Path) -> tuple[Fact[int], Fact[int]]:
    try:
        space = os.statvfs(root / _SHM.lstrip("/"))
    except FileNotFoundError:
        missing = Unknown(text("{path} does not exist", path=_SHM))
        return missing, missing
    except OSError as exc:
        refused = Unknown(text("the size of {path} cannot be read: {error}", path=_SHM, error=exc.strerror))
        return refused, refused
    return (
        Known(space.f_blocks * space.f_frsize, source=_SHM, unit="B"),
        Known(space.f_bavail * space.f_frsize, source=_SHM, unit="B"),
    )


# Version 1 writes "no limit" as the largest multiple of a page in 63 bits; values close to it mean the same.
_NO_LIMIT_V1 = 2**62


class CpuQuota(NamedTuple):
    """A limit on CPU time and the control group that sets it."""

    cores: Known[float]
    folder: Path
    version: int

    def used(self) -> float | None:
        """Return the seconds of CPU time that the group has used so far."""
        try:
            if self.version == 1:
                return int((self.folder / "cpuacct.usage").read_text()) / 1e9
            words = (self.folder / "cpu.stat").read_text().split()
            return int(words[words.index("usage_usec") + 1]) / 1e6
        except (OSError, ValueError, IndexError):
            return None


def read_cpu_quota(root: Path) -> Fact[float]:
    """Read the smallest quota in cores; unknown ("no limit") if there is none."""
    quota = find_cpu_quota(root)
    return Unknown(text("no limit")) if quota is None else quota.cores


def find_cpu_quota(root: Path) -> CpuQuota | None:
    """Find the smallest quota of this process's group and the groups above it; None if there is no limit."""
    smallest: CpuQuota | None = None
    for folder, version in _folders(root, "cpu"):
        cores = _quota_v2(folder, root) if version == 2 else _quota_v1(folder, root)
        if cores is not None and (smallest is None or cores.value < smallest.cores.value):
            smallest = CpuQuota(cores, folder, version)
    return smallest


def read_memory_limit(root: Path) -> Fact[int]:
    """Read the smallest limit in bytes; unknown ("no limit") if there is none."""
    smallest: Known[int] | None = None
    for folder, version in _folders(root, "memory"):
        path = folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")
        content = read_text(path, root)
        if isinstance(content, Unknown) or not content.value.isdecimal() or int(content.value) >= _NO_LIMIT_V1:
            continue
        if smallest is None or int(content.value) < smallest.value:
            smallest = Known(int(content.value), source=shown(path, root), unit="B")
    return smallest or Unknown(text("no limit"))


def read_cpuset(root: Path) -> Fact[frozenset[int]]:
    """Read the cores that the nearest group with a cpuset allows."""
    for folder, version in _folders(root, "cpuset"):
        name = "cpuset.cpus.effective" if version == 2 else "cpuset.effective_cpus"
        content = read_text(folder / name, root)
        if isinstance(content, Known) and parse_list(content.value):
            return Known(parse_list(content.value), source=content.source)
    return Unknown(text("no limit"))


def _quota_v2(folder: Path, root: Path) -> Known[float] | None:
    path = folder / "cpu.max"
    content = read_text(path, root)
    if isinstance(content, Unknown):
        return None
    words = content.value.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # "max 100000" means no limit
    return Known(int(words[0]) / int(words[1]), source=f"{shown(path, root)}: {content.value}")


def _quota_v1(folder: Path, root: Path) -> Known[float] | None:
    path = folder / "cpu.cfs_quota_us"
    quota, period = read_text(path, root), read_text(folder / "cpu.cfs_period_us", root)
    if isinstance(quota, Unknown) or isinstance(period, Unknown):
        return None
    if not quota.value.isdecimal() or not period.value.isdecimal() or int(period.value) == 0:
        return None  # "-1" means no limit
    return Known(
        int(quota.value) / int(period.value), source=f"{shown(path, root)}: {quota.value} of {period.value} µs"
    )


def _folders(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """Yield the folder of this process's group and of all groups above it, nearest first, each with its version."""
    groups, mounts = read_text(root / "proc/self/cgroup", root), read_mounts(root)
    if isinstance(groups, Unknown) or isinstance(mounts, Unknown):
        return
    entries = [line.split(":", 2) for line in groups.value.splitlines() if line.count(":") >= 2]
    # On a hybrid system, a controller belongs to version 1 or to version 2, never to both.
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
    # In a container without a cgroup namespace, the path is the host's; only the part below the mount is visible.
    base = mount.folder.rstrip("/")
    inside = path[len(base) :] if path == base or path.startswith(base + "/") else "/"
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:  # outside this cgroup namespace
        parts = []
    for length in range(len(parts), -1, -1):
        yield top.joinpath(*parts[:length])
