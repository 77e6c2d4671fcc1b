"""`ownlab runtimes log` of a script: what its ranks printed, from the files in the folder of its run."""

from __future__ import annotations

import os
import sys
import time

from ownlab.errors import LabError, UsageError
from ownlab.lab.engines.interface import Job
from ownlab.lab.engines.registry import find_engine
from ownlab.lab.scripts.folder import LogFollower, log_file, recorded_runs
from ownlab.lab.scripts.outcome import describe_run
from ownlab.lab.scripts.records import StartedScript
from ownlab.lab.terminal.cell_output import CellOutput
from ownlab.lab.terminal.script import print_end
from ownlab.render.documents import echo_record
from ownlab.text import listing, text

__all__ = ["find_script_run", "show_script_log"]

# Seconds between two reads with --follow.
_INTERVAL = 0.1


def find_script_run(name: str) -> tuple[str, StartedScript] | None:
    """Find a run by the beginning of its id or by its script; of several of one script the newest. None if there is none."""
    runs = recorded_runs()
    matches = [run for run in runs if name and run[1].runtime.startswith(name)]
    if len(matches) > 1:
        message = text("{name} matches several runtimes: {runtimes}.", name=name, runtimes=listing(_short(matches)))
        raise LabError(message, hint=text("Name one by the beginning of its id."))
    if not matches and name.endswith(".py"):
        matches = [run for run in runs if _is_script(run[1], name)][-1:]
    return matches[0] if matches else None


def show_script_log(folder: str, start: StartedScript, *, rank: int, follow: bool, as_json: bool) -> int:
    """Print the log of a rank, or the report. With `follow`, until the run ends; return its exit code then."""
    if rank >= start.ranks:
        raise UsageError(text("This run has {n} ranks; the first is 0.", n=start.ranks))
    if as_json:
        echo_record(describe_run(folder, start))
        return 0
    log, output = LogFollower(log_file(folder, rank)), CellOutput(sys.stdout, sys.stderr)
    engine, job = find_engine(start.engine), Job(start.runtime, folder, start.reference)
    while True:
        alive = not engine.status([job])[0].has_ended  # before reading, so that the last output is read
        while printed := log.read():
            output.show({"output_type": "stream", "name": "stdout", "text": printed})
        if not follow or not alive:
            break
        time.sleep(_INTERVAL)
    output.finish()
    report = describe_run(folder, start, engine)
    if not follow and report.status in ("running", "waiting"):
        return 0
    print_end(report, sys.stderr)
    return report.shell_code if follow else 0


def _short(runs: list[tuple[str, StartedScript]]) -> list[str]:
    return [f"{start.runtime[:8]} ({start.script[0]})" for _, start in runs]


def _is_script(start: StartedScript, name: str) -> bool:
    path = os.path.join(start.cwd, start.script[0])
    return path == os.path.abspath(name) or path.endswith("/" + name)
