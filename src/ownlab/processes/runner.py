"""Runs a program, and gives up on it in time.

A program stuck in the kernel (a driver that hangs) cannot even be killed: then it is left behind, and we go on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ownlab.errors import DeadlineError, InputError
from ownlab.units import MIB, format_bytes

__all__ = ["Ran", "ToolMissing", "describe_exit", "run"]

# How long a killed child may take to go before it is left behind.
_GRACE_SECONDS = 0.5
# No tool that is asked here has more to say; a program that prints for ever would fill the memory.
_MOST_BYTES = 64 * MIB
# Children that other threads wait for when we are interrupted: they end with us.
_alive: set[subprocess.Popen[bytes]] = set()
# Guards the two below: at our end no child may be on its way, started by another thread and not yet in the list.
_changed = threading.Condition()
_starting: set[object] = set()
_ending = threading.Event()


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
) -> Ran:
    """Run a program to its end.

    Raises DeadlineError after `deadline` seconds, or where it says more than can be an answer; ToolMissing where there
    is no such program.
    """
    program = shutil.which(command[0], path=env.get("PATH") if env is not None else None)
    if program is None:
        raise ToolMissing(f"{command[0]} is not installed, or not on PATH")
    try:
        child = _start([program, *command[1:]], env)
    except OSError as exc:
        raise ToolMissing(f"{command[0]} cannot be started: {exc.strerror}") from exc
    name = os.path.basename(command[0])
    try:
        stdout, stderr = _listen(child, name, deadline)
    finally:
        _end(child)  # where it ran out of time or we were interrupted; else this only closes its streams
        _alive.discard(child)
    return Ran(child.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def _listen(child: subprocess.Popen[bytes], name: str, deadline: float) -> tuple[bytes, bytes]:
    """What the child says until it ends; like communicate(), which would keep gigabytes of a program that never stops."""
    assert child.stdout is not None
    assert child.stderr is not None
    end = time.monotonic() + deadline
    said: dict[int, bytearray] = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as waiting:
        for number in said:
            waiting.register(number, selectors.EVENT_READ)
        while waiting.get_map():
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineError(f"{name} did not answer in {deadline:g} s")
            for key, _ in waiting.select(left):
                part = os.read(key.fd, 1 << 16)
                said[key.fd] += part
                if not part:
                    waiting.unregister(key.fd)
                if len(said[key.fd]) > _MOST_BYTES:
                    raise DeadlineError(f"{name} said more than {format_bytes(_MOST_BYTES)} and did not end")
    try:
        child.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired as exc:
        raise DeadlineError(f"{name} did not answer in {deadline:g} s") from exc
    return bytes(said[child.stdout.fileno()]), bytes(said[child.stderr.fileno()])


def _start(command: list[str], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    on_its_way = object()
    with _changed:
        if _ending.is_set():  # our program ends, while this thread goes on for a moment
            raise DeadlineError(f"{os.path.basename(command[0])} is not started any more")
        _starting.add(on_its_way)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,  # so that its own children can be ended with it
        )
        _alive.add(child)
        return child
    finally:
        with _changed:
            _starting.discard(on_its_way)
            _changed.notify_all()


@atexit.register
def _end_all() -> None:
    with _changed:
        _ending.set()
        _changed.wait_for(lambda: not _starting, _GRACE_SECONDS)
    for child in tuple(_alive):
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.returncode is None:
        with contextlib.suppress(OSError):  # it ended by itself meanwhile
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel: left behind
            child.wait(_GRACE_SECONDS)
    for stream in (child.stdout, child.stderr):
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
