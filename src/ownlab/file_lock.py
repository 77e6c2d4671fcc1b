"""The one file lock: flock(2) on an open file. It belongs to the open file and is released when that is closed, or by the death of
its process. Standard library only: supervisors import it."""

from __future__ import annotations

import fcntl
import time

from ownlab.errors import OwnlabError

__all__ = ["LOCK_SECONDS", "try_lock", "wait_for_lock"]

LOCK_SECONDS = 10.0  # longer than any writer needs, even on a busy machine


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file (or folder) at once; False when another open file holds the lock."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(descriptor: int, error: OwnlabError, seconds: float = LOCK_SECONDS) -> None:
    """Lock an open file, and wait for it where another process holds it; raise `error` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not try_lock(descriptor):
        if time.monotonic() > deadline:
            raise error
        time.sleep(0.01)
