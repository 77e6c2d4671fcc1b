"""What has been unpacked of an archive: one line per finished file, so that a repeated command skips it.

It lies in `.ownlab-data/unpacked` below the folder. Its lock keeps two processes from unpacking the same archive at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.errors import InputError
from ownlab.file_lock import try_lock
from ownlab.instruments.data.download.manifest import boot_id
from ownlab.instruments.data.download.names import RESERVED
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import text

__all__ = ["EARLIER", "FINISHED", "ArchiveIdentity", "Journal", "Unpacked"]

FINISHED, EARLIER = -1, -2
_LINES = 128  # are written together
_SECONDS = 0.2


class ArchiveIdentity(Struct, frozen=True):
    """The first line: which archive, and in which boot of the machine it was unpacked."""

    archive: str
    size: int
    mtime_ns: int
    boot: str
    format: int = 1


class Unpacked(Struct, frozen=True, array_like=True):
    """One finished file, as it was left."""

    number: int  # of the member; FINISHED: the whole archive, `size` files; EARLIER: of another archive, or not certain any more
    path: str
    size: int
    mtime_ns: int


class Journal:
    """The open journal. `done` has the finished files by path; `is_complete` says that an earlier run finished them all."""

    def __init__(self, folder: Path, archive: Path, size: int, mtime_ns: int) -> None:
        """Open and lock it. Raises InputError if another process has it, and OSError."""
        private = folder / RESERVED / "unpacked"
        os.makedirs(private, exist_ok=True)
        stem = hashlib.sha256(str(archive).encode(errors="surrogateescape")).hexdigest()[:24]
        self.temporary = private / f"{stem}.tmp"
        self._descriptor = os.open(
            private / f"{stem}.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644
        )
        if not try_lock(self._descriptor):
            os.close(self._descriptor)
            raise InputError(
                text("Another process is unpacking {archive} into this folder.", archive=archive.name),
                hint=text("Wait for it, or choose another folder with -o."),
            )
        shown = str(archive).encode(errors="backslashreplace").decode()
        self._identity = ArchiveIdentity(shown, size, mtime_ns, boot_id())
        self.done: dict[str, Unpacked] = {}
        self.is_complete = False
        self.is_same_archive = False
        self._lines: list[bytes] = []
        self._next_write = time.monotonic() + _SECONDS
        self._read()

    def _read(self) -> None:
        with open(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            content = file.read()
        lines = content[: content.rfind(b"\n") + 1].splitlines()
        os.ftruncate(self._descriptor, content.rfind(b"\n") + 1)  # half a line of a killed process
        identity = None
        with contextlib.suppress(msgspec.DecodeError, IndexError):
            identity = decode_json(lines[0], ArchiveIdentity)
        if identity is None:
            os.ftruncate(self._descriptor, 0)
            self._append(encode_json(self._identity) + b"\n")
            return
        same = msgspec.structs.replace(identity, boot="") == msgspec.structs.replace(self._identity, boot="")
        # In a later boot all is read again: a power cut may have kept these lines and lost the files.
        self.is_same_archive = same and identity.boot == self._identity.boot
        for line in lines[1:]:
            with contextlib.suppress(msgspec.DecodeError):
                entry = decode_json(line, Unpacked)
                if entry.number == FINISHED:
                    # A line that was damaged is missing here.
                    self.is_complete = self.is_same_archive and entry.size == len(self.done)
                else:
                    self.done[entry.path] = entry

    def begin(self) -> None:
        """Start afresh if the journal is of an older archive of this name, or of an earlier boot; its files stay ours."""
        if self.is_same_archive:
            return
        os.ftruncate(self._descriptor, 0)
        self._append(encode_json(self._identity) + b"\n")
        for entry in list(self.done.values()):
            self.add(msgspec.structs.replace(entry, number=EARLIER))
        self.write()

    def add(self, entry: Unpacked) -> None:
        """Note a finished file; it is written with others."""
        self.done[entry.path] = entry
        self._lines.append(encode_json(entry) + b"\n")
        if len(self._lines) >= _LINES or time.monotonic() >= self._next_write:
            self.write()

    def finish(self) -> None:
        """Note that all is done."""
        self._lines.append(encode_json(Unpacked(FINISHED, "", len(self.done), 0)) + b"\n")
        self.write()
        os.fsync(self._descriptor)

    def write(self) -> None:
        """Write what has been noted."""
        lines, self._lines = self._lines, []
        self._next_write = time.monotonic() + _SECONDS
        self._append(b"".join(lines))

    def close(self) -> None:
        """Release it."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.temporary)
        os.close(self._descriptor)

    def _append(self, data: bytes) -> None:
        size = os.fstat(self._descriptor).st_size
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:  # a full disk: no half line
            os.ftruncate(self._descriptor, size)
            raise
