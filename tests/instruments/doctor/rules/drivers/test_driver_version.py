"""The driver as a whole: too old, at its end, missing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.drivers.driver_missing import NoDriver
from ownlab.instruments.doctor.rules.drivers.driver_version import DriverEndOfLife, DriverTooOld
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Card, Cpu, Framework, Host, Interpreter, Machine, Nvidia, PciDevice


def machine_with(of: Any, *, driver: str, cuda: str, name: str = "NVIDIA A10G", **host: Any) -> Machine:
    torch = of(Framework, name="torch", build="cuda", cuda=cuda, devices=())
    machine: Machine = of(
        Machine,
        host=of(Host, **{"family": "linux", "system": "Ubuntu 22.04", "package_manager": "apt", **host}),
        nvidia=of(Nvidia, driver=driver),
        cards=(of(Card, vendor="nvidia", index=0, name=name),),
        interpreter=of(Interpreter, frameworks=(torch,)),
    )
    return machine


def test_driver_old_compares_the_build_with_the_family_floor(of: Any, case: Any, find: Any) -> None:
    # collect_env/a10g-driver510-cu121.txt: torch for CUDA 12.1 on driver 510.47.03
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="510.47.03", cuda="12.1")))
    assert finding.blocks
    assert finding.severity == "error"
    assert finding.title == "The NVIDIA driver is too old for torch (CUDA 12.1)"
    assert "525.60.13" in finding.evidence[0]
    assert "sudo ubuntu-drivers install" in finding.fix
    older = next(step for step in finding.fix if "download.pytorch.org" in step)
    assert "/whl/cu11" in older


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [("450.156.00", "11.8"), ("525.60.13", "12.8"), ("515.65.01", "11.8"), ("580.65.06", "13.2"), ("615.10", "11.0")],
)
def test_minor_version_compatibility_is_no_trouble(of: Any, case: Any, find: Any, driver: str, cuda: str) -> None:
    assert find(DriverTooOld, case(machine_with(of, driver=driver, cuda=cuda))) == []


def test_before_cuda_11_each_release_has_its_own_floor(of: Any, case: Any, find: Any) -> None:
    # collect_env/v100x2-driver418-cu102.txt
    assert find(DriverTooOld, case(machine_with(of, driver="418.67", cuda="10.2")))
    assert find(DriverTooOld, case(machine_with(of, driver="418.67", cuda="10.1"))) == []


def test_the_driver_of_wsl_is_windows_own(of: Any, case: Any, find: Any) -> None:
    # 527.41 would do on Linux (floor 525.60.13), not on Windows (528.33).
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="527.41", cuda="12.1", virtualisation="wsl2")))
    assert "On Windows, not in WSL" in finding.fix[0]


def test_in_wsl_the_driver_is_windows_and_the_wheels_are_linuxs(of: Any, case: Any, find: Any) -> None:
    # 527.41 is below CUDA 12's floor on Windows (528.33), so a build for 11.8: torch 2.7 is the last on Linux.
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="527.41", cuda="12.1", virtualisation="wsl2")))
    assert any("'torch==2.7.*'" in step and "/whl/cu118" in step for step in finding.fix)


def test_the_older_build_is_one_for_this_cpu(of: Any, case: Any, find: Any) -> None:
    arm = {"name": "NVIDIA GH200 480GB", "cpu": of(Cpu, architecture="aarch64")}
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="550.54.15", cuda="13.0", **arm)))
    assert any("'torch==2.14.*'" in step and "/whl/cu126" in step for step in finding.fix)
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="510.47.03", cuda="12.6", **arm)))
    assert not any("download.pytorch.org" in step for step in finding.fix)  # none for CUDA 11 on ARM


def test_the_newest_cuda_of_a_windows_driver(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="551.23", cuda="13.0", family="windows")))
    assert "The newest CUDA version that this driver supports is 12.4." in finding.meaning  # 551 is of branch R550


def test_found_version_is_decoded(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(DriverTooOld, case(None, paste("errors/driver-too-old-11060.txt")))
    assert finding.blocks
    assert "11.6" in finding.meaning
    assert "number 11060 " in finding.meaning
    assert "not a driver version" in finding.meaning
    assert any("/whl/cu11" in step for step in finding.fix)


def test_insufficient_is_the_same_trouble(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(DriverTooOld, case(None, paste("errors/driver-insufficient-jetson.txt")))
    assert "no driver at all" in finding.meaning


def test_on_colab_only_the_build_can_change(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="510.47.03", cuda="12.1", platform="colab")))
    assert "You cannot change it" in finding.fix[0]
    assert "pip install" in finding.fix[1]


def test_what_sees_a_device_has_driver_enough(h200: Machine, case: Any, find: Any) -> None:
    # Forward compatibility: an old driver with cuda-compat runs a newer CUDA on this card.
    old = msgspec.structs.replace(
        h200, nvidia=msgspec.structs.replace(h200.nvidia, driver=Known("535.1", source="NVML"))
    )
    assert find(DriverTooOld, case(old)) == []


def test_driver_end_by_branch_and_by_card(of: Any, case: Any, find: Any, h200: Machine) -> None:
    pascal = machine_with(of, driver="580.95.05", cuda="12.6", name="NVIDIA GeForce GTX 1080 Ti")
    (finding,) = find(DriverEndOfLife, case(pascal))
    assert finding.severity == "note"
    assert finding.title == "R580 is the last driver branch for Pascal cards"
    ended = msgspec.structs.replace(
        machine_with(of, driver="535.288.01", cuda="12.1"), taken_at="2026-11-15T00:00:00+00:00"
    )
    (finding,) = find(DriverEndOfLife, case(ended))
    assert "R535" in finding.title
    assert "2026-06" in finding.title
    assert find(DriverEndOfLife, case(msgspec.structs.replace(ended, taken_at="2026-05-01T00:00:00+00:00"))) == []
    assert find(DriverEndOfLife, case(h200)) == []


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


def test_no_card_and_a_cuda_build_is_nothing_to_mend(of: Any, case: Any, find: Any, paste: Any) -> None:
    torch = of(Framework, name="torch", build="cuda", cuda="13.0", devices=())
    plain = of(Machine, host=of(Host, pci=(), modules=()), cards=(), interpreter=of(Interpreter, frameworks=(torch,)))
    assert find(NoDriver, case(plain, paste("errors/found-no-driver-warning.txt"))) == []
    assert find(NoDriver, case(of(Machine, host=of(Host, pci=(), modules=()), cards=()))) == []


@pytest.mark.parametrize("name", ["errors/found-no-driver-warning.txt", "errors/libcuda-so-1-missing.txt"])
def test_words_alone_leave_open_whether_there_is_a_card(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(NoDriver, case(None, paste(name)))
    assert finding.title == "No NVIDIA driver was found, or there is no card"
    assert "do not show which" in finding.meaning


def test_libcuda_missing_beside_a_working_driver(of: Any, case: Any, find: Any, paste: Any) -> None:
    machine = machine_with(of, driver="580.95.05", cuda="12.8", container="docker")
    (finding,) = find(NoDriver, case(machine, paste("errors/libcuda-so-1-missing.txt")))
    assert "does not find its libcuda" in finding.title
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in finding.fix[0]


def test_other_missing_libraries_are_not_the_driver(h200: Machine, case: Any, find: Any, paste: Any) -> None:
    assert find(NoDriver, case(None, paste("errors/libcudart-11-import.txt"))) == []
    assert find(NoDriver, case(h200)) == []


def test_a_card_that_nouveau_holds_is_left_to_that_rule(of: Any, case: Any, find: Any) -> None:
    held = PciDevice("0000:01:00.0", "10de", "13c2", "display", "nouveau")
    machine = of(Machine, host=of(Host, pci=(held,), modules=("nouveau",)), cards=())
    assert find(NoDriver, case(machine)) == []


def on_the_bus(of: Any, driver: str | None) -> Machine:
    card = PciDevice("0000:01:00.0", "10de", "2684", "display", driver)
    machine: Machine = of(Machine, origin="pasted", host=of(Host, pci=(card,)))
    return machine


def test_a_card_that_the_driver_holds_is_not_without_one(of: Any, case: Any, find: Any) -> None:
    assert find(NoDriver, case(on_the_bus(of, "nvidia"))) == []
    assert len(find(NoDriver, case(on_the_bus(of, None)))) == 1


def test_a_card_that_is_set_aside_for_a_virtual_machine(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(NoDriver, case(on_the_bus(of, "vfio-pci")))
    assert "vfio-pci" in finding.title
    assert not any("nvidia-driver" in step for step in finding.fix)


@pytest.mark.parametrize(
    "words",
    [
        "Could not find cuda drivers on your machine, GPU will not be used.",
        "failed call to cuInit: UNKNOWN ERROR (303)",
        "bash: nvidia-smi: command not found",
    ],
)
def test_other_words_for_no_driver(case: Any, find: Any, words: str) -> None:
    (finding,) = find(NoDriver, case(None, words))
    assert finding.title == "No NVIDIA driver was found, or there is no card"
