"""`ownlab gpus advise` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.command_line import Ownlab

REPORT = Path(__file__).resolve().parent / "reports" / "gpt2.json"


def test_which_card(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    asked = ("gpus", "advise", "--model-memory", "18GiB", "--workload", "transformer", "--budget", "1700")
    ran = ownlab(*asked)
    assert ran.returncode == 0, ran.stderr
    assert "RTX 4090" in ran.stdout
    assert "Assumptions" in ran.stdout
    advice = valid(ownlab(*asked, "--json").stdout, "gpus-advise")
    (bought,) = (pick for pick in advice["picks"] if pick["kind"] == "buy")
    assert bought["card"] == "RTX 4090"


def test_for_a_report(ownlab: Ownlab) -> None:
    ran = ownlab("gpus", "advise", "--fit", str(REPORT), "--cards", "t4,4090", "--all")
    assert ran.returncode == 0, ran.stderr
    assert "no bf16 units: use fp16" in ran.stdout


def test_no_card_and_no_money(ownlab: Ownlab) -> None:
    ran = ownlab("gpus", "advise", "--model-memory", "2TiB")
    assert ran.returncode == 1, ran.stderr
    assert "No card here is large enough" in ran.stdout
    ran = ownlab("gpus", "advise", "--model-memory", "8GiB", "--budget", "10")
    assert "no card that fits has a known price of $10.00 or less" in " ".join(ran.stdout.split())
    ran = ownlab("gpus", "advise", "--budget", "0")
    assert ran.returncode == 2
    assert "--budget must be a positive amount" in ran.stderr
