"""Starts a module of `ownlab_guest` in a given interpreter and validates what it answers.

The interpreter need not have ownlab installed, nor be of our version: `ownlab_guest/launch.py` is started by its path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from ownlab.errors import DeadlineError, InterpreterError
from ownlab.processes import runner

__all__ = ["GuestCrashed", "ask", "last_line"]

T = TypeVar("T")

_LAUNCH = Path(__file__).resolve().parents[1] / "ownlab_guest" / "launch.py"
# The end of what a dying guest wrote is what people need; a framework may log megabytes before it.
_STDERR_KEPT = 4000


class GuestCrashed(InterpreterError):
    """The guest ended without an answer: it died of a signal, or its interpreter is broken."""

    meaning = "A library that was loaded crashed the interpreter, or the interpreter itself does not work."

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

    Raises InterpreterError where `python` cannot be started, GuestCrashed where it ends without an answer, and
    DeadlineError where it does not end. `env` is added to our environment.
    """
    # Where we are killed before we can end it, the guest ends itself (launch.py).
    environment = {**os.environ, **(env or {}), "OWNLAB_GUEST_SECONDS": f"{deadline:g}"}
    try:
        ran = runner.run([python, str(_LAUNCH), module, *arguments], deadline=deadline, env=environment)
    except runner.ToolMissing as exc:
        raise InterpreterError(f"{python} is not a Python that can be run: {exc.message}") from exc
    except DeadlineError as exc:
        raise DeadlineError(f"{module} in {python}: {exc.message}") from exc
    try:
        return msgspec.json.decode(ran.stdout, type=answer)
    except msgspec.DecodeError as exc:
        raise GuestCrashed(
            f"{python} {runner.describe_exit(ran.returncode)} without an answer"
            + (f": {last_line(ran.stderr)}" if ran.stderr.strip() else f" to use: {exc}" if ran.stdout.strip() else ""),
            returncode=ran.returncode,
            stderr=ran.stderr[-_STDERR_KEPT:],
        ) from exc


def last_line(text: str) -> str:
    """The last line that says anything: where Python and C libraries put the error itself."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
