"""One run of a trial: the script with changes applied from outside, ended after some steps, in a throw-away copy of the file systems."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ownlab.instruments.why.collection import collect
from ownlab.instruments.why.records import Evidence
from ownlab.instruments.why.script_run import has_ended, is_measured, measuring_environment, shell_code
from ownlab.instruments.why.step_model import main_process
from ownlab.json_encoding import encode_json
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["TrialRun", "isolation_problem", "run_trial"]

_LAUNCH = Path(__file__).resolve().parents[4] / "ownlab_guest" / "launch.py"
# What the guest gets to kill everything below it (isolated_run.py tries for 20 s).
_END_SECONDS = 30.0
_CHECK_SECONDS = 60.0
_TAIL_BYTES = 8192
# With so many steps a run is compared, also if it has ended, or was ended, before all were measured.
_ENOUGH_STEPS = 10
# Trackers send nothing. TensorBoard writes files alone, which are thrown away; MLflow has no switch, but a place for its files.
_TRACKERS = {
    "WANDB_MODE": "disabled",
    "WANDB_DISABLED": "true",
    "COMET_MODE": "disabled",
    "COMET_AUTO_LOG_DISABLE": "1",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
}


class TrialRun(NamedTuple):
    """What a run has shown."""

    evidence: Evidence
    failure: str  # why it ended before its steps were measured, or ""
    output: str  # the last lines that it printed
    seconds: float


class _Ending(msgspec.Struct):
    """How the guest says that the command has ended."""

    code: int | None
    problem: str


def isolation_problem() -> str:
    """Try a throw-away copy of the file systems; return why there is none, or ""."""
    with tempfile.TemporaryDirectory(prefix="ownlab-why-") as name:
        folder = Path(name)
        child, _ = _start(folder, "isolated", (sys.executable, "-I", "-S", "-c", ""), dict(os.environ))
        try:
            child.wait(_CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            return text("mounting took too long")
        finally:
            _end(child)
        ending = _read_ending(folder)
        if ending is None:
            return text("the process that tried it has ended with code {code}", code=child.returncode)
        return ending.problem


def run_trial(
    command: Sequence[str], changes: Mapping[str, Any], *, steps: int, seconds: float, isolated: bool
) -> TrialRun:
    """Run the command until its steps are measured, or for so many seconds."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ownlab-why-") as name:
        folder = Path(name)
        evidence = folder / "evidence"
        environment = measuring_environment(evidence, steps)
        environment |= _TRACKERS | {"OWNLAB_WHY_TRIAL": encode_json(changes).decode(), "PYTHONHASHSEED": "0"}
        environment["MLFLOW_TRACKING_URI"] = f"file://{evidence}/mlflow"
        child, tail = _start(folder, "isolated" if isolated else "direct", command, environment)
        try:
            measured = _wait(child, evidence, began + seconds)
        finally:
            _end(child)
        output = tail.close()
        ending = _read_ending(folder)
        code = None if measured or ending is None or ending.code is None else shell_code(ending.code)
        found = collect(evidence, command, code)
        failure = "" if measured else _failure(ending, found, output, seconds)
    return TrialRun(found, failure, output, time.monotonic() - began)


def _start(
    folder: Path, mode: str, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], _Tail]:
    for each in ("evidence", "root"):
        (folder / each).mkdir()
    child = subprocess.Popen(
        [sys.executable, "-I", str(_LAUNCH), "why.isolated_run", str(folder), mode, *command],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # the guest's answer, which is in its file as well
        stderr=subprocess.PIPE,  # both streams of the script
        start_new_session=True,
    )
    return child, _Tail(child)


class _Tail:
    """Reads all that a process prints, and keeps its end."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stderr is not None
        self._pipe = child.stderr
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while block := os.read(self._pipe.fileno(), 65536):
            self._kept = (self._kept + block)[-_TAIL_BYTES:]

    def close(self) -> str:
        """Return the end of the output, after the process and all below it have ended."""
        self._thread.join(_END_SECONDS)
        return self._kept.decode(errors="replace")


def _wait(child: subprocess.Popen[bytes], evidence: Path, deadline: float) -> bool:
    """Wait until the steps are measured (True), the script has ended, or the time is over."""
    while not has_ended(child):
        if is_measured(evidence):
            return True
        if time.monotonic() > deadline:
            return False
    return is_measured(evidence)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the guest, which kills everything below it first."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _read_ending(folder: Path) -> _Ending | None:
    try:
        return msgspec.json.decode((folder / "ending.json").read_bytes(), type=_Ending)
    except (OSError, msgspec.DecodeError):
        return None


def _failure(ending: _Ending | None, found: Evidence, output: str, seconds: float) -> str:
    """Say why a run is of no use. One that was slow, or short, but has enough steps, is."""
    process, code = main_process(found), found.exit_code
    if process is not None and len(process.steps) >= _ENOUGH_STEPS and not code:
        return ""
    if ending is None:
        return text("its steps took longer than {time}", time=format_seconds(seconds))
    if ending.problem:
        return text("it cannot be started: {problem}", problem=ending.problem)
    if code:
        return text("the script ended with code {code}: {line}", code=code, line=_last_line(output))
    return text("the script ended before its steps were measured")


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else text("it printed nothing")
