"""What a kernel is told whose notebook was written for Colab."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import content_folder, drive_folder
from ownlab.lab.colab.detection import wants_colab
from ownlab.lab.notebooks.parsing import parse_json

__all__ = ["colab_variables", "startup_failures", "startup_variables"]


def colab_variables(notebook: str, runtime: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables for a kernel of this notebook. Asked at each start: the notebook may have changed.

    OWNLAB_COLAB stands first, "1" or "0", and the others only beside a "1".
    """
    if not _is_of_colab(notebook):
        return {"OWNLAB_COLAB": "0"}
    options = resolve_lab_options(environ=environ)
    return {
        "OWNLAB_COLAB": "1",
        "OWNLAB_CONTENT": str(content_folder(runtime, environ)),
        "OWNLAB_DRIVE": options.drive_folder or str(drive_folder(environ)),
        "OWNLAB_DRIVE_REMOTE": options.drive_remote,
        "OWNLAB_HOST": sys.executable,
    }


def _is_of_colab(notebook: str) -> bool:
    if not notebook.endswith(".ipynb"):
        return False
    try:
        with open(notebook, "rb") as file:
            parsed = parse_json(file.read())
    except (OSError, ValueError, RecursionError):  # not saved yet, or damaged: opening it reports that
        return False
    return isinstance(parsed, dict) and wants_colab(parsed)


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
