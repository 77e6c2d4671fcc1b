"""Runs a module of `ownlab_guest` in a given interpreter and validates its answer.

The interpreter needs no ownlab and may be an older Python: `ownlab_guest/launch.py` is started by its path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from ownlab.errors import DeadlineError, InterpreterError
from ownlab.json_encoding import decode_guest_json
from ownlab.processes import runner
from ownlab.text import text

__all__ = ["GuestCrashed", "ask", "last_line"]

T = TypeVar("T")

_LAUNCH = Path(__file__).resolve().parents[1] / "ownlab_guest" / "launch.py"
# The end of stderr explains a crash; a framework may log megabytes before it.
_STDERR_KEPT = 4000


class GuestCrashed(InterpreterError):
    """The guest ended without an answer: it was killed by a signal, or its interpreter is broken."""

    meaning = "A library crashed the interpreter, or the interpreter itself is broken."

    def __init__(self, message: str, *, returncode: int, stderr: str) -> None:
        super().__init__(message)
        self.returncode = returncode
        self.stderr = stderr


def ask(
    python: str,
    module: str,
    arguments: Sequence[str] = (),
    *,
    answer: type[T],
    deadline: float,
    env: Mapping[str, str] | None = None,
) -> T:
    """Run `ownlab_guest.<module>` in `python` and return its answer as a record of type `answer`.

    Raises InterpreterError when `python` cannot be started, GuestCrashed when it ends without an answer, and
    DeadlineError when it does not end. `env` is added to our environment.
    """
    # If we are killed before we can end it, the guest ends itself (launch.py).
    environment = {**os.environ, **(env or {}), "OWNLAB_GUEST_SECONDS": f"{deadline:g}"}
    try:
        ran = runner.run([python, str(_LAUNCH), module, *arguments], deadline=deadline, env=environment)
    except runner.ToolMissing as exc:
        message = text("Cannot run {python} as Python: {reason}.", python=python, reason=exc.message)
        raise InterpreterError(message) from exc
    except DeadlineError as exc:
        message = text("{module} in {python}: {reason}", module=module, python=python, reason=exc.message)
        raise DeadlineError(message) from exc
    try:
        decoded: T = decode_guest_json(ran.stdout, answer)
    except msgspec.DecodeError as exc:
        crash = _crash_message(python, ran, str(exc))
        raise GuestCrashed(crash, returncode=ran.returncode, stderr=ran.stderr[-_STDERR_KEPT:]) from exc
    return decoded


def _crash_message(python: str, ran: runner.Ran, decode_error: str) -> str:
    ended = runner.describe_exit(ran.returncode)
    if ran.stderr.strip():
        error = last_line(ran.stderr)
        return text("{python} {ended} without an answer: {error}", python=python, ended=ended, error=error)
    if ran.stdout.strip():
        return text("{python} {ended} without a valid answer: {error}", python=python, ended=ended, error=decode_error)
    return text("{python} {ended} without an answer", python=python, ended=ended)


def last_line(output: str) -> str:
    """Return the last line that is not empty: Python and C libraries print the error itself there."""
    return next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
