"""Two driver versions at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.drivers.driver_library_mismatch import (
    DriverLibraryMismatch,
    MixedDriverVersions,
    UnsupportedForwardCompatibility,
)
from ownlab.machine.records import Card, Host, Machine, Nvidia


@pytest.mark.parametrize(
    "name",
    ["errors/mismatch-2021.txt", "errors/mismatch-ci-log-prefix.txt", "nvidia_smi/failed-mismatch-with-version.txt"],
)
def test_mismatch_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(DriverLibraryMismatch, case(None, paste(name)))
    assert finding.blocks
    assert "Driver/library version mismatch" in finding.evidence[0]
    assert finding.fix[0] == "sudo reboot"


def test_mismatch_from_facts(of: Any, case: Any, find: Any, h200: Machine) -> None:
    upgraded = of(
        Machine,
        host=of(Host, package_manager="apt", user_is_root=True),
        nvidia=of(Nvidia, module_version="570.133.20", library_version="570.172.08"),
    )
    (finding,) = find(DriverLibraryMismatch, case(upgraded))
    assert finding.evidence == ("kernel module 570.133.20 (recorded)", "library 570.172.08 (recorded)")
    assert finding.fix[0] == "reboot"
    assert any("apt-mark hold" in step for step in finding.fix)
    same = msgspec.structs.replace(
        upgraded, nvidia=of(Nvidia, module_version="580.159.04", library_version="580.159.4")
    )
    assert find(DriverLibraryMismatch, case(same)) == []
    assert find(DriverLibraryMismatch, case(h200)) == []


def test_mismatch_in_a_container_is_fixed_on_the_host(of: Any, case: Any, find: Any, paste: Any) -> None:
    inside = of(Machine, host=of(Host, container="docker", package_manager="apt"))
    (finding,) = find(DriverLibraryMismatch, case(inside, paste("errors/mismatch-2021.txt")))
    assert finding.fix[0] == "On the host, outside this container: sudo reboot"
    assert not any("apt-mark" in step for step in finding.fix)


def test_an_old_mismatch_message_does_not_block(of: Any, case: Any, find: Any) -> None:
    line = (
        "NVRM: API mismatch: the client has the version 570.172.08, but this kernel module has the version 570.133.20."
    )
    card = of(Card, vendor="nvidia", index=0, health="OK")
    for machine in (of(Machine, nvidia=of(Nvidia, nvml="13.580.95.05")), of(Machine, cards=(card,))):
        (finding,) = find(DriverLibraryMismatch, case(machine, line, where="kernel log"))
        assert (finding.severity, finding.blocks) == ("warning", False)
        assert "NVML works" in finding.meaning
    (finding,) = find(DriverLibraryMismatch, case(of(Machine), line, where="kernel log"))
    assert finding.blocks


@pytest.mark.parametrize("name", ["errors/combo-803-torch.txt", "errors/combo-803-mxnet.txt"])
def test_mixed_driver_versions(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(MixedDriverVersions, case(None, paste(name)))
    assert finding.blocks
    assert find(UnsupportedForwardCompatibility, case(None, paste(name))) == []


@pytest.mark.parametrize(
    "name", ["errors/fwd-804-gtx1650.txt", "errors/forward-compat-llamacpp.txt", "errors/fwd-ctranslate2-470.txt"]
)
def test_forward_compatibility_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(UnsupportedForwardCompatibility, case(None, paste(name)))
    assert finding.blocks
    assert "/usr/local/cuda/compat" in finding.fix[0]
    assert find(MixedDriverVersions, case(None, paste(name))) == []


def test_forward_compatibility_before_it_fails(of: Any, case: Any, find: Any, variables: Any) -> None:
    path = variables(LD_LIBRARY_PATH="/usr/local/cuda/compat:/usr/local/cuda/lib64")
    geforce = of(Machine, cards=(of(Card, vendor="nvidia", index=0, name="NVIDIA GeForce RTX 3090"),), environment=path)
    (finding,) = find(UnsupportedForwardCompatibility, case(geforce))
    assert finding.severity == "warning"
    assert not finding.blocks
    tesla = msgspec.structs.replace(
        geforce, cards=of(Machine, cards=(of(Card, vendor="nvidia", index=0, name="Tesla T4"),)).cards
    )
    assert find(UnsupportedForwardCompatibility, case(tesla)) == []
    plain = msgspec.structs.replace(geforce, environment=variables(LD_LIBRARY_PATH="/usr/local/cuda/lib64"))
    assert find(UnsupportedForwardCompatibility, case(plain)) == []
