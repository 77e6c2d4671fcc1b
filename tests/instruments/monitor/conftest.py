"""Cards that are not there, processes that are, and a root under which both look as a driver leaves them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FAKES = Path(__file__).resolve().parents[2] / "fakes"


@pytest.fixture
def until() -> Callable[..., Any]:
    """Waits for a condition to be true, and returns what it was; fails after a while."""

    def wait(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
        deadline = time.monotonic() + seconds
        while not (met := condition()):
            assert time.monotonic() < deadline, f"not in {seconds} s: {condition}"
            time.sleep(0.02)
        return met

    return wait


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Callable[[dict[str, Any]], dict[str, str]]:
    """The environment in which a child finds our stand-in of pynvml, which follows the given plan."""

    def environment(plan: dict[str, Any]) -> dict[str, str]:
        path = tmp_path / "nvml.json"
        part = tmp_path / "nvml.json.part"
        part.write_text(json.dumps(plan))
        part.replace(path)  # the stand-in may read it at any time
        return {**os.environ, "PYTHONPATH": str(FAKES), "OWNLAB_FAKE_NVML": str(path)}

    return environment


@pytest.fixture
def staged(tmp_path: Path) -> Callable[..., Path]:
    """A root whose /proc shows these real processes, each with a card's file open, and the machine's own counters."""

    def stage(*pids: int, **cgroups: str) -> Path:
        root = tmp_path / "root"
        (root / "proc").mkdir(parents=True, exist_ok=True)
        for name in ("stat", "meminfo", "loadavg", "diskstats", "net"):
            if not os.path.lexists(root / "proc" / name):
                (root / "proc" / name).symlink_to(Path("/proc") / name)
        for pid in pids:
            folder = root / "proc" / str(pid)
            (folder / "fd").mkdir(parents=True)
            (folder / "fd" / "9").symlink_to("/dev/nvidia0")
            for name in ("stat", "cmdline", "io"):
                (folder / name).symlink_to(f"/proc/{pid}/{name}")
            (folder / "cgroup").write_text(cgroups.get(f"pid_{pid}", "0::/user.slice\n"))
        return root

    return stage
