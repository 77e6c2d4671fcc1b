"""Fifty processes on four cards, killed at random: no card is ever leased twice, and none is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_a_storm_on_four_cards(tmp_path: Path) -> None:
    storm = Path(__file__).with_name("storm.py")
    argv = [sys.executable, str(storm), str(tmp_path / "storm"), "--workers", "50", "--seconds", "4", "--seed", "11"]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=220)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["failures"] == []
    assert seen["left"] == [[], [], []]  # no row, no lease, no lock file
    assert seen["killed"] >= 10
    assert seen["taken"] > seen["given_back"] > 0
