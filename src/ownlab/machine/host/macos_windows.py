"""Reads the host on macOS and Windows: from Python, psutil and macOS's sysctl."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

from ownlab.errors import DeadlineError
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.files import call_all
from ownlab.machine.host.disks import without_credentials
from ownlab.machine.records import Cpu, Disk, Host, Memory
from ownlab.processes import runner
from ownlab.text import text

__all__ = ["read_macos_or_windows"]

_SYSCTL_DEADLINE = 3.0
_DISK_DEADLINE = 2.0
_NETWORK_FILESYSTEMS = frozenset(("afpfs", "nfs", "smbfs", "webdav"))


def read_macos_or_windows(family: str, environ: Mapping[str, str]) -> Host:
    """Read the host on macOS ("darwin") or Windows. Facts that have no meaning there stay unknown."""
    linux_only = Unknown(text("not read on {family}", family=family))
    return Host(
        system=_system(family),
        family=Known(family, source="uname"),
        kernel=Known(platform.release(), source="uname"),
        libc=linux_only,
        container=linux_only,
        virtualisation=linux_only,
        platform=Known("plain", source=text("no sign of a known platform")),
        pid_namespace=Known(False, source=f"{family} has none"),
        user_is_root=Known(os.geteuid() == 0, source="geteuid") if hasattr(os, "geteuid") else linux_only,
        package_manager=_package_manager(family, environ),
        cpu=_cpu(family),
        memory=_memory(family),
        disks=_disks(),
        raid=linux_only,
        pci=linux_only,
        modules=linux_only,
        secure_boot=linux_only,
        kernel_log=linux_only,
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
    return Unknown(text("no known package manager is on PATH"))


def _cpu(family: str) -> Cpu:
    physical, logical = psutil.cpu_count(logical=False), psutil.cpu_count()
    unreported = Unknown(text("psutil does not report it"))
    return Cpu(
        model=_sysctl("machdep.cpu.brand_string")
        if family == "darwin"
        else Known(platform.processor(), source="uname"),
        architecture=Known(platform.machine(), source="uname"),
        physical_cores=Known(physical, source="psutil") if physical else unreported,
        logical_cores=Known(logical, source="psutil") if logical else unreported,
        usable_cores=Known(float(logical), source=text("all cores: nothing limits them here"))
        if logical
        else unreported,
        instruction_sets=Known(("NEON",), source=text("every 64-bit ARM has it"))
        if platform.machine() == "arm64"
        else Unknown(text("not read on {family}", family=family)),
    )


def _sysctl(name: str) -> Fact[str]:
    try:
        ran = runner.run(["sysctl", "-n", name], deadline=_SYSCTL_DEADLINE)
    except (runner.ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)
    content = ran.stdout.strip()
    return (
        Known(content, source=f"sysctl {name}")
        if ran.returncode == 0 and content
        else Unknown(ran.output or text("sysctl has no output"))
    )


def _memory(family: str) -> Memory:
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    no_shm = Unknown(text("{family} has no /dev/shm", family=family))
    return Memory(
        total=Known(memory.total, source="psutil", unit="B"),
        available=Known(memory.available, source="psutil", unit="B"),
        cgroup_limit=Unknown(text("no limit")),
        swap_total=Known(swap.total, source="psutil", unit="B"),
        shm_total=no_shm,
        shm_free=no_shm,
    )


def _disks() -> Fact[tuple[Disk, ...]]:
    # psutil lists every volume of an APFS container; those under /System are parts of the root.
    parts = [part for part in psutil.disk_partitions() if not part.mountpoint.startswith("/System/")]
    answers = call_all({part.mountpoint: partial(psutil.disk_usage, part.mountpoint) for part in parts}, _DISK_DEADLINE)
    disks = []
    for part in parts:
        answer = answers.get(part.mountpoint)
        total: Fact[int]
        free: Fact[int]
        if answer is None:
            total = free = Unknown(text("{path} did not answer", path=part.mountpoint))
        elif isinstance(answer, OSError):
            total = free = Unknown(
                text("the size of {path} cannot be read: {error}", path=part.mountpoint, error=answer.strerror)
            )
        else:
            total = Known(answer.total, source="psutil", unit="B")
            free = Known(answer.free, source="psutil", unit="B")
        remote = part.fstype in _NETWORK_FILESYSTEMS
        rotational = Unknown(text("psutil does not report it"))
        device = without_credentials(part.device)
        disks.append(Disk(part.mountpoint, device, part.fstype, total, free, rotational, remote))
    return Known(tuple(disks), source="psutil")
