"""The state of a card."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.devices.card_health import (
    CardLost,
    EccErrors,
    NoBfloat16,
    PersistenceOff,
    SlowPcieLink,
    Throttling,
)
from ownlab.machine.records import Card, Clocks, Ecc, Host, Machine, Pcie


def machine_of(of: Any, *cards: dict[str, Any], **host: Any) -> Machine:
    built = tuple(of(Card, vendor="nvidia", index=index, **facts) for index, facts in enumerate(cards))
    machine: Machine = of(Machine, host=of(Host, **host), cards=built)
    return machine


@pytest.mark.parametrize(
    "name",
    [
        "errors/gpu-is-lost-2021.txt",
        "errors/device-handle-unknown-error-2024.txt",
        "errors/windows-gpu-lost-wrapped-2017.txt",
        "errors/xid-79-aer-tesla-2018.txt",
        "nvidia_smi/a40-err-entry-cut.txt",
    ],
)
def test_card_lost_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(CardLost, case(None, paste(name)))
    assert finding.blocks
    assert "Reboot" in finding.fix[0]


def test_card_lost_from_health(of: Any, case: Any, find: Any) -> None:
    machine = machine_of(of, {"health": "OK"}, {"health": "GPU is lost"})
    (finding,) = find(CardLost, case(machine, "GPU is lost", where="card 1"))
    assert not finding.blocks  # the other card works
    assert finding.evidence == ("card 1: GPU is lost (recorded)",)


def test_healthy_cards_are_not_lost(of: Any, case: Any, find: Any, paste: Any, h200: Machine) -> None:
    assert find(CardLost, case(h200)) == []
    assert find(CardLost, case(machine_of(of, {"health": "OK"}, {}))) == []
    assert find(CardLost, case(None, paste("nvidia_smi/layout-525-narrow.txt"))) == []


@pytest.mark.parametrize(
    ("health", "title", "severity", "blocks"),
    [
        ("recovery action: reset the GPU", "The driver requests a reset or restart of a card", "error", True),
        ("recovery action: reboot the node", "The driver requests a reset or restart of a card", "error", True),
        ("GPU requires reset", "The driver requests a reset or restart of a card", "error", True),
        (
            "recovery action: drain peer-to-peer traffic",
            "The driver requests that communication between cards be stopped",
            "warning",
            False,
        ),
    ],
)
def test_a_card_that_needs_a_reset_is_not_lost(
    of: Any, case: Any, find: Any, health: str, title: str, severity: str, blocks: bool
) -> None:
    machine = machine_of(of, {"health": health})
    (finding,) = find(CardLost, case(machine, health, where="card 0"))
    assert (finding.title, finding.severity, finding.blocks) == (title, severity, blocks)
    assert finding.evidence == (f"card 0: {health} (recorded)",)
    assert "stopped answering" not in finding.meaning
    assert "nvidia-smi --gpu-reset -i 0" in finding.fix[0]
    (beside,) = find(CardLost, case(machine_of(of, {"health": health}, {"health": "OK"})))
    assert not beside.blocks


def test_a_lost_card_and_a_card_that_needs_a_reset(of: Any, case: Any, find: Any) -> None:
    machine = machine_of(of, {"health": "recovery action: reset the GPU"}, {"health": "GPU is lost"})
    titles = [finding.title for finding in find(CardLost, case(machine))]
    assert titles == ["The driver requests a reset or restart of a card", "A card no longer answers"]


@pytest.mark.parametrize(
    ("errors", "severity", "advice"),
    [
        ({"uncorrected": 3}, "error", "nvidia-smi -r -i 0"),
        ({"uncorrected": 0, "remap_pending": True}, "warning", "nvidia-smi -r -i 0"),
        ({"remap_failed": True}, "error", "replaced"),
    ],
)
def test_ecc(of: Any, case: Any, find: Any, errors: dict[str, Any], severity: str, advice: str) -> None:
    (finding,) = find(EccErrors, case(machine_of(of, {"ecc": of(Ecc, **errors)})))
    assert finding.severity == severity
    assert advice in finding.fix[0]


def test_corrected_ecc_errors_are_no_finding(of: Any, case: Any, find: Any, h200: Machine) -> None:
    assert (
        find(EccErrors, case(machine_of(of, {"ecc": of(Ecc, corrected=12, uncorrected=0, remap_failed=False)}))) == []
    )
    assert find(EccErrors, case(h200)) == []


def test_throttle(of: Any, case: Any, find: Any, paste: Any) -> None:
    hot = {"throttle_reasons": ("sw-thermal",), "temperature": 94, "name": "Tesla T4"}
    (finding,) = find(Throttling, case(machine_of(of, hot)))
    assert finding.severity == "warning"
    assert "temperature 94 (recorded)" in finding.evidence
    (finding,) = find(Throttling, case(None, paste("errors/throttle-laptop-sw-thermal.txt")))
    assert "SW Thermal Slowdown" in finding.evidence[0]


def test_the_power_cap_is_a_note_under_load(of: Any, case: Any, find: Any, h200: Machine) -> None:
    (finding,) = find(Throttling, case(machine_of(of, {"throttle_reasons": ("sw-power-cap",), "utilisation": 98})))
    assert finding.severity == "note"
    assert find(Throttling, case(machine_of(of, {"throttle_reasons": ("sw-power-cap",), "utilisation": 0}))) == []
    assert find(Throttling, case(h200)) == []  # gpu-idle


def test_persistence(of: Any, case: Any, find: Any, h200: Machine) -> None:
    (finding,) = find(
        PersistenceOff, case(machine_of(of, {"persistence": False}, {"persistence": True}, family="linux"))
    )
    assert finding.severity == "note"
    assert finding.evidence == ("card 0: persistence False (recorded)",)
    assert finding.fix == ("sudo systemctl enable --now nvidia-persistenced",)
    assert find(PersistenceOff, case(machine_of(of, {"persistence": False}, family="windows"))) == []
    assert find(PersistenceOff, case(machine_of(of, {"persistence": False}, virtualisation="wsl2"))) == []
    assert find(PersistenceOff, case(machine_of(of, {"persistence": False, "driver_model": "WDDM"}))) == []
    assert find(PersistenceOff, case(h200)) == []


def test_pcie_width(of: Any, case: Any, find: Any, h200: Machine) -> None:
    narrow = {"name": "Tesla T4", "pcie": of(Pcie, generation=3, generation_max=3, width=8, width_max=16)}
    (finding,) = find(SlowPcieLink, case(machine_of(of, narrow)))
    assert finding.severity == "warning"
    assert finding.evidence == ("card 0 (Tesla T4): PCIe width 8 (recorded), at most 16",)
    assert find(SlowPcieLink, case(h200)) == []


def test_pcie_generation_counts_only_under_load(of: Any, case: Any, find: Any) -> None:
    slow = of(Pcie, generation=1, generation_max=4, width=16, width_max=16)
    assert find(SlowPcieLink, case(machine_of(of, {"pcie": slow, "utilisation": 0}))) == []
    assert find(SlowPcieLink, case(machine_of(of, {"pcie": slow}))) == []
    resting = {"pcie": slow, "utilisation": 30, "clocks": of(Clocks, sm=210, sm_max=2100)}
    assert find(SlowPcieLink, case(machine_of(of, resting))) == []
    busy = {"pcie": slow, "utilisation": 95, "clocks": of(Clocks, sm=1900, sm_max=2100)}
    (finding,) = find(SlowPcieLink, case(machine_of(of, busy)))
    assert "PCIe generation 1 (recorded) under load, at most 4" in finding.evidence[0]


@pytest.mark.parametrize(
    "name", ["errors/bf16-2080ti-vllm.txt", "errors/bf16-setup-v100.txt", "errors/bf16-setup-new-wording.txt"]
)
def test_bf16_from_messages(case: Any, find: Any, paste: Any, name: str) -> None:
    (finding,) = find(NoBfloat16, case(None, paste(name)))
    assert (finding.severity, finding.blocks) == ("error", False)
    assert "float16" in finding.fix[0]


@pytest.mark.parametrize(("capability", "lacks"), [("7.0", True), ("7.5", True), ("8.0", False), ("9.0", False)])
def test_bf16_from_the_card(of: Any, case: Any, find: Any, capability: str, lacks: bool) -> None:
    findings = find(NoBfloat16, case(machine_of(of, {"compute_capability": capability})))
    assert [finding.severity for finding in findings] == (["note"] if lacks else [])


def test_identical_cards_are_named_once(of: Any, case: Any, find: Any) -> None:
    volta = {"name": "Tesla V100-SXM2-16GB", "persistence": False}
    machine = machine_of(of, *[volta] * 8, {"name": "Tesla T4"}, family="linux")
    (finding,) = find(NoBfloat16, case(machine))
    assert finding.evidence == (
        "8 × Tesla V100-SXM2-16GB (cards 0 to 7): Volta, without bfloat16",
        "card 8 (Tesla T4): Turing, without bfloat16",
    )
    (finding,) = find(PersistenceOff, case(machine))
    assert finding.evidence == ("8 × Tesla V100-SXM2-16GB (cards 0 to 7): persistence False (recorded)",)


def test_ecc_error_of_the_cuda_runtime(case: Any, find: Any) -> None:
    (finding,) = find(EccErrors, case(None, "RuntimeError: CUDA error: uncorrectable ECC error encountered"))
    assert finding.severity == "error"
    assert "nvidia-smi -r -i N" in finding.fix[0]
