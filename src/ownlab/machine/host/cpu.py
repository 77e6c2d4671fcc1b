"""The processor: its name, its cores, how many of them this process may use, and the instruction sets that matter."""

from __future__ import annotations

import platform
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.host.cgroup import read_cpu_quota, read_cpuset
from ownlab.machine.host.files import parse_fields, parse_list, read_text
from ownlab.machine.records import Cpu

__all__ = ["read_cpu"]

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
