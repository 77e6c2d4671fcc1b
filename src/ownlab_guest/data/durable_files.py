"""Files that survive a power cut: on the disk before they get their names, and their names too."""

import os
from typing import IO


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


def replace(path: str, content: bytes) -> None:
    """Replace a file as a whole: after any interruption there is the old one or the new one."""
    new = path + ".part"
    with open(new, "wb") as file:
        file.write(content)
        sync(file)
    os.replace(new, path)
    sync_folder(os.path.dirname(path) or ".")
