"""Runs the user's command with the measurement in it. Its streams, its arguments and its exit code are its own.

A folder of ours on PYTHONPATH holds a sitecustomize module, which every Python below the command imports at its start: the script
itself, spawned workers, the ranks of torchrun, what a shell script starts. So the script runs as `__main__` in its own
interpreter, with its own traceback, and nothing of it is rewritten.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil  # type: ignore[import-untyped]  # it ships no types

from ownlab.errors import InputError
from ownlab.text import text

__all__ = [
    "Ending",
    "has_ended",
    "hidden_by_options",
    "is_measured",
    "measuring_environment",
    "run_script",
    "stderr_number",
]

_SITE = Path(__file__).resolve().parents[3] / "ownlab_guest" / "why" / "site"
_POLL_SECONDS = 0.1
# What a script gets to end itself after SIGTERM.
_GRACE_SECONDS = 10.0
_PYTHON = re.compile(r"python(\d(\.\d+)?)?(\.exe)?$")
# Options of Python that take a value: what follows is not the script yet.
_WITH_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


class Ending(NamedTuple):
    """How a script has ended."""

    exit_code: int | None  # None: it was ended after the measurement
    returncode: int  # of the process: negative for a signal


class _Measured(msgspec.Struct):
    """The part of a process's evidence that says whether it is complete."""

    ended: str
    steps: list[msgspec.Raw]


def hidden_by_options(command: Sequence[str]) -> str | None:
    """Return the option of Python that keeps it from loading the measurement (-I, -E, -S), or None."""
    if not _PYTHON.match(os.path.basename(command[0])):
        return None
    skip = False
    for argument in command[1:]:
        if skip:
            skip = False
        elif argument in ("-c", "-m") or not argument.startswith("-"):
            return None
        elif argument in _WITH_VALUE:
            skip = True
        elif not argument.startswith("--"):
            for letter in argument[1:]:
                if letter in "IES":
                    return f"-{letter}"
                if letter in "XWmc":
                    break  # the rest of the cluster is its value
    return None


def run_script(
    command: Sequence[str],
    folder: Path,
    *,
    steps: int,
    seconds: float | None,
    end_after: bool,
    stdout: int | None = None,
) -> Ending:
    """Run a command to its end; or end it after `seconds`, or, with `end_after`, when `steps` are measured."""
    environment = measuring_environment(folder, steps)
    try:
        child = subprocess.Popen(list(command), env=environment, stdout=stdout)
    except OSError as exc:
        message = text("Cannot run {program}: {reason}.", program=command[0], reason=exc.strerror)
        raise InputError(message, hint=text("Write the command as you would without ownlab: python train.py")) from exc
    ended_by_us = False
    with _signals_left_to(child):
        try:
            ended_by_us = _wait(child, folder, seconds, end_after)
        finally:
            if child.poll() is None:  # this command is being ended itself
                _end_tree(child.pid)
                child.wait()
    return Ending(None if ended_by_us else shell_code(child.returncode), child.returncode)


def measuring_environment(folder: Path, steps: int) -> dict[str, str]:
    """The environment in which every Python measures itself, with the folder for the evidence."""
    others = os.environ.get("PYTHONPATH")
    path = str(_SITE) + (os.pathsep + others if others else "")
    return {**os.environ, "PYTHONPATH": path, "OWNLAB_WHY": str(folder), "OWNLAB_WHY_STEPS": str(steps)}


def _wait(child: subprocess.Popen[bytes], folder: Path, seconds: float | None, end_after: bool) -> bool:
    """Wait for the end of the script, or end it; return whether it was ended."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while not has_ended(child):
        over = deadline is not None and time.monotonic() > deadline
        if over or (end_after and is_measured(folder)):
            _end_tree(child.pid)
            child.wait()
            return True
    return False


def has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Wait a moment for the end of a child. `poll` and a sleep would add the moment to every run."""
    try:
        child.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_measured(folder: Path) -> bool:
    """Whether every process that trains has measured its steps."""
    processes = []
    for path in folder.glob("process-*.json"):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            processes.append(msgspec.json.decode(path.read_bytes(), type=_Measured))
    trained = [process for process in processes if process.steps]
    return bool(trained) and all(process.ended != "running" for process in trained)


def _end_tree(pid: int) -> None:
    """End a process and all below it: politely, then not."""
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
        for process in tree:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        _, alive = psutil.wait_procs(tree, timeout=_GRACE_SECONDS)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()


@contextlib.contextmanager
def _signals_left_to(child: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ctrl-C is the script's own: the terminal sends it to both. SIGTERM is passed on. Then its evidence is explained."""

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            child.send_signal(number)

    def ignore(number: int, frame: object) -> None:
        """A function instead of SIG_IGN, which children started later would inherit."""

    replaced = {
        signal.SIGINT: signal.signal(signal.SIGINT, ignore),
        signal.SIGTERM: signal.signal(signal.SIGTERM, pass_on),
    }
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


def shell_code(returncode: int) -> int:
    """-9 -> 137, as a shell reports it."""
    return returncode if returncode >= 0 else 128 - returncode


def stderr_number() -> int:
    """The descriptor of stderr, where a script's output goes if stdout has a document."""
    return sys.stderr.fileno()
