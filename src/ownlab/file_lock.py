"""One writer at a time: each reads what there is in a file, and writes it back changed. Standard library only."""

from __future__ import annotations

import fcntl
import time

from ownlab.errors import LabError

__all__ = ["take_turn"]

_SECONDS = 10.0


def take_turn(descriptor: int, otherwise: str) -> None:
    """Wait until the lock on an open file is ours; closing it lets go. LabError with these words where it takes too long."""
    end = time.monotonic() + _SECONDS
    while not _taken(descriptor):
        if time.monotonic() > end:
            raise LabError(f"{otherwise} for {_SECONDS:g} s")
        time.sleep(0.02)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
