"""`ownlab doctor` and `ownlab machine` on a real NVIDIA card, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HOLDER = """
import sys, torch
held = torch.ones(48 * 1024**3, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


def ownlab(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ownlab", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )


def diagnosis(*arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    ran = ownlab("doctor", "--python", sys.executable, "--json", *arguments, **environment)
    return ran.returncode, json.loads(ran.stdout)


def codes(document: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in document["findings"]}


def test_a_working_card_is_named_in_the_first_line() -> None:
    ran = ownlab("doctor", "--python", sys.executable, "--require-gpu")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith("GPU work will run: "), ran.stdout
    assert " on driver " in ran.stdout.splitlines()[0]


def test_every_framework_is_proved() -> None:
    code, document = diagnosis("--verify")
    assert code == 0
    assert document["verdict"]["gpu_work"] == "yes"
    by_framework = {check["framework"]: check for check in document["checks"]}
    assert by_framework["torch"]["passed"]
    assert by_framework["torch"]["ran_on"].startswith("cuda")


def test_hidden_cards_are_reported_as_hidden() -> None:
    code, document = diagnosis(CUDA_VISIBLE_DEVICES="")
    assert code == 1
    assert document["verdict"]["gpu_work"] == "no"
    assert "hidden" in codes(document)


def test_a_bad_entry_in_the_list_of_cards_is_found() -> None:
    code, document = diagnosis(CUDA_VISIBLE_DEVICES="99")
    assert code == 1
    assert "hidden" in codes(document)


def test_who_holds_the_card_is_named() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        _, document = diagnosis()
        holder.communicate("", timeout=60)  # its standard input ends, and so does it
    cards = document["machine"]["cards"]["value"]
    assert cards[0]["memory_used"]["value"] >= 48 * 1024**3
    assert holder.pid in [process["pid"] for process in cards[0]["processes"].get("value", [])], cards[0]["processes"]
    assert "held" in codes(document)


def test_a_saved_machine_gives_the_same_diagnosis(tmp_path: Path) -> None:
    saved = tmp_path / "machine.json"
    assert ownlab("machine", "--python", sys.executable, "--save", str(saved)).returncode == 0
    ran = ownlab("doctor", "--machine", str(saved), "--json")
    again = json.loads(ran.stdout)
    _, live = diagnosis()
    assert again["verdict"] == live["verdict"]
    assert codes(again) == codes(live)


def test_the_machine_holds_what_the_card_is() -> None:
    machine = json.loads(ownlab("machine", "--python", sys.executable, "--json").stdout)
    card = machine["cards"]["value"][0]
    for fact in (
        "name",
        "uuid",
        "memory_total",
        "compute_capability",
        "power_limit",
        "temperature",
        "throttle_reasons",
    ):
        assert card[fact]["state"] == "known", (fact, card[fact])
