"""Start-up scripts as the host knows them: which one the lab has, and which failed. They run in the kernel's process."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ownlab.config.loader import resolve_lab_options

__all__ = ["startup_failures", "startup_variables"]

_MARK = "ownlab: start-up script "  # ownlab_guest/kernel/startup.py writes it


def startup_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What a kernel is told of the lab's own. It finds by itself what stands beside its notebook."""
    return {"OWNLAB_STARTUP_SCRIPT": resolve_lab_options(environ=environ).startup_script or ""}


def startup_failures(home: str) -> list[str]:
    """What the log of a runtime says of scripts that failed."""
    try:
        with open(os.path.join(home, "log"), encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n") for line in file if line.startswith(_MARK)]
    except OSError:  # the runtime is gone, and its log with it
        return []
    return [f"The start-up script {line[len(_MARK) :]}" for line in lines]
