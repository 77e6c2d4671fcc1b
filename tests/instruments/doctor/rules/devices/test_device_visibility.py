"""The devices that a program sees."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.devices.device_visibility import (
    DeviceOrder,
    ExclusiveComputeMode,
    HiddenDevices,
    InvalidDeviceOrdinal,
    MigMode,
)
from ownlab.machine.records import Card, CardProcess, Machine, MigInstance


def machine_of(of: Any, count: int, environment: Any = (), **facts: Any) -> Machine:
    cards = tuple(
        of(Card, vendor="nvidia", index=index, **{"name": "NVIDIA A100", "uuid": f"GPU-{index}aaa", **facts})
        for index in range(count)
    )
    machine: Machine = of(Machine, cards=cards, environment=environment)
    return machine


@pytest.mark.parametrize("value", ["", "-1", "7", "GPU-dead"])
def test_all_cards_hidden(of: Any, case: Any, find: Any, variables: Any, value: str) -> None:
    (finding,) = find(HiddenDevices, case(machine_of(of, 2, variables(CUDA_VISIBLE_DEVICES=value))))
    assert finding.blocks
    assert finding.title == "CUDA_VISIBLE_DEVICES hides the cards"
    assert "hidden: 2 × NVIDIA A100 (cards 0 and 1)" in finding.evidence
    assert finding.fix[0].startswith("unset CUDA_VISIBLE_DEVICES")


def test_some_cards_hidden(of: Any, case: Any, find: Any, variables: Any) -> None:
    (finding,) = find(HiddenDevices, case(machine_of(of, 2, variables(CUDA_VISIBLE_DEVICES="0,5,1"))))
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert "see only card 0" in finding.meaning


@pytest.mark.parametrize("value", ["0", "1,0", "GPU-1"])
def test_chosen_cards_are_not_hidden(of: Any, case: Any, find: Any, variables: Any, value: str) -> None:
    assert find(HiddenDevices, case(machine_of(of, 2, variables(CUDA_VISIBLE_DEVICES=value)))) == []


def test_a_variable_without_cards_hides_nothing(of: Any, case: Any, find: Any, variables: Any, h200: Machine) -> None:
    assert find(HiddenDevices, case(machine_of(of, 0, variables(CUDA_VISIBLE_DEVICES="")))) == []
    assert find(HiddenDevices, case(h200)) == []


def test_hidden_amd_cards(of: Any, case: Any, find: Any, variables: Any) -> None:
    amd = of(
        Machine,
        cards=(of(Card, vendor="amd", index=0, name="MI250X"),),
        environment=variables(HIP_VISIBLE_DEVICES="-1"),
    )
    (finding,) = find(HiddenDevices, case(amd))
    assert finding.title == "HIP_VISIBLE_DEVICES hides the cards"


def test_cards_hidden_by_the_program_itself(case: Any, find: Any, paste: Any) -> None:
    (finding,) = find(HiddenDevices, case(None, paste("errors/no-gpus-visible-devices-fixed.txt")))
    assert not finding.blocks
    assert "CUDA_VISIBLE_DEVICES" in finding.evidence[-1]
    assert find(HiddenDevices, case(None, paste("errors/no-cuda-gpus-available.txt"))) == []


def test_device_order_from_the_variable(of: Any, case: Any, find: Any, variables: Any) -> None:
    (finding,) = find(DeviceOrder, case(machine_of(of, 3, variables(CUDA_VISIBLE_DEVICES="2,0"))))
    assert finding.severity == "note"
    assert "cuda:0 is card 2 and cuda:1 is card 0" in finding.meaning
    assert find(DeviceOrder, case(machine_of(of, 3, variables(CUDA_VISIBLE_DEVICES="0,1")))) == []


def test_device_order_with_different_cards(of: Any, case: Any, find: Any, variables: Any, h200: Machine) -> None:
    mixed = tuple(of(Card, vendor="nvidia", index=i, name=name) for i, name in enumerate(("GT 1030", "RTX 3090")))
    (finding,) = find(DeviceOrder, case(of(Machine, cards=mixed, environment=())))
    assert finding.fix == ("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)
    settled = of(Machine, cards=mixed, environment=variables(CUDA_DEVICE_ORDER="PCI_BUS_ID"))
    assert find(DeviceOrder, case(settled)) == []
    assert find(DeviceOrder, case(of(Machine, cards=mixed))) == []  # the environment is not known
    assert find(DeviceOrder, case(h200)) == []


def test_invalid_ordinal(of: Any, case: Any, find: Any, paste: Any, variables: Any, h200: Machine) -> None:
    machine = machine_of(of, 1, variables(CUDA_VISIBLE_DEVICES="0"))
    (finding,) = find(InvalidDeviceOrdinal, case(machine, "RuntimeError: CUDA error: invalid device ordinal"))
    assert not finding.blocks
    assert "CUDA_VISIBLE_DEVICES=0" in finding.evidence
    assert "this machine has 1 card: the only valid number is 0" in finding.evidence
    assert find(InvalidDeviceOrdinal, case(None, paste("errors/invalid-ordinal-hip.txt")))
    assert find(InvalidDeviceOrdinal, case(h200, paste("errors/device-assert-sglang.txt"))) == []


@pytest.mark.parametrize(
    "name",
    ["errors/all-devices-busy.txt", "errors/all-devices-busy-old-46.txt"],
)
def test_busy_devices_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(ExclusiveComputeMode, case(None, paste(name)))
    assert finding.severity == "error"
    assert finding.fix[0].startswith("sudo nvidia-smi -c 0")


def test_compute_modes(of: Any, case: Any, find: Any, h200: Machine) -> None:
    (finding,) = find(ExclusiveComputeMode, case(machine_of(of, 1, compute_mode="prohibited")))
    assert finding.blocks
    (finding,) = find(ExclusiveComputeMode, case(machine_of(of, 1, compute_mode="exclusive-process", processes=())))
    assert (finding.severity, finding.blocks) == ("note", False)
    taken = (CardProcess(4711, "compute"),)
    (finding,) = find(ExclusiveComputeMode, case(machine_of(of, 1, compute_mode="exclusive-process", processes=taken)))
    assert finding.blocks
    assert "card 0 (NVIDIA A100): in use by pid 4711" in finding.evidence
    assert find(ExclusiveComputeMode, case(h200)) == []


def test_mig_without_instances(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(MigMode, case(machine_of(of, 1, mig=True, mig_instances=())))
    assert finding.blocks
    assert "nvidia-smi mig -i 0 -lgip" in finding.fix[0]
    whole = of(Card, vendor="nvidia", index=0, mig=False)
    sliced = of(Machine, cards=(whole, of(Card, vendor="nvidia", index=1, mig=True, mig_instances=())))
    (finding,) = find(MigMode, case(sliced))
    assert not finding.blocks


def test_mig_with_instances(of: Any, case: Any, find: Any, h200: Machine) -> None:
    slices = tuple(of(MigInstance, uuid=f"MIG-{index}", profile="1g.18gb") for index in range(3))
    (finding,) = find(MigMode, case(machine_of(of, 1, mig=True, mig_instances=slices)))
    assert finding.severity == "note"
    assert "3 instances: 1g.18gb, 1g.18gb and 1g.18gb" in finding.evidence[0]
    assert "uses the first instance" in finding.meaning
    (finding,) = find(MigMode, case(machine_of(of, 1, mig=True, mig_instances=slices[:1])))
    assert finding.fix == ()
    assert find(MigMode, case(h200)) == []


def test_integrated_graphics_may_be_hidden(of: Any, case: Any, find: Any, variables: Any) -> None:
    inside = of(Card, vendor="amd", index=0, name="AMD Radeon Graphics", integrated=True)
    machine = of(Machine, cards=(inside,), environment=variables(HIP_VISIBLE_DEVICES="-1"))
    assert find(HiddenDevices, case(machine)) == []
    (finding,) = find(InvalidDeviceOrdinal, case(machine, "HIP error: invalid device ordinal"))
    assert not any("this machine has" in line for line in finding.evidence)


def test_an_assignment_that_names_an_existing_card(of: Any, case: Any, find: Any) -> None:
    messages = ('os.environ["CUDA_VISIBLE_DEVICES"] = "1"', "RuntimeError: No CUDA GPUs are available")
    assert find(HiddenDevices, case(machine_of(of, 2), *messages)) == []
    (finding,) = find(HiddenDevices, case(machine_of(of, 1), *messages))
    assert finding.evidence[-1] == 'CUDA_VISIBLE_DEVICES"] = "1"'
