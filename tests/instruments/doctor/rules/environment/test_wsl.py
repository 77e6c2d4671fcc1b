"""WSL, where the card belongs to Windows."""

from __future__ import annotations

from typing import Any

from ownlab.instruments.doctor.rules.environment.wsl import WslLimits
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Card, Host, Machine, Nvidia


def test_wsl(of: Any, case: Any, find: Any, h200: Machine) -> None:
    card = of(Card, vendor="nvidia", index=0, name="NVIDIA RTX A4000")
    sound = of(
        Machine,
        host=of(Host, virtualisation="wsl2"),
        cards=(card,),
        nvidia=of(Nvidia, library_version=Known("537.42", source="/usr/lib/wsl/lib/libnvidia-ml.so.537.42")),
    )
    (finding,) = find(WslLimits, case(sound))
    assert (finding.severity, finding.blocks) == ("note", False)
    assert find(WslLimits, case(h200)) == []


def test_a_linux_driver_inside_wsl(of: Any, case: Any, find: Any) -> None:
    library = Known("550.120", source="/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.550.120")
    machine = of(
        Machine,
        host=of(Host, virtualisation="wsl2"),
        cards=Unknown("NVML failed"),
        nvidia=of(Nvidia, library_version=library),
    )
    (finding,) = find(WslLimits, case(machine))
    assert finding.title == "A Linux driver is installed inside WSL"
    assert finding.blocks


def test_wsl_without_a_card(of: Any, case: Any, find: Any) -> None:
    bare = of(Machine, host=of(Host, virtualisation="wsl2"), cards=())
    assert find(WslLimits, case(bare)) == []
    message = "Failed to initialize NVML: GPU access blocked; WSL environment detected but no adapters were found"
    (finding,) = find(WslLimits, case(bare, message))
    assert finding.blocks
    (finding,) = find(WslLimits, case(of(Machine, host=of(Host, virtualisation="wsl1"))))
    assert finding.title == "WSL 1 does not support GPUs"
