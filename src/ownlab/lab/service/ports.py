"""The port of a lab, and which program uses a port."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import socket
from pathlib import Path

from ownlab.errors import LabError
from ownlab.text import text

__all__ = ["HOST", "choose_port", "is_free", "who_listens"]

HOST = "127.0.0.1"
_LISTENS = "0A"  # the state of a socket in /proc/net/tcp


def choose_port(asked: int, remembered: int | None, address: str = HOST) -> int:
    """Return the requested port (0: any), the last one if it is free, or any free one."""
    if asked:
        if not is_free(asked, address):
            who = who_listens(asked)
            user = who or text("another program")
            raise LabError(
                text("Port {port} is in use by {program}.", port=asked, program=user),
                hint=text("Choose another port with --port. Without --port a free one is used."),
            )
        return asked
    if remembered and is_free(remembered, address):
        return remembered
    with socket.socket(_family(address)) as trial:
        trial.bind((address, 0))
        port: int = trial.getsockname()[1]
        return port


def is_free(port: int, address: str = HOST) -> bool:
    """Whether a server could listen on a port now."""
    with socket.socket(_family(address)) as trial:
        # As the server does: otherwise closing connections of the last server would count as in use.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
        except PermissionError as exc:
            raise LabError(
                text("You are not allowed to use port {port}: {reason}.", port=port, reason=exc.strerror),
                hint=text("Ports below 1024 are reserved for the administrator."),
            ) from exc
        except OSError:
            return False
    return True


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def who_listens(port: int) -> str | None:
    """Name the program that listens on a port; None if unknown (proc(5): /proc/net/tcp)."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):  # another system, or no IPv6
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[1].endswith(f":{port:04X}") and words[3] == _LISTENS:
                    return _program(words[9]) or text("a program of {user}", user=_user_name(int(words[7])))
    return None


def _program(socket_number: str) -> str | None:
    """Name the process that has a socket open. Processes of other users are not visible."""
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it ended, or belongs to another user
            if os.readlink(link) == f"socket:[{socket_number}]":
                pid = link.split("/")[2]
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                return text("{name} (pid {pid})", name=name, pid=pid)
    return None


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return text("user {uid}", uid=uid)
