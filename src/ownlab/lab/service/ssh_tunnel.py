"""A connection to another machine over the system's ssh: commands there, and a port of its lab on this machine.

One ssh process (the master) holds the connection; commands and the forwarding of the port share it, so that a password is asked for
once. It runs `cat` there, which ends when we do: no tunnel is left behind, whatever ends this process.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from ownlab.errors import DeadlineError, LabError, UsageError
from ownlab.text import text

__all__ = ["ConnectionLost", "SshTarget", "SshTunnel", "Unreachable"]

_READY = "ownlab-connected"
_BEGIN = "ownlab-output:"
# A connection that is dead is noticed after three of these.
_ALIVE_SECONDS = 5
_COMMAND_SECONDS = 120.0
_CONNECT_SECONDS = 20
_END_SECONDS = 5.0


class Unreachable(LabError):
    """The other machine cannot be reached, or refuses us. ssh has printed why."""


class ConnectionLost(LabError):
    """The connection ended while a command was running."""


class SshTarget(NamedTuple):
    """Another machine, and how ssh reaches it."""

    destination: str  # USER@HOST, or a name of ssh's configuration
    port: int | None = None
    config: str | None = None

    def check(self) -> None:
        """UsageError if it cannot be a destination: ssh would take it for an option."""
        if not self.destination or self.destination.startswith("-") or any(map(str.isspace, self.destination)):
            message = text("{name} is not a destination of ssh.", name=repr(self.destination))
            raise UsageError(message, hint=text("For example: ownlab connect ann@lab.example.org"))
        if shutil.which("ssh") is None:
            raise LabError(
                text("The ssh command is not installed on this machine."),
                hint=text("Install it, for example: sudo apt-get install openssh-client"),
            )

    def options(self) -> list[str]:
        """Return the options of ssh."""
        chosen = ["-F", self.config] if self.config else []
        return [*chosen, *(["-p", str(self.port)] if self.port else [])]

    def command(self, remote: str) -> str:
        """Return a command that a person can copy."""
        words = ["ssh", *self.options(), "-t", self.destination, remote]
        return shlex.join(words)


class SshTunnel:
    """One connection; a new one is made for each attempt."""

    def __init__(self, target: SshTarget, *, quiet: bool = False) -> None:
        """Connect. Unreachable if that fails. `quiet`: ssh does not print why."""
        self._target = target
        self._folder = tempfile.mkdtemp(prefix="ownlab-ssh-")  # mode 0700; short, since the path of a socket is limited
        self._socket = os.path.join(self._folder, "s")
        options = ["ControlMaster=yes", "ControlPersist=no", f"ServerAliveInterval={_ALIVE_SECONDS}"]
        options += ["ServerAliveCountMax=3", f"ConnectTimeout={_CONNECT_SECONDS}", "ClearAllForwardings=yes"]
        command = [*self._ssh(*options), "-T", "--", target.destination, f"echo {_READY}; exec cat >/dev/null"]
        self._master = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
        )
        if not self._is_ready():
            self.close()
            raise Unreachable(
                text("{destination} cannot be reached over ssh.", destination=target.destination),
                hint=text("Try it alone: {command}", command=target.command("true")),
            )

    def _is_ready(self) -> bool:
        assert self._master.stdout is not None
        # What a shell prints at its start comes first.
        return any(line.strip() == _READY for line in self._master.stdout)

    def run(self, script: str) -> tuple[int, str, str]:
        """Run a command in a login shell there, so that it has the user's PATH; return exit code, stdout and stderr."""
        remote = f"exec sh -lc {shlex.quote(f'echo {_BEGIN}; {script}')}"
        command = [*self._ssh("ControlMaster=no"), "-T", "--", self._target.destination, remote]
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise DeadlineError(
                text("{destination} did not answer in time.", destination=self._target.destination)
            ) from exc
        if ran.returncode == 255 or _BEGIN not in ran.stdout:
            raise ConnectionLost(
                text("The connection to {destination} was lost.", destination=self._target.destination)
            )
        return ran.returncode, ran.stdout.partition(f"{_BEGIN}\n")[2], ran.stderr

    def forward(self, local: int, remote: int) -> bool:
        """Let a port of this machine's 127.0.0.1 lead to one of the other's; whether that was possible."""
        where = f"127.0.0.1:{local}:127.0.0.1:{remote}"
        command = [*self._ssh(), "-O", "forward", "-L", where, "--", self._target.destination]
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_SECONDS, check=False
        )
        return ran.returncode == 0

    def wait(self) -> None:
        """Wait until the connection is lost."""
        self._master.wait()

    def close(self) -> None:
        """End the connection."""
        assert self._master.stdin is not None
        assert self._master.stdout is not None
        self._master.terminate()
        try:
            self._master.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._master.kill()
            self._master.wait()
        self._master.stdin.close()
        self._master.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> SshTunnel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ssh(self, *options: str) -> Sequence[str]:
        named = [word for option in options for word in ("-o", option)]
        return ["ssh", *self._target.options(), "-o", f"ControlPath={self._socket}", *named]
