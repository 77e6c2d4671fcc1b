"""Which port a lab gets, and who has it where it is taken."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import socket
from pathlib import Path

from ownlab.errors import LabError

__all__ = ["HOST", "choose_port", "is_free", "who_listens"]

HOST = "127.0.0.1"
_LISTENS = "0A"  # the state of a socket in /proc/net/tcp


def choose_port(asked: int, remembered: int | None) -> int:
    """The port that was asked for (0: any), else the one of last time where it is free, else a free one."""
    if asked:
        if not is_free(asked):
            who = who_listens(asked)
            raise LabError(
                f"port {asked} is in use" + (f" by {who}" if who else " by another program"),
                hint="Give another one with --port, or none: then a free one is taken.",
            )
        return asked
    if remembered and is_free(remembered):
        return remembered
    with socket.socket() as trial:
        trial.bind((HOST, 0))
        port: int = trial.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as trial:
        # As the server does: without it, connections of the last server that are still winding down count as taken.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((HOST, port))
        except PermissionError as exc:
            raise LabError(
                f"port {port} may not be used by you: {exc.strerror}", hint="Ports below 1024 are the administrator's."
            ) from exc
        except OSError:
            return False
    return True


def who_listens(port: int) -> str | None:
    """The program that listens there, in words; None where the system does not tell (proc(5): /proc/net/tcp)."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):  # another system, or no IPv6
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[1].endswith(f":{port:04X}") and words[3] == _LISTENS:
                    return _program(words[9]) or f"a program of {_name(int(words[7]))}"
    return None


def _program(socket_number: str) -> str | None:
    """Whose open file this is. Those of other people cannot be seen."""
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it ended, or it is not ours
            if os.readlink(link) == f"socket:[{socket_number}]":
                pid = link.split("/")[2]
                return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (pid {pid})"
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
