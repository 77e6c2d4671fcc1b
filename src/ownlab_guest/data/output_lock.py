"""The lock of a folder that something is packed into."""

import fcntl
import os
import time

from ownlab_guest.data.errors import DataError
from ownlab_guest.text import text

# If `ownlab data pack` was killed, the process that it had started notices it a moment later, and ends.
_SECONDS, _POLL_SECONDS = 5.0, 0.05


def lock_output(out: str, path: str) -> int:
    """Lock the file at `path`; return it, open. Raises DataError if another process keeps the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + _SECONDS
    while not _try_lock(file):
        if time.monotonic() > deadline:
            os.close(file)
            raise DataError(text("Another process is packing into {out}.", out=out))
        time.sleep(_POLL_SECONDS)
    return file


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
