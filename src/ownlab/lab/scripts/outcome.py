"""How a script's run ended, and which rank failed first, from the files in its folder."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ownlab.guest_client import last_line
from ownlab.lab.engines.interface import Engine, Job, JobStatus
from ownlab.lab.engines.job_end import read_object
from ownlab.lab.engines.registry import find_engine
from ownlab.lab.scripts.folder import error_file, log_file, read_start
from ownlab.lab.scripts.records import RankFailure, ScriptReport, ScriptStatus, StartedScript
from ownlab.text import text

__all__ = ["describe_run"]

# torchrun ends the other ranks with SIGTERM after a failure, and this many seconds later with SIGKILL.
_TORCHRUN_KILLS_AFTER = 25.0


def describe_run(folder: str, start: StartedScript, engine: Engine | None = None) -> ScriptReport:
    """Return the report of a run as it is now. `engine`: the one that has started it, if it is at hand."""
    engine = engine or find_engine(start.engine)
    start = read_start(folder) or start  # it may have got its reference
    end = engine.status([Job(start.runtime, folder, start.reference)])[0]
    status = _status(end)
    failure = _first_failure(folder, start, end) if end.state == "failed" and not end.cause else None
    reason = end.reason if status in ("failed", "stopped", "interrupted") else ""
    if failure is not None:
        reason = _explain(failure, start.ranks)
    elif end.state == "failed" and not end.cause:
        reason = _launcher_message(folder) or reason
    return ScriptReport(
        runtime=start.runtime,
        type=start.type,
        label=start.label,
        script=start.script,
        ranks=start.ranks,
        folder=folder,
        status=status,
        reason=reason,
        seconds=round((end.ended_at or time.time()) - start.started_at, 3),
        exit_code=end.exit_code,
        failure=failure,
        engine=start.engine,
        nodes=start.nodes,
        reference=start.reference,
        cause=end.cause,
    )


def _status(end: JobStatus) -> ScriptStatus:
    if end.state == "starting":
        return "running"
    return "failed" if end.state == "refused" or end.state == "unstarted" else end.state


def _first_failure(folder: str, start: StartedScript, end: JobStatus) -> RankFailure | None:
    """The failure that made the others fail; None if no rank failed."""
    errors = {rank: error for rank in range(start.ranks) if (error := read_object(error_file(folder, rank)))}
    seen = [read_object(str(path)) for path in sorted(Path(folder).glob("failures*.json"))]  # one of each node
    codes = {int(rank): int(entry["exit_code"]) for each in seen for rank, entry in (each.get("ranks") or {}).items()}
    if start.ranks == 1 and end.exit_code is not None:
        codes = {0: end.exit_code}
    first = min(errors, key=lambda rank: float(errors[rank].get("at", 0.0)), default=None)
    killed = [rank for rank, code in codes.items() if code < 0 and code != -signal.SIGTERM and rank not in errors]
    seen_at = min((float(each.get("at") or 0.0) for each in seen), default=0.0)
    since = 0.0 if first is None else seen_at - float(errors[first].get("at", 0.0))
    if killed and since < _TORCHRUN_KILLS_AFTER:
        first = killed[0]  # the others have lost it: their exceptions follow from it
    if first is None:
        first = next((rank for rank, code in codes.items() if code > 0), next(iter(codes), None))
    return None if first is None else _failure(folder, first, errors.get(first, {}), codes.get(first))


def _failure(folder: str, rank: int, error: Mapping[str, Any], code: int | None) -> RankFailure:
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
