"""Drivers that are too old or at their end of life."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.drivers.driver_version import DriverEndOfLife, DriverTooOld
from ownlab.machine.facts import Known
from ownlab.machine.records import Card, Cpu, Framework, Host, Interpreter, Machine, Nvidia


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


def test_the_driver_is_compared_with_the_floor_of_the_cuda_family(of: Any, case: Any, find: Any) -> None:
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
def test_minor_version_compatibility_is_no_finding(of: Any, case: Any, find: Any, driver: str, cuda: str) -> None:
    assert find(DriverTooOld, case(machine_with(of, driver=driver, cuda=cuda))) == []


def test_before_cuda_11_each_release_has_its_own_floor(of: Any, case: Any, find: Any) -> None:
    # collect_env/v100x2-driver418-cu102.txt
    assert find(DriverTooOld, case(machine_with(of, driver="418.67", cuda="10.2")))
    assert find(DriverTooOld, case(machine_with(of, driver="418.67", cuda="10.1"))) == []


def test_wsl_uses_the_windows_driver_floor(of: Any, case: Any, find: Any) -> None:
    # 527.41 would do on Linux (floor 525.60.13), not on Windows (528.33).
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="527.41", cuda="12.1", virtualisation="wsl2")))
    assert "On Windows, not in WSL" in finding.fix[0]


def test_wsl_uses_linux_wheels(of: Any, case: Any, find: Any) -> None:
    # 527.41 is below CUDA 12's floor on Windows (528.33), so a build for 11.8: torch 2.7 is the last on Linux.
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="527.41", cuda="12.1", virtualisation="wsl2")))
    assert any("'torch==2.7.*'" in step and "/whl/cu118" in step for step in finding.fix)


def test_the_older_build_matches_the_cpu(of: Any, case: Any, find: Any) -> None:
    arm = {"name": "NVIDIA GH200 480GB", "cpu": of(Cpu, architecture="aarch64")}
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="550.54.15", cuda="13.0", **arm)))
    assert any("'torch==2.14.*'" in step and "/whl/cu126" in step for step in finding.fix)
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="510.47.03", cuda="12.6", **arm)))
    assert not any("download.pytorch.org" in step for step in finding.fix)  # none for CUDA 11 on ARM


def test_the_newest_cuda_of_a_windows_driver(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="551.23", cuda="13.0", family="windows")))
    assert "The newest CUDA version that this driver supports is 12.4;" in finding.meaning  # 551 is of branch R550


def test_the_found_version_is_decoded(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(DriverTooOld, case(None, paste("errors/driver-too-old-11060.txt")))
    assert finding.blocks
    assert "11.6" in finding.meaning
    assert "number 11060 " in finding.meaning
    assert "not a driver version" in finding.meaning
    assert any("/whl/cu11" in step for step in finding.fix)


def test_insufficient_driver_is_the_same_rule(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(DriverTooOld, case(None, paste("errors/driver-insufficient-jetson.txt")))
    assert "no driver at all" in finding.meaning


def test_on_colab_only_the_build_can_change(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(DriverTooOld, case(machine_with(of, driver="510.47.03", cuda="12.1", platform="colab")))
    assert "You cannot change it" in finding.fix[0]
    assert "pip install" in finding.fix[1]


def test_a_framework_that_sees_a_device_has_a_new_enough_driver(h200: Machine, case: Any, find: Any) -> None:
    # Forward compatibility: an old driver with cuda-compat runs a newer CUDA on this card.
    old = msgspec.structs.replace(
        h200, nvidia=msgspec.structs.replace(h200.nvidia, driver=Known("535.1", source="NVML"))
    )
    assert find(DriverTooOld, case(old)) == []


def test_driver_end_of_life_by_branch_and_by_card(of: Any, case: Any, find: Any, h200: Machine) -> None:
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
