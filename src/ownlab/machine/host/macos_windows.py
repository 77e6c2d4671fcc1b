"""The host where it is not Linux: what Python, psutil and macOS's sysctl say of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

from ownlab.errors import DeadlineError
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import ask_all
from ownlab.machine.host.disks import without_credentials
from ownlab.machine.records import Cpu, Disk, Host, Memory
from ownlab.processes import runner

__all__ = ["read_elsewhere"]

_SYSCTL_DEADLINE = 3.0
_DISK_DEADLINE = 2.0
_NETWORK_FILESYSTEMS = frozenset(("afpfs", "nfs", "smbfs", "webdav"))


def read_elsewhere(family: str, environ: Mapping[str, str]) -> Host:
    """The host on macOS ("darwin") or Windows. What has no meaning there stays not read."""
    no_linux = Unknown(f"not asked on {family}")
    return Host(
        system=_system(family),
        family=Known(family, source="uname"),
        kernel=Known(platform.release(), source="uname"),
        libc=no_linux,
        container=no_linux,
        virtualisation=no_linux,
        platform=Known("plain", source="no sign of a known platform"),
        pid_namespace=Known(False, source=f"{family} has none"),
        user_is_root=Known(os.geteuid() == 0, source="geteuid") if hasattr(os, "geteuid") else no_linux,
        package_manager=_package_manager(family, environ),
        cpu=_cpu(family),
        memory=_memory(family),
        disks=_disks(),
        raid=no_linux,
        pci=no_linux,
        modules=no_linux,
        secure_boot=no_linux,
        kernel_log=no_linux,
    )


def _system(family: str) -> Fact[str]:
    if family == "darwin":
        return Known(f"macOS {platform.mac_ver()[0]}".strip(), source="platform.mac_ver")
    return Known(f"{platform.system()} {platform.release()}", source="uname")


def _package_manager(family: str, environ: Mapping[str, str]) -> Fact[str]:
    folders = [Path(folder) for folder in environ.get("PATH", "").split(os.pathsep) if folder]
    for program in ("brew", "port") if family == "darwin" else ("winget.exe", "choco.exe"):
        if any(os.path.exists(folder / program) for folder in folders):
            return Known(program.removesuffix(".exe"), source="PATH")
    return Unknown("none that we know is on PATH")


def _cpu(family: str) -> Cpu:
    physical, logical = psutil.cpu_count(logical=False), psutil.cpu_count()
    not_told = Unknown("psutil cannot tell")
    return Cpu(
        model=_sysctl("machdep.cpu.brand_string")
        if family == "darwin"
        else Known(platform.processor(), source="uname"),
        architecture=Known(platform.machine(), source="uname"),
        physical_cores=Known(physical, source="psutil") if physical else not_told,
        logical_cores=Known(logical, source="psutil") if logical else not_told,
        usable_cores=Known(float(logical), source="all cores: nothing limits them here") if logical else not_told,
        instruction_sets=Known(("NEON",), source="every 64-bit ARM has it")
        if platform.machine() == "arm64"
        else Unknown(f"not asked on {family}"),
    )


def _sysctl(name: str) -> Fact[str]:
    try:
        ran = runner.run(["sysctl", "-n", name], deadline=_SYSCTL_DEADLINE)
    except (runner.ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)
    text = ran.stdout.strip()
    return (
        Known(text, source=f"sysctl {name}")
        if ran.returncode == 0 and text
        else Unknown(ran.output or "sysctl said nothing")
    )


def _memory(family: str) -> Memory:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    no_shm = Unknown(f"{family} has no /dev/shm")
    return Memory(
        total=Known(memory.total, source="psutil", unit="B"),
        available=Known(memory.available, source="psutil", unit="B"),
        cgroup_limit=Unknown("no limit"),
        swap_total=Known(swap.total, source="psutil", unit="B"),
        shm_total=no_shm,
        shm_free=no_shm,
    )


def _disks() -> Fact[tuple[Disk, ...]]:
    # psutil lists an APFS container's volumes one by one; those under /System are parts of the root.
    parts = [part for part in psutil.disk_partitions() if not part.mountpoint.startswith("/System/")]
    answers = ask_all({part.mountpoint: partial(psutil.disk_usage, part.mountpoint) for part in parts}, _DISK_DEADLINE)
    disks = []
    for part in parts:
        answer = answers.get(part.mountpoint)
        if answer is None or isinstance(answer, OSError):
            why = "did not answer" if answer is None else f"cannot be measured: {answer.strerror}"
            total: Fact[int] = Unknown(f"{part.mountpoint} {why}")
            free: Fact[int] = total
        else:
            total = Known(answer.total, source="psutil", unit="B")
            free = Known(answer.free, source="psutil", unit="B")
        remote = part.fstype in _NETWORK_FILESYSTEMS
        rotational = Unknown("psutil does not tell")
        device = without_credentials(part.device)
        disks.append(Disk(part.mountpoint, device, part.fstype, total, free, rotational, remote))
    return Known(tuple(disks), source="psutil")
