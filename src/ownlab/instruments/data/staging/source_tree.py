"""What is to be copied: the files below a folder, with sizes and dates."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from ownlab.errors import InputError
from ownlab.text import text

__all__ = ["SourceFile", "list_source"]


class SourceFile(NamedTuple):
    """One file, by its path below the source; "" for a source that is a file itself."""

    path: str
    size: int
    mtime_ns: int


def list_source(source: str) -> list[SourceFile]:
    """Return all files, sorted. Links are followed; devices and sockets are left out. Raises InputError."""
    try:
        status = os.stat(source)
        if stat.S_ISREG(status.st_mode):
            return [SourceFile("", status.st_size, status.st_mtime_ns)]
        if not stat.S_ISDIR(status.st_mode):
            raise InputError(text("{path} is neither a file nor a folder.", path=source))
        return sorted(_below(source, "", frozenset()))
    except OSError as exc:
        raise InputError(
            text("Cannot read {path}: {reason}.", path=exc.filename or source, reason=exc.strerror or exc)
        ) from exc


def _below(folder: str, prefix: str, above: frozenset[tuple[int, int]]) -> Iterator[SourceFile]:
    own = os.stat(folder)
    identity = (own.st_dev, own.st_ino)
    if identity in above:  # a link to a folder above it
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                status = entry.stat()
            except FileNotFoundError:  # a link to nothing, or deleted in between
                continue
            if stat.S_ISREG(status.st_mode):
                yield SourceFile(prefix + entry.name, status.st_size, status.st_mtime_ns)
            elif stat.S_ISDIR(status.st_mode):
                yield from _below(entry.path, f"{prefix}{entry.name}/", above | {identity})
