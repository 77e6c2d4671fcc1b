"""`ownlab clouds` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

REPORT = Path(__file__).resolve().parents[1] / "instruments" / "advise" / "reports" / "gpt2.json"


def test_all_platforms(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    ran = ownlab("clouds")
    assert ran.returncode == 0, ran.stderr
    for part in (
        "Kaggle",
        "30 h per week",
        "FloydHub",
        "shut down (2021-08)",
        "易学智能",
        "RTX 4090 ¥1.88",
        "36 free hours in all",
        "prices are older than",
    ):
        assert part in ran.stdout
    document = valid(ownlab("clouds", "--json").stdout, "clouds")
    assert len(document["platforms"]) == 23
    assert document["sources"]["mccormick"]["as_of"] == "2026-03-10"


def test_platforms_in_full(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    ran = ownlab("clouds", "colab", "gradient")
    assert ran.returncode == 0, ran.stderr
    assert "1.19 units per hour" in ran.stdout
    assert "https://mccormickml.com" in ran.stdout
    (platform,) = valid(ownlab("clouds", "--json", "kaggle").stdout, "clouds")["platforms"]
    assert platform["weekly_hours"]["value"] == 30


def test_the_cost_of_a_report(ownlab: Ownlab, valid: Callable[[str, str], Any]) -> None:
    asked = ("clouds", "cost", "--fit", str(REPORT), "--steps", "100000", "--workload", "transformer")
    advice = valid(ownlab(*asked, "--json").stdout, "clouds-cost")
    assert advice["question"]["basis"]["kind"] == "floor"
    assert all(rental["hours"]["low"] <= rental["hours"]["high"] for rental in advice["stays"] if rental["hours"])


def test_a_report_from_stdin(ownlab: Ownlab) -> None:
    ran = ownlab("clouds", "cost", "--fit", "-", "--steps", "9", "--platforms", "runpod", stdin=REPORT.read_text())
    assert ran.returncode == 0, ran.stderr
    assert "RunPod" in ran.stdout
    assert "Assumptions" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("cost",), 2, "Missing option: the duration of the job"),
        (("cost", "--hours", "9", "--on", "T4", "--platforms", "kagle"), 2, "Did you mean Kaggle?"),
        (("cost", "--hours", "9", "--on", "T4", "--platforms", "floydhub"), 1, ""),
    ],
)
def test_errors_and_exit_codes(ownlab: Ownlab, arguments: tuple[str, ...], code: int, message: str) -> None:
    ran = ownlab("clouds", *arguments)
    assert ran.returncode == code, ran.stderr
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
