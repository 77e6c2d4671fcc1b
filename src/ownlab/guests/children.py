"""Runs a program, and gives up on it in time.

A program stuck in the kernel (a driver that hangs) cannot even be killed: then it is left behind, and we go on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ownlab.errors import DeadlineError, InputError

__all__ = ["Ran", "ToolMissing", "describe_exit", "run"]

# How long a killed child may take to go before it is left behind.
_GRACE_SECONDS = 0.5
# Children that other threads wait for when we are interrupted: they end with us.
_alive: set[subprocess.Popen[bytes]] = set()


class ToolMissing(InputError):
    """The program is not installed, or may not be executed."""


class Ran(Struct, frozen=True):
    """What a program said before it ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """Both streams, for tools that put their errors on either."""
        return "\n".join(part for part in (self.stdout.strip(), self.stderr.strip()) if part)


def run(
    command: Sequence[str],
    *,
    deadline: float,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> Ran:
    """Run a program to its end, or raise DeadlineError after `deadline` seconds and ToolMissing where there is none."""
    program = shutil.which(command[0], path=env.get("PATH") if env is not None else None)
    if program is None:
        raise ToolMissing(f"{command[0]} is not installed, or not on PATH")
    try:
        child = subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,  # so that its own children can be ended with it
        )
    except OSError as exc:
        raise ToolMissing(f"{command[0]} cannot be started: {exc.strerror}") from exc
    _alive.add(child)
    try:
        stdout, stderr = child.communicate(stdin.encode(), timeout=deadline)
    except subprocess.TimeoutExpired as exc:
        raise DeadlineError(f"{os.path.basename(command[0])} did not answer in {deadline:g} s") from exc
    finally:
        if child.returncode is None:  # out of time, or interrupted
            _end(child)
        _alive.discard(child)
    return Ran(child.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


@atexit.register
def _end_all() -> None:
    for child in tuple(_alive):
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):  # it ended by itself meanwhile
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel: left behind
        child.wait(_GRACE_SECONDS)
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    # Python warns of a child that was not waited for; one that cannot be killed is not ours to wait for any more.
    if child.returncode is None:
        child.returncode = -signal.SIGKILL


def describe_exit(returncode: int) -> str:
    """-11 -> "died of SIGSEGV"; 1 -> "ended with exit code 1"."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"died of {signal.Signals(-returncode).name}"
    except ValueError:
        return f"died of signal {-returncode}"
