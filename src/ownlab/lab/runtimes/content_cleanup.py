"""What runtimes of Colab's kind had as /content: kept for a while after their end, then removed."""

from __future__ import annotations

import os
import shutil
import time

from ownlab.config.paths import content_folder
from ownlab.lab.runtimes.folders import plan_of
from ownlab.lab.runtimes.state import lives, read_state

__all__ = ["retire_contents"]

_DAY = 86400.0


def retire_contents(keep_days: float) -> list[str]:
    """Remove what has had its time; the runtimes to which it belonged."""
    before, gone = time.time() - keep_days * _DAY, []
    folder = content_folder("")
    for name in os.listdir(folder) if folder.is_dir() else []:
        path = folder / name
        if _lives(name):
            os.utime(path)  # its time begins when it ends: as far as is known, now
        elif path.stat().st_mtime < before:
            shutil.rmtree(path, ignore_errors=True)
            gone.append(name)
    return gone


def _lives(runtime: str) -> bool:
    plan = plan_of(runtime)
    state = read_state(plan.home) if plan is not None else None
    return state is not None and lives(state.get("supervisor"))
