"""Runs guest code that reports progress and ends with a result: packing, checking, inspecting, measuring.

There is no deadline: a large data set takes hours. The guest ends when nobody reads its events any more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ownlab.errors import InputError, InterpreterError
from ownlab.guest_client import last_line
from ownlab.json_encoding import decode_guest_json
from ownlab.processes.runner import describe_exit
from ownlab.text import text

__all__ = ["DataUnusable", "Progress", "run_guest"]

_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "launch.py"
_GRACE_SECONDS = 3.0
_STDERR_KEPT = 4000

R = TypeVar("R", bound=Struct)


class DataUnusable(InputError):
    """A source, a data set or an option cannot be used; the guest says why."""


class Progress(Struct, frozen=True, tag_field="event", tag="progress"):
    """How far the guest is."""

    phase: str
    samples: int = 0
    bytes: int = 0
    total: int | None = None  # samples
    total_bytes: int | None = None
    resumed: int = 0  # samples that an earlier attempt had finished


class _Failed(Struct, frozen=True, tag_field="event", tag="error"):
    message: str
    hint: str = ""


class _Result(Struct, frozen=True, tag_field="event", tag="result"):
    """The result itself is decoded as the record that the command expects."""


def run_guest(
    python: str, module: str, request: Mapping[str, Any], result: type[R], on_progress: Callable[[Progress], None]
) -> R:
    """Run `ownlab_guest.<module>` to its end. Raises DataUnusable for what it reports, InterpreterError if it dies."""
    question = msgspec.json.encode(dict(request)).decode()
    with tempfile.TemporaryFile() as errors:
        child = _start([python, str(_LAUNCH), module, question], errors.fileno())
        try:
            assert child.stdout is not None
            for line in child.stdout:
                found = _decode(line, result)
                if isinstance(found, Progress):
                    on_progress(found)
                elif isinstance(found, _Failed):
                    raise DataUnusable(found.message, hint=found.hint)
                elif found is not None:
                    return found
            child.wait()
            raise _died(python, child.returncode, errors.fileno())
        finally:
            _end(child)


def _start(command: list[str], errors: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C must not print a traceback there
        )
    except OSError as exc:
        raise InterpreterError(
            text("Cannot run the Python {path}: {reason}.", path=command[0], reason=exc.strerror)
        ) from exc


def _decode(line: bytes, result: type[R]) -> Progress | _Failed | R | None:
    """Return None for a line that is no event: output of a library."""
    try:
        event: Progress | _Failed | _Result = decode_guest_json(line, Progress | _Failed | _Result)
        if not isinstance(event, _Result):
            return event
        found: R = decode_guest_json(line, result)
    except msgspec.DecodeError:
        return None
    return found


def _died(python: str, returncode: int, errors: int) -> InterpreterError:
    size = os.fstat(errors).st_size
    message = last_line(os.pread(errors, _STDERR_KEPT, max(0, size - _STDERR_KEPT)).decode(errors="replace"))
    ending = describe_exit(returncode)
    if message:
        return InterpreterError(
            text("{python} {ending} without a result: {message}", python=python, ending=ending, message=message)
        )
    return InterpreterError(text("{python} {ending} without a result.", python=python, ending=ending))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Terminate, then kill; a process that is stuck on a dead disk is left behind."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_SECONDS)
    if child.stdout is not None:
        child.stdout.close()
    if child.returncode is None:
        child.returncode = -signal.SIGKILL  # avoids a warning of Python
