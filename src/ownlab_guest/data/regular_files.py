"""Opens data only if they are a regular file: a pipe would wait for its writer, and a device such as /dev/zero has no end."""

import errno
import os
import stat

from ownlab_guest.data.errors import DataError
from ownlab_guest.text import text

_MODE = os.O_RDONLY | os.O_CLOEXEC


def check_regular(path: str) -> None:
    """Raise DataError for what is no regular file, without opening it; OSError if there is nothing."""
    _check_kind(path, os.stat(path).st_mode)


def open_regular(path: str, flags: int = _MODE) -> int:
    """Open a file to read it, also as `opener` of open(). Raises DataError for what is no regular file, and OSError."""
    flags |= os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK)
    except OSError as exc:
        if exc.errno not in (errno.ENXIO, errno.EAGAIN):
            raise
        check_regular(path)  # a socket; EAGAIN: a file that another program has leased, as Samba does
        descriptor = os.open(path, flags)
    try:
        _check_kind(path, os.fstat(descriptor).st_mode)  # O_NONBLOCK means nothing for a regular file
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(path: str, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise DataError(text("{path} is a folder, not a file.", path=path))
    if stat.S_ISFIFO(mode):
        raise DataError(
            text("{path} is a pipe, not a file.", path=path),
            hint=text("Data are read more than once: save them in a file first."),
        )
    if stat.S_ISSOCK(mode):
        raise DataError(text("{path} is a socket, not a file.", path=path))
    raise DataError(text("{path} is a device, not a file.", path=path))
