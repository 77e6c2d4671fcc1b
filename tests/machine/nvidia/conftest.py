"""A root folder of a machine with NVIDIA's driver, a fake NVML and a fake nvidia-smi."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAKES = Path(__file__).resolve().parents[2] / "fakes"
DATA = Path(__file__).resolve().parent / "data"

OPEN_BANNER = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)
GCC version:  gcc version 15.3.0 (GCC)
"""


@pytest.fixture
def h200_xml() -> str:
    """The output of nvidia-smi -q -x on the H200 of this project (2026-11-15, driver 580.159.04)."""
    return (DATA / "h200.xml").read_text()


@pytest.fixture
def pastes() -> Path:
    """Outputs of nvidia-smi."""
    return Path(__file__).resolve().parents[2] / "pastes" / "nvidia_smi"


@pytest.fixture
def driver_root(tmp_path: Path) -> Path:
    """The files of a loaded driver: kernel module, libraries, device files."""
    files = {
        "proc/driver/nvidia/version": OPEN_BANNER,
        "proc/driver/nvidia/params": 'EnableMSI: 1\nRmProfilingAdminOnly: 1\nTemporaryFilePath: ""\n',
        "sys/module/nvidia/version": "580.159.04\n",
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.183.01": "",
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04": "",
        "usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04": "",
        "dev/nvidia0": "",
        "dev/nvidiactl": "",
        "dev/null": "",
        "dev/nvidia-caps/nvidia-cap1": "",
    }
    root = tmp_path / "root"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.159.04")
    return root


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Callable[[dict[str, Any]], dict[str, str]]:
    """The environment in which a child finds our stand-in of pynvml, which follows the given plan."""

    def environment(plan: dict[str, Any]) -> dict[str, str]:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan))
        # Only system folders: an nvidia-smi of the machine that runs the tests must not answer.
        return {"PYTHONPATH": str(FAKES), "OWNLAB_FAKE_NVML": str(path), "PATH": str(tmp_path / "bin")}

    return environment


@pytest.fixture
def fake_smi(tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in the place of nvidia-smi."""

    def write(script: str) -> None:
        path = tmp_path / "bin" / "nvidia-smi"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nPATH={os.defpath}\n{script}\n")
        path.chmod(0o755)

    return write
