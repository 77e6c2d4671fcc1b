"""end.json: how a run has ended. Engines write it into the folder of the run, which is kept.

The local engine's supervisor writes it, or the script of a batch job; both with `exit_code`, and `stopped` if something other
than the script has ended it.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any, cast, get_args

from ownlab.lab.engines.interface import JobState, JobStatus, StopCause
from ownlab.text import text, unpack_texts

__all__ = ["END_FILE", "read_end", "read_object"]

END_FILE = "end.json"
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)


def read_end(folder: str) -> JobStatus | None:
    """How the run of this folder has ended; None if that is not recorded."""
    end = read_object(os.path.join(folder, END_FILE))
    if not end:
        return None
    code, at, cause = end.get("exit_code"), end.get("at"), end.get("cause")
    exit_code = code if isinstance(code, int) else None
    state, reason = _state(exit_code, end)
    return JobStatus(
        state=state,
        reason=reason,
        cause=cast("StopCause", cause if cause in get_args(StopCause) else ""),
        exit_code=exit_code,
        ended_at=float(at) if isinstance(at, (int, float)) else None,
    )


def _state(exit_code: int | None, end: dict[str, Any]) -> tuple[JobState, str]:
    if end.get("stopped"):
        return "stopped", str(end["stopped"])
    if exit_code == 0:
        return "done", ""
    if exit_code in _INTERRUPTED:
        return "interrupted", text("it was interrupted")
    return "failed", str(end.get("reason") or "")


def read_object(path: str) -> dict[str, Any]:
    """Read a file with a JSON object; {} if there is none, or it is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError):
        return {}
    return unpack_texts(content) if isinstance(content, dict) else {}
