"""Runs a program with a deadline.

A program that hangs inside a driver cannot be killed; it is left behind.
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
from ownlab.text import text
from ownlab.units import MIB, format_bytes

__all__ = ["Ran", "ToolMissing", "describe_exit", "run"]

# How long a killed child may take to end before it is left behind.
_GRACE_SECONDS = 0.5
# No tool prints more; a program that prints without end would fill the memory.
_MOST_BYTES = 64 * MIB
# Children that other threads wait for: they are killed when this program ends.
_alive: set[subprocess.Popen[bytes]] = set()
# Guards the two below: when this program ends, no other thread may be starting a child that is not in the list yet.
_changed = threading.Condition()
_starting: set[object] = set()
_ending = threading.Event()


class ToolMissing(InputError):
    """The program is not installed or not executable."""


class Ran(Struct, frozen=True):
    """The result of a program that ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both streams; tools print errors on either."""
        return "\n".join(part for part in (self.stdout.strip(), self.stderr.strip()) if part)


def run(
    command: Sequence[str],
    *,
    deadline: float,
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Run a program to its end.

    Raises DeadlineError after `deadline` seconds or when it prints too much; ToolMissing when it is not installed.
    """
    program = shutil.which(command[0], path=env.get("PATH") if env is not None else None)
    if program is None:
        raise ToolMissing(text("{program} is not installed, or not on PATH", program=command[0]))
    try:
        child = _start([program, *command[1:]], env)
    except OSError as exc:
        message = text("{program} cannot be started: {reason}", program=command[0], reason=exc.strerror)
        raise ToolMissing(message) from exc
    name = os.path.basename(command[0])
    try:
        stdout, stderr = _read_output(child, name, deadline)
    finally:
        _end(child)  # after a deadline or an interrupt; otherwise this only closes its streams
        _alive.discard(child)
    return Ran(child.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def _read_output(child: subprocess.Popen[bytes], name: str, deadline: float) -> tuple[bytes, bytes]:
    """Read both streams until the child ends. communicate() would keep gigabytes of a program that prints without end."""
    assert child.stdout is not None
    assert child.stderr is not None
    end = time.monotonic() + deadline
    received: dict[int, bytearray] = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as waiting:
        for number in received:
            waiting.register(number, selectors.EVENT_READ)
        while waiting.get_map():
            left = end - time.monotonic()
            if left <= 0:
                raise _too_slow(name, deadline)
            for key, _ in waiting.select(left):
                part = os.read(key.fd, 1 << 16)
                received[key.fd] += part
                if not part:
                    waiting.unregister(key.fd)
                if len(received[key.fd]) > _MOST_BYTES:
                    size = format_bytes(_MOST_BYTES)
                    raise DeadlineError(text("{name} printed more than {size} and did not end", name=name, size=size))
    try:
        child.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired as exc:
        raise _too_slow(name, deadline) from exc
    return bytes(received[child.stdout.fileno()]), bytes(received[child.stderr.fileno()])


def _too_slow(name: str, deadline: float) -> DeadlineError:
    return DeadlineError(text("{name} did not answer in {seconds:g} s", name=name, seconds=deadline))


def _start(command: list[str], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    ticket = object()
    with _changed:
        if _ending.is_set():  # the program is ending while this thread still runs
            name = os.path.basename(command[0])
            raise DeadlineError(text("{name} was not started: the program is ending", name=name))
        _starting.add(ticket)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,  # so that its children can be killed with it
        )
        _alive.add(child)
        return child
    finally:
        with _changed:
            _starting.discard(ticket)
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
        with contextlib.suppress(OSError):  # it has ended meanwhile
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in a driver: left behind
            child.wait(_GRACE_SECONDS)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    # Prevents Python's warning about a child that was never waited for.
    if child.returncode is None:
        child.returncode = -signal.SIGKILL


def describe_exit(returncode: int) -> str:
    """-11 -> "died of SIGSEGV"; 1 -> "ended with exit code 1"."""
    if returncode >= 0:
        return text("ended with exit code {code}", code=returncode)
    try:
        return text("died of {signal}", signal=signal.Signals(-returncode).name)
    except ValueError:
        return text("died of signal {signal}", signal=-returncode)
