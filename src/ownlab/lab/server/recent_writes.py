"""Files that the scribe wrote while pages had them open.

JupyterLab compares a file's hash, or its time, with what it was told when it opened the file, and asks the person what to
do where they differ. What the scribe added comes to the page from the kernel as well: there is nothing to ask. So as long
as a file is just what the scribe wrote, pages are told the hash and the time that it had before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ownlab.files import replace_file

__all__ = ["Version", "Written"]


class Version(NamedTuple):
    """A version of a file as pages know it."""

    modified: float
    algorithm: str
    hash: str


class _Entry(NamedTuple):
    stamp: tuple[int, int]  # of the file that the scribe wrote
    known: Version


class Written:
    """All such files of a lab; kept on disk, for the pages outlive the server."""

    def __init__(self, file: str) -> None:
        self._file = file  # "": not kept
        self._entries = _read(file)
        self._coming: dict[str, Version] = {}

    def known(self, path: str) -> Version | None:
        """What pages know of a file; None where that is just what it is."""
        if path in self._coming:
            return self._coming[path]
        entry = self._entries.get(path)
        return entry.known if entry is not None and entry.stamp == stamp(path) else None

    @contextmanager
    def writing(self, path: str, before: Version) -> Iterator[None]:
        """Around the scribe's writing of a file: `before` is what pages know, and what those are told that ask meanwhile."""
        self._coming[path] = before
        try:
            yield
            written = stamp(path)
            if written is not None:
                self._entries[path] = _Entry(written, before)
                self._write()
        finally:
            del self._coming[path]

    def forget(self, path: str) -> None:
        """Somebody else has written the file, or it is gone; or all in a folder."""
        gone = [name for name in self._entries if _is_below(name, path)]
        for name in gone:
            del self._entries[name]
        if gone:
            self._write()

    def rename(self, old: str, new: str) -> None:
        """A file has another name now, or a folder."""
        moved = {name: entry for name, entry in self._entries.items() if _is_below(name, old)}
        if moved:
            self.forget(old)
            self._entries.update({new + name[len(old) :]: entry for name, entry in moved.items()})
            self._write()

    def _write(self) -> None:
        # Files that were changed since are of no interest any more.
        self._entries = {name: one for name, one in self._entries.items() if stamp(name) == one.stamp}
        if not self._file:
            return
        with suppress(OSError):  # a full disk: at worst a page asks, after the next start of the server
            replace_file(self._file, json.dumps({name: [one.stamp, one.known] for name, one in self._entries.items()}))


def stamp(path: str) -> tuple[int, int] | None:
    """Differs when the file was written; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _read(file: str) -> dict[str, _Entry]:
    try:
        with open(file, encoding="utf-8") as opened:
            given = json.load(opened)
        return {name: _Entry((mark[0], mark[1]), Version(*known)) for name, (mark, known) in given.items()}
    except (OSError, ValueError, TypeError, AttributeError, IndexError):
        return {}  # none yet, or damaged: at worst a page asks
