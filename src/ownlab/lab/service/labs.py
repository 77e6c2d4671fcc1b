"""The record and the locks of a lab. A lab is a folder that is served. The command line reads it without Jupyter.

Files in <state>/labs (mode 0700), named after the id of the folder:
ID.json           the record; it remains when the lab is down, so that the next `ownlab up` uses the same port and token and
                  open pages find their server again
ID.lock           held by the server while it lives
ID.watchdog.lock  held by the watchdog while it lives; both contain the pid and the host of the lock_holder, since several hosts
                  may share a home
ID.log            the server's log
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from ownlab.atomic_files import replace_file
from ownlab.config.paths import state_folder
from ownlab.errors import LabError
from ownlab.file_lock import try_lock
from ownlab.json_encoding import encode_json
from ownlab.text import text

__all__ = [
    "ROLES",
    "Holder",
    "Lab",
    "LabLock",
    "NetworkHost",
    "Role",
    "is_served",
    "is_up",
    "lab_id",
    "labs",
    "labs_folder",
    "lock_holder",
    "log_file",
    "read_lab",
    "take_lock",
    "write_lab",
]

# Who holds a lock: the server, or the watchdog that starts it again.
Role = Literal["server", "watchdog"]
ROLES: tuple[Role, ...] = ("watchdog", "server")

# Testing a lock takes it for a moment, so a process that wants to keep it retries for this long.
_RETRY_SECONDS = 0.5


class Holder(NamedTuple):
    """The process that holds a lock."""

    pid: int
    host: str

    @property
    def here(self) -> bool:
        """Whether its pid means anything on this host."""
        return self.host == socket.gethostname() and self.pid > 0


class NetworkHost(NamedTuple):
    """Where a lab listens for other computers (network_host.py)."""

    name: str  # as it stands in addresses
    address: str  # of this machine
    certificate: str  # PEM files
    key: str

    def url(self, port: int, base: str = "/") -> str:
        """Return the address of the lab, without the token."""
        host = f"[{self.name}]" if ":" in self.name else self.name
        return f"https://{host}:{port}{base}"


class Lab(Struct, frozen=True):
    """The last known state of a lab; `is_up` checks whether it runs now."""

    id: str
    folder: str
    url: str  # http://127.0.0.1:40001/, with the base path; without the token
    token: str
    port: int
    pid: int  # of the server
    started: float  # seconds since the epoch
    state: Literal["starting", "ready", "down"] = "starting"
    # Of a lab for other computers (`ownlab up --host`):
    listens_on: str = ""  # the address; "": 127.0.0.1
    certificate: str = ""  # its file

    def address(self, page: str = "lab") -> str:
        """Return the address for a browser, with the token."""
        return f"{self.url}{page}?token={self.token}"


class LabLock:
    """A lock that is held until `release` or the end of the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> LabLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def inherit(self) -> int:
        """Return the descriptor, for a child (`pass_fds`) that keeps the lock."""
        assert self._descriptor is not None, "a released lock cannot be inherited"
        return self._descriptor

    def sign(self) -> None:
        """Record this process as the holder."""
        descriptor = self.inherit()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)


def lab_id(folder: str | Path) -> str:
    """Return the id of a folder, the same for every path to it."""
    return hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:12]


def labs_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the records; create it if necessary."""
    folder = state_folder(environ) / "labs"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise LabError(
            text("Cannot create the folder for the records of labs: {reason}.", reason=exc),
            hint=text("Set OWNLAB_HOME to a folder that you can write."),
        ) from exc
    return folder


def log_file(folder: str | Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the log file of a folder's server."""
    return labs_folder(environ) / f"{lab_id(folder)}.log"


def take_lock(folder: str | Path, role: Role = "server", *, environ: Mapping[str, str] = os.environ) -> LabLock | None:
    """Take the lock of a folder's server or watchdog; None if another process holds it."""
    path = _lock_file(lab_id(folder), role, environ)
    deadline = time.monotonic() + _RETRY_SECONDS
    try:
        lock = LabLock(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        while not try_lock(lock.inherit()):
            if time.monotonic() > deadline:
                lock.release()
                return None
            time.sleep(0.01)
        lock.sign()
    except OSError as exc:
        raise LabError(text("Cannot take the lock of the lab: {reason}.", reason=exc)) from exc
    return lock


def lock_holder(folder: str | Path, role: Role = "server", *, environ: Mapping[str, str] = os.environ) -> Holder | None:
    """Return the holder of a lock; None if nobody holds it."""
    return _holder(_lock_file(lab_id(folder), role, environ))


def is_served(folder: str | Path, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a folder has a server, or a watchdog that starts one."""
    return any(lock_holder(folder, role, environ=environ) is not None for role in ROLES)


def is_up(lab: Lab, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a server is running for it."""
    return _holder(_lock_file(lab.id, "server", environ)) is not None


def write_lab(lab: Lab, *, environ: Mapping[str, str] = os.environ) -> None:
    """Replace the record of a lab. It contains the token, so only its owner may read it."""
    try:
        replace_file(str(labs_folder(environ) / f"{lab.id}.json"), encode_json(lab).decode())
    except OSError as exc:
        raise LabError(text("Cannot write the record of the lab: {reason}.", reason=exc)) from exc


def read_lab(folder: str | Path, *, environ: Mapping[str, str] = os.environ) -> Lab | None:
    """Return the last known state of a folder's lab; None if there was none, or its record is damaged."""
    return _read(labs_folder(environ) / f"{lab_id(folder)}.json")


def labs(environ: Mapping[str, str] = os.environ) -> tuple[Lab, ...]:
    """Return every recorded lab of this user, the latest first."""
    known = [lab for path in labs_folder(environ).glob("*.json") if (lab := _read(path)) is not None]
    return tuple(sorted(known, key=lambda lab: lab.started, reverse=True))


def _read(path: Path) -> Lab | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Lab)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        # It only holds a port and a token: a damaged record is treated as missing.
        return None


def _lock_file(identity: str, role: Role, environ: Mapping[str, str]) -> Path:
    return labs_folder(environ) / (f"{identity}.lock" if role == "server" else f"{identity}.{role}.lock")


def _holder(path: Path) -> Holder | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if try_lock(descriptor, shared=True):
            return None
        return _signature(os.pread(descriptor, 300, 0).decode(errors="replace").split())
    finally:
        os.close(descriptor)


def _signature(words: list[str]) -> Holder:
    """Parse what `sign` wrote; pid 0 before it has."""
    if len(words) == 2 and words[0].isdigit():
        return Holder(int(words[0]), words[1])
    return Holder(0, socket.gethostname())
