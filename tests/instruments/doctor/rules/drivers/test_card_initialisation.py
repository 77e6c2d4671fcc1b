"""Cards that the loaded driver cannot start or reach."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.drivers.card_initialisation import (
    CardInitialisationFailed,
    DriverHang,
    FabricManagerNotReady,
    NoVisibleGpu,
)
from ownlab.machine.facts import Unknown
from ownlab.machine.records import Card, Host, Machine, Nvidia, PciDevice


@pytest.mark.parametrize(
    "name",
    ["errors/rminitadapter-2016.txt", "errors/rminitadapter-gsp-3090.txt", "nvidia_smi/no-devices-rtx5090-rebar.txt"],
)
def test_no_device_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(CardInitialisationFailed, case(None, paste(name)))
    assert finding.blocks
    assert any("Above 4G Decoding" in step for step in finding.fix)


def test_no_device_names_the_firmware(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(CardInitialisationFailed, case(None, paste("errors/rminitadapter-gsp-3090.txt")))
    assert "GSP" in finding.meaning


def test_no_device_from_facts(of: Any, case: Any, find: Any, h200: Machine) -> None:
    bound = PciDevice("0000:01:00.0", "10de", "2b85", "display", "nvidia")
    (finding,) = find(CardInitialisationFailed, case(of(Machine, host=of(Host, pci=(bound,)), cards=())))
    assert finding.evidence == ("PCI 0000:01:00.0: NVIDIA card, bound to driver nvidia",)
    unread = of(Machine, host=of(Host, pci=(bound,)), cards=Unknown("the driver could not be asked"))
    assert find(CardInitialisationFailed, case(unread)) == []
    assert find(CardInitialisationFailed, case(h200)) == []


def test_one_failing_card_of_two_does_not_block(of: Any, case: Any, find: Any, paste: Any) -> None:
    machine = of(Machine, cards=(of(Card, vendor="nvidia", index=0),))
    (finding,) = find(CardInitialisationFailed, case(machine, paste("errors/rminitadapter-2016.txt")))
    assert not finding.blocks


def test_no_devices_and_none_on_the_bus(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(
        CardInitialisationFailed, case(of(Machine, host=of(Host, pci=())), "No devices were found", where="nvidia-smi")
    )
    assert finding.title == "The driver is loaded, but there is no card on the bus"


@pytest.mark.parametrize("name", ["errors/no-cuda-gpus-available.txt", "errors/cuda-driver-init-failed.txt"])
def test_no_visible_gpu(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(NoVisibleGpu, case(None, paste(name)))
    assert finding.blocks


def test_no_visible_gpu_is_silent_if_the_variable_hides_the_cards(
    case: Any, find: Any, paste: Any, h200: Machine
) -> None:
    assert find(NoVisibleGpu, case(None, paste("errors/no-gpus-visible-devices-fixed.txt"))) == []
    assert find(NoVisibleGpu, case(h200, "RuntimeError: No CUDA GPUs are available")) == []


@pytest.mark.parametrize(("value", "count"), [("0", 1), ("1", 0), ("-1", 0), (None, 1)])
def test_a_valid_variable_does_not_explain_missing_cards(
    value: str | None, count: int, of: Any, case: Any, find: Any, variables: Any
) -> None:
    machine = of(
        Machine,
        cards=(of(Card, vendor="nvidia", index=0),),
        nvidia=of(Nvidia, driver="580.95.05"),
        environment=variables(**({"CUDA_VISIBLE_DEVICES": value} if value is not None else {})),
    )
    findings = find(NoVisibleGpu, case(machine, "RuntimeError: No CUDA GPUs are available", where="torch"))
    assert len(findings) == count
    assert [finding.evidence[1:] for finding in findings] == (
        [("CUDA_VISIBLE_DEVICES='0'",)] if value == "0" else [()] * count
    )


def test_mentioning_the_variable_does_not_set_it(case: Any, find: Any) -> None:
    message = "RuntimeError: No CUDA GPUs are available. Is CUDA_VISIBLE_DEVICES set to what you want?"
    assert len(find(NoVisibleGpu, case(None, message))) == 1


@pytest.mark.parametrize("name", ["errors/fabric-802-torch.txt", "errors/fabric-802-old-wording.txt"])
def test_fabric_from_messages(of: Any, case: Any, find: Any, paste: Any, name: str) -> None:
    machine = of(Machine, host=of(Host, package_manager="apt"), nvidia=of(Nvidia, driver="550.54.15"))
    (finding,) = find(FabricManagerNotReady, case(machine, paste(name)))
    assert finding.blocks
    assert finding.fix[0] == "sudo apt-get install -y nvidia-fabricmanager-550"
    assert "exactly 550.54.15" in finding.fix[2]


@pytest.mark.parametrize(("state", "count"), [("in-progress", 1), ("not-started", 1), ("completed", 0)])
def test_fabric_from_the_state(of: Any, case: Any, find: Any, state: str, count: int) -> None:
    machine = of(Machine, cards=(of(Card, vendor="nvidia", index=0, name="NVIDIA H100 80GB HBM3", fabric=state),))
    assert len(find(FabricManagerNotReady, case(machine))) == count


def test_other_cuda_errors_are_not_the_fabric(case: Any, find: Any, paste: Any, h200: Machine) -> None:
    assert find(FabricManagerNotReady, case(None, paste("errors/combo-803-torch.txt"))) == []
    assert find(FabricManagerNotReady, case(h200)) == []


def test_smi_hang(of: Any, case: Any, find: Any, h200: Machine) -> None:
    stuck = of(Machine, nvidia=of(Nvidia, nvml=Unknown("probe.nvml did not answer in 10 s in /usr/bin/python3")))
    (finding,) = find(DriverHang, case(stuck))
    assert finding.blocks
    (finding,) = find(DriverHang, case(h200, "nvidia-smi did not answer in 10 s", where="nvidia-smi"))
    assert (finding.severity, finding.blocks) == ("warning", False)


def test_a_missing_smi_or_another_hang_is_not_the_driver(of: Any, case: Any, find: Any) -> None:
    absent = of(Machine, nvidia=of(Nvidia, smi=Unknown("nvidia-smi is not installed, or not on PATH")))
    assert find(DriverHang, case(absent, "probe.torch did not answer in 60 s in /usr/bin/python3")) == []


def test_no_visible_gpu_from_the_cuda_runtime(case: Any, find: Any) -> None:
    (finding,) = find(NoVisibleGpu, case(None, "RuntimeError: CUDA error: no CUDA-capable device is detected"))
    assert finding.blocks
