"""`ownlab clouds` as a person starts it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

REPORT = Path(__file__).resolve().parents[1] / "instruments" / "advise" / "reports" / "gpt2.json"


def test_all_of_them(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    ran = ownlab("clouds")
    assert ran.returncode == 0, ran.stderr
    for words in ("Kaggle", "30 h a week", "FloydHub", "has ended (2021-08)", "易学智能", "prices are older than"):
        assert words in ran.stdout
    document = valid(ownlab("clouds", "--json").stdout, "clouds")
    assert len(document["platforms"]) == 14
    assert document["sources"]["mccormick"]["as_of"] == "2026-03-10"


def test_one_in_full(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    ran = ownlab("clouds", "colab", "gradient")
    assert ran.returncode == 0, ran.stderr
    assert "1.19 units an hour" in ran.stdout
    assert "https://mccormickml.com" in ran.stdout
    (found,) = valid(ownlab("clouds", "--json", "kaggle").stdout, "clouds")["platforms"]
    assert found["weekly_hours"]["value"] == 30


def test_the_cost_of_a_report(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    asked = ("clouds", "cost", "--fit", str(REPORT), "--steps", "100000", "--workload", "transformer")
    advice = valid(ownlab(*asked, "--json").stdout, "clouds-cost")
    assert advice["question"]["basis"]["kind"] == "floor"
    assert all(stay["hours"]["low"] <= stay["hours"]["high"] for stay in advice["stays"] if stay["hours"])


def test_a_report_from_stdin(ownlab: Ownlab) -> None:
    ran = ownlab("clouds", "cost", "--fit", "-", "--steps", "9", "--platforms", "runpod", stdin=REPORT.read_text())
    assert ran.returncode == 0, ran.stderr
    assert "RunPod" in ran.stdout
    assert "What this rests on" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("cost",), 2, "how long does the job take?"),
        (("cost", "--hours", "9", "--on", "T4", "--platforms", "kagle"), 2, "Did you mean Kaggle?"),
        (("cost", "--hours", "9", "--on", "T4", "--platforms", "floydhub"), 1, ""),
    ],
)
def test_what_goes_wrong(ownlab: Ownlab, arguments: tuple[str, ...], code: int, said: str) -> None:
    ran = ownlab("clouds", *arguments)
    assert ran.returncode == code, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
