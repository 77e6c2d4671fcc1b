"""Reads what a runtime in a job uses on its node, in a child process that lives only while somebody looks.

The child measures when a line arrives on its stdin, prints one line, and ends when nothing was asked for a while. Nothing of it is
imported here: a supervisor stays small.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any

from ownlab.lab.supervisor.state_writer import log

__all__ = ["UsageChild"]

_PROGRAM = "ownlab.lab.runtimes.node_usage"
_CHUNK = 1 << 16
_LONGEST = 1 << 20  # bytes of a line: more is not from our child


class UsageChild:
    """Runs at most one child and never blocks."""

    def __init__(self, plan_file: str) -> None:
        self._plan_file = plan_file
        self.pid = 0  # 0 after it was reaped
        self._requests = self._out = -1
        self._output = b""
        self._pending = False
        self._count = 0
        self._latest: dict[str, Any] | None = None

    def ask(self) -> dict[str, Any]:
        """Return the last figures with their number, and ask for new ones; {"usage": None} before the first."""
        if self._out < 0:
            self._start()
        if self._out >= 0 and not self._pending:
            try:
                os.write(self._requests, b"\n")
                self._pending = True
            except OSError:  # it has just ended
                self._finish()
        return {"usage": self._latest, "number": self._count}

    def descriptors(self) -> list[int]:
        """What to poll for reading."""
        return [self._out] if self._out >= 0 else []

    def serve(self) -> None:
        """Read from the pipe, which is readable."""
        try:
            chunk = os.read(self._out, _CHUNK)
        except BlockingIOError:
            return
        self._output += chunk
        *lines, self._output = self._output.split(b"\n")
        for line in lines:
            self._pending = False
            with contextlib.suppress(ValueError):  # a warning of a library
                given = json.loads(line)
                if isinstance(given, dict):
                    self._latest, self._count = given, self._count + 1
        if not chunk or len(self._output) > _LONGEST:
            self._finish()

    def _start(self) -> None:
        if self.pid:  # the last one has not been reaped yet
            return
        theirs, self._requests = os.pipe2(os.O_CLOEXEC)
        self._out, inward = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._out, False)
        os.set_blocking(self._requests, False)
        argv = [sys.executable, "-m", _PROGRAM, self._plan_file]
        actions = [(os.POSIX_SPAWN_DUP2, theirs, 0), (os.POSIX_SPAWN_DUP2, inward, 1)]
        try:
            self.pid = os.posix_spawn(
                argv[0], argv, dict(os.environ), file_actions=actions, setsigmask=(), setsigdef=(signal.SIGTERM,)
            )
        except OSError as exc:
            log(f"the figures of the node cannot be read: {exc.strerror}: {argv[0]}")
            self._finish()
        finally:
            os.close(theirs)
            os.close(inward)

    def _finish(self) -> None:
        """Forget the child, which ends when its stdin is closed."""
        os.close(self._out)
        os.close(self._requests)
        self._requests = self._out = -1
        self._output, self._pending, self._latest = b"", False, None
