"""Recent writes of autosave to files that pages have open.

JupyterLab compares the hash or the timestamp of a file with those from when it opened the file, and asks the user what
to do if they differ. The page receives the outputs that autosave wrote from the kernel as well, so there is nothing to
ask. Therefore, as long as a file is exactly what autosave wrote, pages get the hash and the timestamp it had before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ownlab.atomic_files import replace_file
from ownlab.lab.notebooks.files import FileChangedError
from ownlab.text import text

__all__ = ["GuardedWrite", "RecentWrites", "Version", "stamp"]


class Version(NamedTuple):
    """Timestamp and hash of a file as pages know them."""

    modified: float
    algorithm: str
    hash: str


class _Entry(NamedTuple):
    stamp: tuple[int, int]  # of the file that autosave wrote
    published: Version


class RecentWrites:
    """All such files of a lab. They are kept on disk, because pages outlive the server."""

    def __init__(self, file: str) -> None:
        self._file = file  # "": in memory only
        self._entries = _read(file)
        self._in_progress: dict[str, Version] = {}

    def published_version(self, path: str) -> Version | None:
        """Return the version that pages know, if it differs from the file's own."""
        if path in self._in_progress:
            return self._in_progress[path]
        entry = self._entries.get(path)
        return entry.published if entry is not None and entry.stamp == stamp(path) else None

    @contextmanager
    def record_write(self, path: str, before: Version) -> Iterator[None]:
        """Record a write of autosave. `before` is the version that pages know, and get during the write."""
        self._in_progress[path] = before
        try:
            yield
            written = stamp(path)
            if written is not None:
                self._entries[path] = _Entry(written, before)
                self._write()
        finally:
            del self._in_progress[path]

    def forget(self, path: str) -> None:
        """Forget a file, or all files in a folder: it was written by somebody else, or deleted."""
        gone = [name for name in self._entries if _is_below(name, path)]
        for name in gone:
            del self._entries[name]
        if gone:
            self._write()

    def rename(self, old: str, new: str) -> None:
        """Follow the rename of a file or folder."""
        moved = {name: entry for name, entry in self._entries.items() if _is_below(name, old)}
        if moved:
            self.forget(old)
            self._entries.update({new + name[len(old) :]: entry for name, entry in moved.items()})
            self._write()

    def _write(self) -> None:
        # Drop files that have changed since.
        self._entries = {name: entry for name, entry in self._entries.items() if stamp(name) == entry.stamp}
        if not self._file:
            return
        with suppress(OSError):  # disk full: at worst JupyterLab asks, after the next start of the server
            content = {name: [entry.stamp, entry.published] for name, entry in self._entries.items()}
            replace_file(self._file, json.dumps(content))


class GuardedWrite:
    """A write that must not replace what another program has written meanwhile."""

    def __init__(self, path: str, expected: tuple[int, int] | None) -> None:
        """`expected`: the stamp of the file that was read."""
        self._path, self._expected = path, expected
        self.written: tuple[int, int] | None = None  # the stamp of the new file, whatever happens to it afterwards

    def check(self, new: str) -> None:
        """Called when the new file is about to replace the old one. FileChangedError if another program was faster."""
        if stamp(self._path) != self._expected:
            raise FileChangedError(text("Another program has changed {path}.", path=self._path))
        self.written = stamp(new)


def stamp(path: str) -> tuple[int, int] | None:
    """Return a value that changes when the file is written; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


def _read(file: str) -> dict[str, _Entry]:
    try:
        with open(file, encoding="utf-8") as opened:
            entries = json.load(opened)
            return {
                name: _Entry((mark[0], mark[1]), Version(*published)) for name, (mark, published) in entries.items()
            }
    except (OSError, ValueError, TypeError, AttributeError, IndexError):
        return {}  # none yet, or damaged: at worst JupyterLab asks
