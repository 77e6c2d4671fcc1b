"""What libraries do on a card, against what was recorded on an H200 (torch 2.11, cuDNN 9.19)."""

from __future__ import annotations

import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

from tests.guest.fit.asking import HERE, LAUNCH

FOLDER = HERE.parents[2] / "tests_gpu" / "fit"


def told(python: str, script: Path, recorded: str) -> Any:
    ran = subprocess.run(
        [python, str(script), str(LAUNCH), str(FOLDER / recorded)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def test_traces_take_the_kernel_of_attention_that_a_card_chose(torch_python: str) -> None:
    said = told(torch_python, FOLDER / "attending.py", "attention-2.11.json")
    assert said["cases"] > 5000
    assert said["off"] == {}


def test_workspaces_of_recurrent_layers_are_as_large_as_on_a_card(torch_python: str) -> None:
    off = [abs(one) for one in told(torch_python, HERE / "recurring.py", "recurrent-h200.json")]
    assert len(off) > 200
    assert statistics.median(off) < 0.002
    assert max(off) < 0.04
