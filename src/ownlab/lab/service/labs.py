"""The record and the locks of a lab: a lab is a folder that is served. The command line reads it without Jupyter.

In <state>/labs (0700), named after the folder's id: ID.json, the record (it stays when the lab is down, so that the next
`ownlab up` takes the same port and token, and pages that are still open find their server again); ID.lock, held by the
server for its life; ID.watchdog.lock, held by the watchdog for its life; both with the pid and the host of their holder,
for a home may be shared by several hosts; ID.log, what the server said.
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

from ownlab.config.paths import state_folder
from ownlab.errors import LabError
from ownlab.file_lock import try_lock
from ownlab.files import replace_file
from ownlab.json_encoding import encode_json

__all__ = [
    "Holder",
    "Lab",
    "LabLock",
    "Role",
    "holder",
    "is_up",
    "lab_id",
    "labs",
    "labs_folder",
    "log_file",
    "read_lab",
    "take",
    "write_lab",
]

# Who holds a lock: the server, or the watchdog that starts it again.
Role = Literal["server", "watchdog"]

# Looking whether a lock is held takes it for a moment; who wants it for good tries again for so long.
_PATIENCE = 0.5


class Holder(NamedTuple):
    """The process that holds a lock."""

    pid: int
    host: str

    @property
    def here(self) -> bool:
        """Whether its pid means anything on this host."""
        return self.host == socket.gethostname() and self.pid > 0


class Lab(Struct, frozen=True):
    """A lab as it was last: whether it is up now, `is_up` says."""

    id: str
    folder: str
    url: str  # http://127.0.0.1:40001/, with the base path; without the token
    token: str
    port: int
    pid: int  # of the server
    started: float  # seconds since the epoch
    state: Literal["starting", "ready", "down"] = "starting"

    def address(self, page: str = "lab") -> str:
        """What a browser is given."""
        return f"{self.url}{page}?token={self.token}"


class LabLock:
    """A lock that is held until `release`, or until the process ends in any way."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give it up. A second call does nothing."""
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
        """The descriptor, for a child (`pass_fds`) that goes on holding the lock after us."""
        assert self._descriptor is not None, "a lock that was given up cannot be passed on"
        return self._descriptor

    def sign(self) -> None:
        """Write down that this process holds it."""
        descriptor = self.inherit()
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)


def lab_id(folder: str | Path) -> str:
    """The same for every path that leads to a folder."""
    return hashlib.sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:12]


def labs_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the records are; made where it is missing."""
    folder = state_folder(environ) / "labs"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise LabError(
            f"the folder for the labs' records cannot be made: {exc}",
            hint="Set OWNLAB_HOME to a folder that you may write.",
        ) from exc
    return folder


def log_file(folder: str | Path, environ: Mapping[str, str] = os.environ) -> Path:
    """What the server of a folder says goes here."""
    return labs_folder(environ) / f"{lab_id(folder)}.log"


def take(folder: str | Path, role: Role = "server", *, environ: Mapping[str, str] = os.environ) -> LabLock | None:
    """The lock of a folder's server or watchdog, signed by us; None where another process holds it."""
    path = _lock_file(lab_id(folder), role, environ)
    deadline = time.monotonic() + _PATIENCE
    try:
        lock = LabLock(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        while not try_lock(lock.inherit()):
            if time.monotonic() > deadline:
                lock.release()
                return None
            time.sleep(0.01)
        lock.sign()
    except OSError as exc:
        raise LabError(f"the lock of the lab cannot be taken: {exc}") from exc
    return lock


def holder(folder: str | Path, role: Role = "server", *, environ: Mapping[str, str] = os.environ) -> Holder | None:
    """Who holds a lock now; None where nobody does."""
    return _holder(_lock_file(lab_id(folder), role, environ))


def is_up(lab: Lab, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a server serves it now."""
    return _holder(_lock_file(lab.id, "server", environ)) is not None


def write_lab(lab: Lab, *, environ: Mapping[str, str] = os.environ) -> None:
    """Replace the record of a lab. It holds the token: only its owner may read it."""
    try:
        replace_file(str(labs_folder(environ) / f"{lab.id}.json"), encode_json(lab).decode())
    except OSError as exc:
        raise LabError(f"the record of the lab cannot be written: {exc}") from exc


def read_lab(folder: str | Path, *, environ: Mapping[str, str] = os.environ) -> Lab | None:
    """The lab of a folder as it was last; None where there never was one, or its record is damaged."""
    return _read(labs_folder(environ) / f"{lab_id(folder)}.json")


def labs(environ: Mapping[str, str] = os.environ) -> tuple[Lab, ...]:
    """Every lab of this user that there ever was, the latest first."""
    found = [lab for path in labs_folder(environ).glob("*.json") if (lab := _read(path)) is not None]
    return tuple(sorted(found, key=lambda lab: lab.started, reverse=True))


def _read(path: Path) -> Lab | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Lab)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError):
        # Nothing depends on it but the memory of a port and a token: a damaged one is as good as none.
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
    """What `sign` wrote; pid 0 in the moment before it has."""
    if len(words) == 2 and words[0].isdigit():
        return Holder(int(words[0]), words[1])
    return Holder(0, socket.gethostname())
