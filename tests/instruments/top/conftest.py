"""A root folder with real processes that seem to use a card."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def staged(tmp_path: Path) -> Callable[..., Path]:
    """Return a root whose /proc has these real processes, each with a card's file open, and the counters of the machine."""

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
