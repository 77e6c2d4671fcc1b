"""Lock files: a runtime lives as long as its lock file is locked, whatever the database says.

They are flock locks, which belong to the open file: keeper, supervisor and kernel share one by inheriting the
descriptor, and the operating system releases it when the last of them exits, for whatever reason.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ownlab.errors import StoreError
from ownlab.file_lock import try_lock
from ownlab.text import text

__all__ = ["LockHeld", "hold", "if_unheld", "is_held", "owner", "remove"]

_HOLD_SECONDS = 10.0
# Not readable for us; a link; a socket.
_CANNOT_BE_TOLD = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO)


class LockHeld(StoreError):
    """Another process has the lock of this runtime."""


def hold(path: str, mode: int) -> int:
    """Lock the file, creating it if necessary. The descriptor is inheritable; closing it releases the lock."""
    deadline = time.monotonic() + _HOLD_SECONDS
    while True:
        descriptor = _open_own(path, mode)
        try:
            locked = try_lock(descriptor)
            # A clean-up may have removed the file between opening and locking it: then it is not the lock.
            if locked and _same_file(descriptor, path):
                os.set_inheritable(descriptor, True)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not locked and time.monotonic() > deadline:  # before that, somebody may test it for a moment
            raise _already_there(os.path.basename(path).removesuffix(".lock"))
        time.sleep(0.005)


def _already_there(runtime: str) -> LockHeld:
    return LockHeld(
        text(
            "Runtime {runtime} exists already: its lock has been held for {seconds:.0f} s.",
            runtime=runtime,
            seconds=_HOLD_SECONDS,
        ),
        hint=text("Stop it first: ownlab runtimes stop."),
    )


def is_held(path: str) -> bool:
    """Whether any process holds the lock."""
    with if_unheld(path) as unheld:
        return not unheld


@contextmanager
def if_unheld(path: str) -> Iterator[bool]:
    """Yield True if nobody holds the lock. Nobody can take it inside the block, unless the file does not exist."""
    try:
        # In a shared store anybody can put anything here: opening a pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        yield True
        return
    except OSError as exc:
        if exc.errno not in _CANNOT_BE_TOLD:
            raise
        yield False  # never free a card on a guess
        return
    try:
        yield try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def owner(path: str) -> int | None:
    """Return the owner of the lock file. Unlike a row, it cannot be forged."""
    try:
        return os.lstat(path).st_uid
    except FileNotFoundError:
        return None


def remove(path: str) -> None:
    """Remove a lock file if this user may: in a shared store, another user's stays until its owner removes it."""
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
        os.fchmod(descriptor, mode)  # independent of the umask
    return descriptor


def _same_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
