"""Hosts other than Linux: psutil and Python work on any system, so this one stands in for them."""

from __future__ import annotations

import os

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.macos_windows import read_macos_or_windows


def test_facts_of_every_system() -> None:
    host = read_macos_or_windows("darwin", {"PATH": "/nowhere"})
    assert value_of(host.family) == "darwin"
    assert (value_of(host.system) or "").startswith("macOS")
    assert value_of(host.cpu.logical_cores) == os.cpu_count()
    total, available = value_of(host.memory.total), value_of(host.memory.available)
    assert total is not None
    assert available is not None
    assert total > available > 0
    assert host.package_manager == Unknown("no known package manager is on PATH")
    assert host.memory.shm_total == Unknown("darwin has no /dev/shm")
    assert isinstance(host.disks, Known)
    assert isinstance(host.kernel_log, Unknown)
