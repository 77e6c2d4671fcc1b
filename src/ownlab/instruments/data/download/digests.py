"""Checksums of a file while it arrives: they follow the complete segments from the beginning."""

from __future__ import annotations

import hashlib
import os
import threading
import zlib

from ownlab.errors import InputError
from ownlab.instruments.data.download.part_file import PartFile
from ownlab.instruments.data.download.records import RemoteFile, Verification
from ownlab.text import text

__all__ = ["Digests", "Follower"]

_BLOCK = 2**20


class Digests:
    """SHA-256 of a file, and whatever else its source announces."""

    def __init__(self, remote: RemoteFile, size: int | None) -> None:
        self._remote = remote
        self._sha256 = hashlib.sha256()
        self._md5 = hashlib.md5(usedforsecurity=False) if remote.md5 else None
        self._git = hashlib.sha1(usedforsecurity=False) if remote.git_sha1 and not remote.sha256 else None
        if self._git is not None:
            self._git.update(b"blob %d\0" % (size or 0))  # how git names a blob

    def update(self, data: bytes) -> None:
        """Add the next bytes."""
        self._sha256.update(data)
        if self._md5 is not None:
            self._md5.update(data)
        if self._git is not None:
            self._git.update(data)

    @property
    def sha256(self) -> str:
        """The SHA-256 of all bytes so far."""
        return self._sha256.hexdigest()

    def verify(self) -> Verification | None:
        """Return which announced checksum agrees; None if none is announced. Raises InputError if one differs."""
        pairs: tuple[tuple[Verification, str, str], ...] = (
            ("sha256", self._remote.sha256, self.sha256),
            ("md5", self._remote.md5, self._md5.hexdigest() if self._md5 is not None else ""),
            ("git", self._remote.git_sha1, self._git.hexdigest() if self._git is not None else ""),
        )
        agreed: Verification | None = None
        for kind, expected, actual in pairs:
            if not expected or not actual:
                continue
            if expected.lower() != actual:
                raise InputError(
                    text(
                        "The {kind} of {address} is {actual}, not {expected}.",
                        kind=kind,
                        address=self._remote.label,
                        actual=actual,
                        expected=expected.lower(),
                    ),
                    hint=text(
                        "The file was damaged on its way, or is not the one that the checksum is of. It was not kept."
                    ),
                )
            agreed = agreed or kind
        return agreed


class Follower:
    """Reads the complete segments of a part in order: for the digests, and for the CRC32 of segments of an earlier run.

    With `start` it works in a thread beside the download, so that little is left at the end.
    """

    def __init__(self, part: PartFile, digests: Digests) -> None:
        self._part, self.digests = part, digests
        self._next = 0
        self.damaged: set[int] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    def start(self) -> None:
        """Follow in the background."""
        self._thread = threading.Thread(target=self._follow, daemon=True, name="digest")
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def finish(self) -> None:
        """Read what is left. Raises OSError."""
        self.stop()
        if self._failure is not None:
            raise self._failure
        self._catch_up()

    def _follow(self) -> None:
        try:
            while not self._stop.wait(0.05):
                self._catch_up()
        except OSError as exc:
            self._failure = exc

    def _catch_up(self) -> None:
        segments = self._part.segments
        assert segments is not None
        while self._next < segments.prefix_segments():
            index, self._next = self._next, self._next + 1
            crc32, offset = 0, index * segments.segment
            end = offset + segments.length(index)
            while offset < end:
                data = os.pread(self._part.descriptor, min(_BLOCK, end - offset), offset)
                if not data:
                    break
                self.digests.update(data)
                crc32 = zlib.crc32(data, crc32)
                offset += len(data)
            if crc32 != segments.state(index).crc32:
                self.damaged.add(index)
