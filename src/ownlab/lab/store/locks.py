"""Lock files: a runtime lives as long as somebody holds its lock, whatever the database says.

They are flock locks: they belong to the open file, so that keeper, supervisor and kernel hold one together by
inheriting the descriptor, and the operating system lets go of it when the last of them is gone, however it went.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ownlab.errors import StoreError

__all__ = ["hold", "if_unheld", "is_held", "owner", "remove"]

_HOLD_SECONDS = 10.0
# Not ours to read; a link; a socket.
_CANNOT_BE_TOLD = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO)


def hold(path: str, mode: int) -> int:
    """Take the lock, making its file where there is none. The descriptor is inheritable; closing it lets go."""
    deadline = time.monotonic() + _HOLD_SECONDS
    while True:
        descriptor = _open_own(path, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever cleans up may have removed the file between our opening and our locking: then it is not the lock.
            if _same_file(descriptor, path):
                os.set_inheritable(descriptor, True)
                return descriptor
        except BlockingIOError as exc:  # an asker has it for a moment, or the runtime is alive
            if time.monotonic() > deadline:
                name = os.path.basename(path).removesuffix(".lock")
                raise StoreError(
                    f"Runtime {name} is there already: its lock has been held for {_HOLD_SECONDS:.0f} s.",
                    hint="End it first: ownlab runtimes stop.",
                ) from exc
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        time.sleep(0.005)


def is_held(path: str) -> bool:
    """Whether anybody holds it."""
    with if_unheld(path) as unheld:
        return not unheld


@contextmanager
def if_unheld(path: str) -> Iterator[bool]:
    """True where nobody holds it; and nobody can take it before the block is left (but by making a missing file)."""
    try:
        # In a shared store anybody can put anything here: opening a pipe would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        yield True
        return
    except OSError as exc:
        if exc.errno not in _CANNOT_BE_TOLD:
            raise
        yield False  # a card must never be given away on a guess
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def owner(path: str) -> int | None:
    """Who made the lock file: unlike a row, nobody can write this in another's name."""
    try:
        return os.lstat(path).st_uid
    except FileNotFoundError:
        return None


def remove(path: str) -> None:
    """Remove a lock file, where this user may: in a shared store another's stays until its owner sweeps."""
    with suppress(FileNotFoundError, PermissionError, IsADirectoryError):
        os.unlink(path)


def _open_own(path: str, mode: int) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)
    except FileExistsError:
        try:
            descriptor = os.open(path, os.O_RDWR | flags)
        except FileNotFoundError:
            return _open_own(path, mode)
    else:
        os.fchmod(descriptor, mode)  # whatever the umask
    return descriptor


def _same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
