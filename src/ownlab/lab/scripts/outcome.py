"""How a script's run ended, and which rank failed first, from the files in its folder."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from ownlab.guest_client import last_line
from ownlab.lab.runtimes.state import is_runtime_alive, state_of
from ownlab.lab.scripts.folder import error_file, log_file
from ownlab.lab.scripts.records import RankFailure, ScriptReport, ScriptStatus, StartedScript
from ownlab.text import text, unpack_texts

__all__ = ["describe_run"]

# torchrun ends the other ranks with SIGTERM after a failure, and this many seconds later with SIGKILL.
_TORCHRUN_KILLS_AFTER = 25.0
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)


def describe_run(folder: str, start: StartedScript) -> ScriptReport:
    """Return the report of a run as it is now."""
    end = _read(os.path.join(folder, "end.json"))
    status, reason = _status(start, end)
    failure = _first_failure(folder, start, end) if status == "failed" else None
    if failure is not None:
        reason = _explain(failure, start.ranks)
    elif status == "failed":
        reason = _launcher_message(folder) or reason
    code = end.get("exit_code")
    return ScriptReport(
        runtime=start.runtime,
        type=start.type,
        label=start.label,
        script=start.script,
        ranks=start.ranks,
        folder=folder,
        status=status,
        reason=reason,
        seconds=round(float(end.get("at") or time.time()) - start.started_at, 3),
        exit_code=code if isinstance(code, int) else None,
        failure=failure,
    )


def _status(start: StartedScript, end: dict[str, Any]) -> tuple[ScriptStatus, str]:
    if not end:
        if is_runtime_alive(start.runtime):
            return ("waiting" if state_of(start.runtime) == "waiting" else "running"), ""
        return "failed", text("its supervisor died")
    if end.get("stopped"):
        return "stopped", str(end["stopped"])
    code = end.get("exit_code")
    if code == 0:
        return "done", ""
    if code in _INTERRUPTED:
        return "interrupted", text("it was interrupted")
    return "failed", str(end.get("reason") or "")


def _first_failure(folder: str, start: StartedScript, end: dict[str, Any]) -> RankFailure | None:
    """The failure that made the others fail; None if no rank failed."""
    errors = {rank: error for rank in range(start.ranks) if (error := _read(error_file(folder, rank)))}
    seen = _read(os.path.join(folder, "failures.json"))
    codes = {int(rank): int(entry["exit_code"]) for rank, entry in (seen.get("ranks") or {}).items()}
    if start.ranks == 1 and isinstance(end.get("exit_code"), int):
        codes = {0: int(end["exit_code"])}
    first = min(errors, key=lambda rank: float(errors[rank].get("at", 0.0)), default=None)
    killed = [rank for rank, code in codes.items() if code < 0 and code != -signal.SIGTERM and rank not in errors]
    since = 0.0 if first is None else float(seen.get("at") or 0.0) - float(errors[first].get("at", 0.0))
    if killed and since < _TORCHRUN_KILLS_AFTER:
        first = killed[0]  # the others have lost it: their exceptions follow from it
    if first is None:
        first = next((rank for rank, code in codes.items() if code > 0), next(iter(codes), None))
    return None if first is None else _failure(folder, first, errors.get(first, {}), codes.get(first))


def _failure(folder: str, rank: int, error: dict[str, Any], code: int | None) -> RankFailure:
    ended_by = -code if code is not None and code < 0 and not error else None
    return RankFailure(
        rank=rank,
        exit_code=None if ended_by is not None else int(error.get("exit_code") or code or 1),
        signal=ended_by,
        name=str(error.get("name", "")),
        value=str(error.get("value", "")),
        traceback=str(error.get("traceback", "")),
        log=log_file(folder, rank),
    )


def _explain(failure: RankFailure, ranks: int) -> str:
    values = {
        "rank": failure.rank,
        "ranks": ranks,
        "name": failure.name,
        "value": failure.value,
        "code": failure.exit_code,
    }
    if failure.signal is not None:
        values["signal"] = _signal_name(failure.signal)
        if ranks == 1:
            return text("the script was killed by {signal}", **values)
        return text("rank {rank} of {ranks} failed first: it was killed by {signal}", **values)
    if not failure.traceback:
        if ranks == 1:
            return text("the script ended with exit code {code}", **values)
        return text("rank {rank} of {ranks} failed first, with exit code {code}", **values)
    if ranks == 1:
        return text("{name}: {value}", **values)
    return text("rank {rank} of {ranks} failed first: {name}: {value}", **values)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return text("signal {signal}", signal=number)


def _launcher_message(folder: str) -> str:
    """The last line that torchrun, or its start, has printed."""
    try:
        return last_line(Path(folder, "launcher.log").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        return unpack_texts(content) if isinstance(content, dict) else {}
    except (OSError, ValueError):
        return {}
