"""Kernels of attention, against those that torch 2.11 chose on an H200 in some thousand cases."""

from __future__ import annotations

import json
import subprocess

from tests.guest.fit.asking import HERE, LAUNCH

FOLDER = HERE.parents[2] / "tests_gpu" / "fit"


def test_traces_take_the_kernel_that_a_card_chose(torch_python: str) -> None:
    ran = subprocess.run(
        [torch_python, str(FOLDER / "attending.py"), str(LAUNCH), str(FOLDER / "attention-2.11.json")],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    said = json.loads(ran.stdout)
    assert said["cases"] > 5000
    assert said["off"] == {}
