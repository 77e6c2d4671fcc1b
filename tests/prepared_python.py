"""Runs code in a Python as the launcher of kernels prepares it: with ownlab beside it, or without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["BESIDE", "IPYTHON", "run"]

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "src" / "ownlab_guest" / "kernel"
# As the kernel's launcher leaves it.
PREPARED = f"""
import sys
sys.path.insert(0, {str(KERNEL)!r})
import launch
launch.prepare_path()
"""
# Our own libraries last, as where everything is in one environment.
BESIDE = f"""
sys.path += {[str(ROOT / "src"), *(folder for folder in sys.path if folder.endswith("site-packages"))]!r}
sys.path = [folder for folder in sys.path if "facade" not in folder]
"""
# IPython of our environment, and nothing of ownlab.
IPYTHON = f"""
sys.path += {[folder for folder in sys.path if folder.endswith("site-packages")]!r}
"""


def run(python: str, code: str, **environ: str) -> str:
    ran = subprocess.run(
        [python, "-c", PREPARED + code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environ},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout
