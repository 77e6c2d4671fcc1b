"""A missing NVIDIA driver."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.drivers.driver_missing import NoDriver
from ownlab.machine.facts import Unknown
from ownlab.machine.records import Card, Framework, Host, Interpreter, Machine, Nvidia, PciDevice


def on_the_bus(of: Any, driver: str | None) -> Machine:
    card = PciDevice("0000:01:00.0", "10de", "2684", "display", driver)
    machine: Machine = of(Machine, origin="pasted", host=of(Host, pci=(card,)))
    return machine


def test_card_on_the_bus_without_a_driver(of: Any, case: Any, find: Any) -> None:
    bare = of(
        Machine,
        host=of(
            Host,
            system="Rocky Linux 9.4",
            package_manager="dnf",
            pci=(PciDevice("0000:01:00.0", "10de", "2684", "display", None),),
            modules=(),
        ),
        cards=(),
        nvidia=of(Nvidia, driver=Unknown("no module"), library_version=Unknown("no library")),
    )
    (finding,) = find(NoDriver, case(bare))
    assert finding.title == "The machine has an NVIDIA card, but no driver for it"
    assert finding.blocks
    assert any("dnf module install -y nvidia-driver:open-dkms" in step for step in finding.fix)


def test_a_cuda_build_without_a_card_is_no_finding(of: Any, case: Any, find: Any, paste: Any) -> None:
    torch = of(Framework, name="torch", build="cuda", cuda="13.0", devices=())
    plain = of(Machine, host=of(Host, pci=(), modules=()), cards=(), interpreter=of(Interpreter, frameworks=(torch,)))
    assert find(NoDriver, case(plain, paste("errors/found-no-driver-warning.txt"))) == []
    assert find(NoDriver, case(of(Machine, host=of(Host, pci=(), modules=()), cards=()))) == []


@pytest.mark.parametrize("name", ["errors/found-no-driver-warning.txt", "errors/libcuda-so-1-missing.txt"])
def test_messages_alone_do_not_show_whether_there_is_a_card(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(NoDriver, case(None, paste(name)))
    assert finding.title == "No NVIDIA driver was found, or there is no card"
    assert "do not show which" in finding.meaning


def test_libcuda_missing_with_a_working_driver(of: Any, case: Any, find: Any, paste: Any) -> None:
    machine = of(
        Machine,
        host=of(Host, container="docker"),
        nvidia=of(Nvidia, driver="580.95.05"),
        cards=(of(Card, vendor="nvidia", index=0),),
    )
    (finding,) = find(NoDriver, case(machine, paste("errors/libcuda-so-1-missing.txt")))
    assert "does not find its libcuda" in finding.title
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.fix[0]


def test_other_missing_libraries_are_not_the_driver(h200: Machine, case: Any, find: Any, paste: Any) -> None:
    assert find(NoDriver, case(None, paste("errors/libcudart-11-import.txt"))) == []
    assert find(NoDriver, case(h200)) == []


def test_a_card_used_by_nouveau_is_reported_by_that_rule(of: Any, case: Any, find: Any) -> None:
    held = PciDevice("0000:01:00.0", "10de", "13c2", "display", "nouveau")
    machine = of(Machine, host=of(Host, pci=(held,), modules=("nouveau",)), cards=())
    assert find(NoDriver, case(machine)) == []


def test_a_card_bound_to_the_driver_is_not_reported(of: Any, case: Any, find: Any) -> None:
    assert find(NoDriver, case(on_the_bus(of, "nvidia"))) == []
    assert len(find(NoDriver, case(on_the_bus(of, None)))) == 1


def test_a_card_reserved_for_a_virtual_machine(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(NoDriver, case(on_the_bus(of, "vfio-pci")))
    assert "vfio-pci" in finding.title
    assert not any("nvidia-driver" in step for step in finding.fix)


@pytest.mark.parametrize(
    "message",
    [
        "Could not find cuda drivers on your machine, GPU will not be used.",
        "failed call to cuInit: UNKNOWN ERROR (303)",
        "bash: nvidia-smi: command not found",
    ],
)
def test_other_messages_about_a_missing_driver(case: Any, find: Any, message: str) -> None:
    (finding,) = find(NoDriver, case(None, message))
    assert finding.title == "No NVIDIA driver was found, or there is no card"
