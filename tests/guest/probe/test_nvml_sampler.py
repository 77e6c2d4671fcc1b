"""`probe.nvml_sampler` in a child process, with a fake NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FAKES = ROOT / "tests" / "fakes"
LAUNCH = ROOT / "src" / "ownlab_guest" / "launch.py"
SECOND = 1_000_000
APART = 0.12  # GPM's own limit, and a little


class Probe:
    def __init__(self, plan: Path) -> None:
        self.plan = plan
        ours, theirs = os.pipe()
        self.child = subprocess.Popen(
            [sys.executable, str(LAUNCH), "probe.nvml_sampler", str(theirs)],
            stdin=subprocess.PIPE,
            pass_fds=(theirs,),
            env={**os.environ, "PYTHONPATH": str(FAKES), "OWNLAB_FAKE_NVML": str(plan)},
        )
        os.close(theirs)
        self.answers = os.fdopen(ours)

    def ask(self) -> dict[str, Any]:
        assert self.child.stdin is not None
        self.child.stdin.write(b"\n")
        self.child.stdin.flush()
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer

    def cards(self) -> list[dict[str, Any]]:
        cards: list[dict[str, Any]] = self.ask()["cards"]
        return cards

    def close(self) -> None:
        self.child.communicate(timeout=300)
        self.answers.close()


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Callable[..., Probe]]:
    started: list[Probe] = []

    def start(*cards: dict[str, Any], **plan: Any) -> Probe:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"cards": cards, **plan}))
        started.append(Probe(path))
        return started[-1]

    yield start
    for each in started:
        each.close()
        assert each.child.returncode == 0


def test_gpm_is_the_difference_to_the_previous_query(probe: Callable[..., Probe]) -> None:
    asked = probe({"gpm": {"2": 0.75, "3": 0.01, "20": 1.5}})
    (first,) = asked.cards()
    assert "saturation" not in first
    assert first["no_saturation"] == "pending"
    time.sleep(APART)
    (second,) = asked.cards()
    assert second["saturation"] == {"sm": 0.75, "occupancy": 0.01}
    assert second["pcie_sent"] == 1.5 * 1024**2
    (third,) = asked.cards()  # too soon for NVML: the last values are returned again
    assert third["saturation"] == second["saturation"]


def test_a_driver_without_gpm_gives_the_reason(probe: Callable[..., Probe]) -> None:
    (none,) = probe({"gpm": None}).cards()
    assert "Hopper" in none["no_saturation"]
    (failing,) = probe({"gpm": {}, "errors": {"nvmlGpmSampleGet": 4}}).cards()
    assert failing["no_saturation"] == "GPM: Insufficient Permissions"


def test_without_gpm_pcie_is_measured_on_one_card_per_query(probe: Callable[..., Probe]) -> None:
    asked = probe({"gpm": None}, {"gpm": None, "nvmlDeviceGetUUID": "GPU-2"})
    for _ in range(3):
        cards = asked.cards()
    assert [(card["pcie_sent"], card["pcie_received"]) for card in cards] == [(3 * 1024, 5 * 1024)] * 2


def test_gpm_of_a_mig_instance_falls_back_to_its_number(probe: Callable[..., Probe]) -> None:
    instance = {
        "nvmlDeviceGetUUID": "MIG-0",
        "nvmlDeviceGetGpuInstanceId": 0,
        "gpm": {"2": 40.0},
        "errors": {"nvmlGpmSampleGet": 3},
    }
    asked = probe({"nvmlDeviceGetMigMode": [1, 1], "mig": [instance]})
    asked.cards()
    time.sleep(APART)
    _, inside = asked.cards()
    assert inside["parent"] == "GPU-00000000-1111-2222-3333-444444444444"
    assert inside["saturation"] == {"sm": 40.0}


def test_fp64_on_tensor_cores_is_the_greater_of_its_two_kinds(probe: Callable[..., Probe]) -> None:
    asked = probe({"gpm": {"5": 97.0, "6": 2.0, "8": 96.0}})
    asked.cards()
    time.sleep(APART)
    (card,) = asked.cards()
    assert card["saturation"] == {"tensor": 97.0, "tensor_fp64": 96.0}


def test_the_default_power_limit_and_the_free_memory(probe: Callable[..., Probe]) -> None:
    output = {
        "nvmlDeviceGetEnforcedPowerLimit": 300000,
        "nvmlDeviceGetMemoryInfo": {"total": 80, "reserved": 5, "used": 30},
    }
    for card in probe(output).cards() + probe(output, missing=["nvmlDeviceGetMemoryInfo_v2"]).cards():
        assert (card["power_limit"], card["power_limit_default"]) == (300.0, 700.0)
        assert card["memory_free"] == 45  # without what the driver keeps for itself


def test_processes_share_a_card_by_the_drivers_own_samples(probe: Callable[..., Probe]) -> None:
    running = [{"pid": pid, "usedGpuMemory": 1024} for pid in (11, 12, 13)]
    samples = [(11, 1, 30), (11, 2, 50), (12, 2, 20)]
    shares = [{"pid": pid, "timeStamp": at * SECOND, "smUtil": share} for pid, at, share in samples]
    asked = probe({"nvmlDeviceGetComputeRunningProcesses_v3": running, "nvmlDeviceGetProcessUtilization": shares})
    (card,) = asked.cards()
    assert {each["pid"]: each["sm"] for each in card["processes"]} == {11: 40.0, 12: 20.0, 13: None}
    (again,) = asked.cards()  # no newer samples
    assert {each["sm"] for each in again["processes"]} == {None}


def test_values_that_a_card_does_not_report_are_null(probe: Callable[..., Probe]) -> None:
    errors = dict.fromkeys(("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo"), 3)
    (card,) = probe({"errors": errors}).cards()
    assert (card["utilisation"], card["power"], card["memory_used"], card["fan"]) == (None, None, None, None)
    assert card["temperature"] == 38


def test_lost_cards_are_listed_with_working_ones(probe: Callable[..., Probe]) -> None:
    cards = probe({"handle": 15}, {}, {"errors": {"nvmlDeviceGetMemoryInfo": 999}}).cards()
    assert [(card["index"], card.get("lost", "")) for card in cards] == [
        (0, "GPU is lost"),
        (1, ""),
        (2, "Unknown Error"),
    ]


def test_cards_may_come_and_go(probe: Callable[..., Probe]) -> None:
    other = {"nvmlDeviceGetUUID": "GPU-2"}
    asked = probe({}, other, live=True)
    assert len(asked.cards()) == 2
    part = asked.plan.with_suffix(".part")
    part.write_text(json.dumps({"cards": [other], "live": True}))
    part.replace(asked.plan)
    assert [card["uuid"] for card in asked.cards()] == ["GPU-2"]


def test_nvml_that_does_not_start_gives_the_reason(probe: Callable[..., Probe]) -> None:
    assert "Driver/library version mismatch" in probe(init=18).ask()["error"]
