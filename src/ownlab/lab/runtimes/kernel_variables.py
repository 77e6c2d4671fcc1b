"""Environment variables of kernels for Colab mode, start-up scripts and their language, and which of those scripts failed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import content_folder, drive_folder
from ownlab.errors import InputError
from ownlab.input_files import read_bytes
from ownlab.lab.colab.detection import wants_colab
from ownlab.lab.notebooks.parsing import parse_json
from ownlab.lab.runtimes.state import runtime_folder
from ownlab.languages import environment_language
from ownlab.text import text

__all__ = ["colab_variables", "language_variables", "startup_failures", "startup_variables"]


def colab_variables(notebook: str, runtime: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variables for a kernel of this notebook. Computed at each start: the notebook may have changed.

    OWNLAB_COLAB is always there, "1" or "0"; the others only with "1". The overlay is in the runtime's folder, and is
    removed with it.
    """
    if not _wants_colab_mode(notebook):
        return {"OWNLAB_COLAB": "0"}
    options = resolve_lab_options(environ=environ)
    return {
        "OWNLAB_COLAB": "1",
        "OWNLAB_CONTENT": str(content_folder(runtime, environ)),
        "OWNLAB_OVERLAY": str(runtime_folder(runtime, environ) / "overlay"),
        "OWNLAB_DRIVE": options.drive_folder or str(drive_folder(environ)),
        "OWNLAB_DRIVE_REMOTE": options.drive_remote,
        "OWNLAB_HOST": sys.executable,
    }


def _wants_colab_mode(notebook: str) -> bool:
    if not notebook.endswith(".ipynb"):
        return False
    try:
        parsed = parse_json(read_bytes(notebook)) if os.path.isfile(notebook) else None
    except (InputError, ValueError, RecursionError):  # not saved yet, or damaged: opening it reports that
        return False
    return isinstance(parsed, dict) and wants_colab(parsed)


def language_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the language of what a kernel's functions say. The kernel does not read our settings."""
    return {"OWNLAB_LANG": environment_language(environ)}


_LOG_PREFIX = "ownlab: start-up script "  # ownlab_guest/kernel/startup.py writes it


def startup_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the lab's own start-up script. The kernel finds the one beside its notebook by itself."""
    return {"OWNLAB_STARTUP_SCRIPT": resolve_lab_options(environ=environ).startup_script or ""}


def startup_failures(home: str) -> list[str]:
    """Return what a runtime's log says about start-up scripts that failed."""
    try:
        with open(os.path.join(home, "log"), encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\n") for line in file if line.startswith(_LOG_PREFIX)]
    except OSError:  # the runtime is gone, with its log
        return []
    failures = [line[len(_LOG_PREFIX) :].partition(" failed: ") for line in lines]
    return [text("The start-up script {name} failed: {reason}", name=name, reason=why) for name, _, why in failures]
