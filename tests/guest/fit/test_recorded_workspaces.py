"""Attention kernels and recurrent workspaces, against records of an H200 (torch 2.11, cuDNN 9.19)."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

from tests.guest.fit.paths import HERE, LAUNCH

FOLDER = HERE.parents[2] / "tests_gpu" / "fit"


def predicted_workspaces(python: str, script: Path, recorded: str) -> Any:
    ran = subprocess.run(
        [python, str(script), str(LAUNCH), str(FOLDER / recorded)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def test_traces_choose_the_attention_kernel_of_a_card(torch_python: str) -> None:
    answer = predicted_workspaces(torch_python, FOLDER / "attention_cases.py", "attention-2.11.json")
    assert answer["cases"] > 5000
    assert answer["off"] == {}


def test_workspaces_of_recurrent_layers_are_as_large_as_on_a_card(torch_python: str) -> None:
    off = [
        abs(error) for error in predicted_workspaces(torch_python, HERE / "recurrent_errors.py", "recurrent-h200.json")
    ]
    assert len(off) > 200
    assert statistics.median(off) < 0.002
    assert max(off) < 0.04
