"""Files that are replaced as a whole: after any interruption there is the old one or the new one, never a part."""

import os
from typing import IO, Union

__all__ = ["replace_durably", "replace_file", "sync", "sync_folder"]


def replace_file(path: str, content: Union[bytes, str]) -> None:
    """Replace a file, which several processes may do at once. Raises OSError; then the old file is still there."""
    new = "%s.%d.part" % (path, os.getpid())
    try:
        with open(new, "wb") as file:
            file.write(_encoded(content))
        os.replace(new, path)
    except BaseException:
        if os.path.exists(new):
            os.unlink(new)
        raise


def replace_durably(path: str, content: bytes) -> None:
    """Replace a file that one process writes, so that the new one survives a power cut. What an interruption leaves has the
    same name each time (`PATH.part`): the next attempt replaces it."""
    new = path + ".part"
    with open(new, "wb") as file:
        file.write(content)
        sync(file)
    os.replace(new, path)
    sync_folder(os.path.dirname(path) or ".")


def sync(file: "IO[bytes]") -> None:
    """Write what is buffered, and wait for the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _encoded(content: Union[bytes, str]) -> bytes:
    """Names of files may be no UTF-8: Python keeps such bytes as lone surrogates, which become "?"."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "replace")
