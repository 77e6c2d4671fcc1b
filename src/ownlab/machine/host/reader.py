"""Reads the host: its operating system, CPU, memory, disks, and what the kernel shows of accelerators."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.host.containers import read_container, read_pid_namespace, read_platform, read_virtualisation
from ownlab.machine.host.cpu_and_memory import read_cpu, read_memory
from ownlab.machine.host.disks import read_disks, read_raid
from ownlab.machine.host.kernel import read_kernel_log, read_modules, read_network, read_pci
from ownlab.machine.host.operating_system import (
    read_kernel,
    read_libc,
    read_package_manager,
    read_secure_boot,
    read_system,
    read_user_is_root,
)
from ownlab.machine.records import Host
from ownlab.text import text

__all__ = ["read_host"]


def read_host(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> Host:
    """Read this host, or a recorded Linux machine whose files lie under `root`; for that, no program is run."""
    live = root == Path("/")
    if live and not sys.platform.startswith("linux"):
        # On Linux, everything is in files: psutil would take 30 ms to import.
        from ownlab.machine.host.macos_windows import read_macos_or_windows

        return read_macos_or_windows("windows" if sys.platform == "win32" else sys.platform, environ)
    log: Fact[tuple[str, ...]] = Unknown(text("only a running kernel has a log"))
    return Host(
        system=read_system(root),
        family=Known("linux", source="sys.platform" if live else "a recorded Linux machine"),
        kernel=read_kernel(root),
        libc=read_libc(root, live=live),
        container=read_container(root, environ),
        virtualisation=read_virtualisation(root),
        platform=read_platform(root, environ),
        pid_namespace=read_pid_namespace(root),
        user_is_root=read_user_is_root(root),
        package_manager=read_package_manager(root),
        cpu=read_cpu(root),
        memory=read_memory(root),
        disks=read_disks(root),
        raid=read_raid(root),
        network=read_network(root),
        pci=read_pci(root),
        modules=read_modules(root),
        secure_boot=read_secure_boot(root),
        kernel_log=read_kernel_log() if live else log,
    )
