"""Permissions on device files and counters."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.devices.permissions import DeviceFilePermission, RestrictedPerformanceCounters
from ownlab.machine.records import Amd, Card, DeviceFile, Host, Machine, Nvidia


def test_closed_nvidia_device_files(of: Any, case: Any, find: Any) -> None:
    files = (
        DeviceFile("/dev/nvidia0", readable=False, writable=False),
        DeviceFile("/dev/nvidiactl", readable=True, writable=True),
    )
    (finding,) = find(DeviceFilePermission, case(of(Machine, nvidia=of(Nvidia, device_files=files))))
    assert finding.blocks
    assert finding.evidence == ("/dev/nvidia0: not readable, not writable",)


def test_device_files_for_administrators_are_ignored(of: Any, case: Any, find: Any, h200: Machine) -> None:
    files = (
        DeviceFile("/dev/nvidia0", readable=True, writable=True),
        DeviceFile("/dev/nvidia-uvm-tools", readable=False, writable=False),
        DeviceFile("/dev/nvidia-caps/nvidia-cap1", readable=False, writable=False),
    )
    assert find(DeviceFilePermission, case(of(Machine, nvidia=of(Nvidia, device_files=files)))) == []
    assert find(DeviceFilePermission, case(h200)) == []


def test_kfd(of: Any, case: Any, find: Any, paste: Any) -> None:
    closed = of(Machine, amd=of(Amd, kfd=DeviceFile("/dev/kfd", readable=False, writable=False)))
    (finding,) = find(DeviceFilePermission, case(closed))
    assert finding.fix[0] == "sudo usermod -aG render,video $USER"
    (finding,) = find(DeviceFilePermission, case(None, paste("errors/amd-dev-kfd-permission.txt")))
    assert "/dev/kfd" in finding.evidence[0]
    inside = of(Machine, host=of(Host, container="docker"))
    (finding,) = find(DeviceFilePermission, case(inside, paste("errors/amd-dev-kfd-permission.txt")))
    assert "--device /dev/kfd" in finding.fix[0]


def test_kfd_of_integrated_graphics_is_ignored(of: Any, case: Any, find: Any) -> None:
    kfd = of(Amd, kfd=DeviceFile("/dev/kfd", readable=False, writable=False))
    inside = of(Card, vendor="amd", index=0, name="AMD Radeon Graphics", integrated=True)
    assert find(DeviceFilePermission, case(of(Machine, cards=(inside,), amd=kfd))) == []
    beside = of(Card, vendor="amd", index=1, name="AMD Radeon RX 7900 XTX")
    assert len(find(DeviceFilePermission, case(of(Machine, cards=(inside, beside), amd=kfd)))) == 1


@pytest.mark.parametrize("name", ["errors/counters-ncu.txt", "errors/counters-nvprof-and-params.txt"])
def test_counters_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(RestrictedPerformanceCounters, case(None, paste(name)))
    assert finding.severity == "warning"
    assert not finding.blocks
    assert "NVreg_RestrictProfilingToAdminUsers=0" in finding.fix[0]


@pytest.mark.parametrize(("restricted", "root", "count"), [(True, False, 1), (True, True, 0), (False, False, 0)])
def test_counters_from_facts(of: Any, case: Any, find: Any, restricted: bool, root: bool, count: int) -> None:
    machine = of(Machine, host=of(Host, user_is_root=root), nvidia=of(Nvidia, profiling_restricted=restricted))
    findings = find(RestrictedPerformanceCounters, case(machine))
    assert [finding.severity for finding in findings] == ["note"] * count
