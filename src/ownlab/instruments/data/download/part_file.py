"""A file that is not complete yet: its bytes, and a map of the segments that have arrived.

Both lie in `.ownlab-data/parts` below the target folder. The map is only ever appended to: a header line, then one record of
fixed length per step. Bytes are written before their record, so a map never promises what a killed process did not write;
after a power cut, when records may survive bytes, the CRC32 of each segment shows it. Who holds the lock on the map owns both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import threading
import zlib
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.errors import InputError
from ownlab.file_lock import try_lock
from ownlab.instruments.data.download.names import RESERVED
from ownlab.instruments.data.download.segments import Segments, SegmentState, segment_size
from ownlab.json_encoding import decode_json, encode_json
from ownlab.text import text

__all__ = ["PartFile", "PartHeader", "TargetBusy", "find_parts", "parts_folder"]

_RECORD = struct.Struct("<IIII")  # segment, bytes of it, their CRC32, CRC32 of this record
_LONGEST_HEADER = 2**16


class TargetBusy(InputError):
    """Another process works on the same target."""


class PartHeader(Struct, frozen=True):
    """What a part is a part of."""

    path: str
    label: str
    address_digest: str  # of the whole address, which may contain a token
    size: int
    segment: int
    etag: str = ""
    modified: str = ""
    format: int = 1


def parts_folder(folder: Path) -> Path:
    """Return where the parts of a target folder lie."""
    return Path(_parts_folder(folder))


@cache
def _parts_folder(folder: Path) -> str:
    return str(folder / RESERVED / "parts")


def find_parts(folder: Path) -> dict[str, PartHeader]:
    """Return the parts that earlier runs have left, by the digest of their address."""
    parts = {}
    with contextlib.suppress(OSError):
        for entry in sorted(parts_folder(folder).glob("*.map")):
            with contextlib.suppress(OSError, ValueError, msgspec.DecodeError), open(entry, "rb") as file:
                header = decode_json(file.readline(_LONGEST_HEADER), PartHeader)
                parts[header.address_digest] = header
    return parts


class PartFile:
    """The open part of one file. Reads and writes raise OSError."""

    def __init__(self, folder: Path, path: str) -> None:
        """Open (or create) the part of a path below the folder, and lock it. Raises TargetBusy."""
        stem = os.path.join(_parts_folder(folder), hashlib.sha256(path.encode()).hexdigest()[:24])
        self.part_path, self._map_path = f"{stem}.part", f"{stem}.map"
        self._map = self._lock_map(path)
        self._appending = threading.Lock()
        self.descriptor = os.open(self.part_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        self.header: PartHeader | None = None
        self.segments: Segments | None = None
        self.resumed = 0  # bytes that were here when it was opened
        self.from_before: set[int] = set()  # segments with bytes of an earlier run

    def _lock_map(self, path: str) -> int:
        while True:
            descriptor = _opened(self._map_path)
            if not try_lock(descriptor):
                os.close(descriptor)
                raise TargetBusy(
                    text("Another process is downloading {path} into this folder.", path=path),
                    hint=text("Wait for it, or choose another folder with -o."),
                )
            with contextlib.suppress(FileNotFoundError):
                if os.stat(self._map_path).st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
            os.close(descriptor)  # its owner finished and removed it in between

    def load(self) -> PartHeader | None:
        """Read what an earlier run has left. None if that is nothing, or damaged."""
        with open(os.dup(self._map), "rb") as file:
            file.seek(0)
            try:
                header = decode_json(file.readline(_LONGEST_HEADER), PartHeader)
            except (msgspec.DecodeError, ValueError):
                return None
            start, records = file.tell(), file.read()
        if header.format != 1 or header.segment <= 0 or os.fstat(self.descriptor).st_size != header.size:
            return None
        self.header = header
        self.segments = Segments(header.size, header.segment)
        states, valid = _states(records, self.segments)
        os.ftruncate(self._map, start + valid)  # what is appended after half a record could not be read
        for index, state in states.items():
            self.segments.advance(index, state)
            self.from_before.add(index)
        self.resumed = self.segments.arrived()
        return header

    def begin(self, header: PartHeader) -> Segments:
        """Start afresh: forget what is there."""
        header = msgspec.structs.replace(header, segment=segment_size(header.size))
        os.ftruncate(self._map, 0)
        os.ftruncate(self.descriptor, 0)
        os.ftruncate(self.descriptor, header.size)
        self._append(encode_json(header) + b"\n")
        self.header, self.segments = header, Segments(header.size, header.segment)
        self.resumed, self.from_before = 0, set()
        return self.segments

    def begin_stream(self) -> None:
        """Start afresh with a file whose size nobody knows: it cannot be resumed, and has no map."""
        os.ftruncate(self._map, 0)
        os.ftruncate(self.descriptor, 0)
        self.header, self.segments, self.resumed, self.from_before = None, None, 0, set()

    def write(self, data: bytes, offset: int) -> None:
        """Write all bytes at an offset."""
        view = memoryview(data)
        while view:
            written = os.pwrite(self.descriptor, view, offset)
            view, offset = view[written:], offset + written

    def record(self, index: int, state: SegmentState) -> None:
        """Note in the map what has arrived of a segment. Its bytes are written."""
        body = _RECORD.pack(index, state.done, state.crc32, 0)[:12]
        self._append(body + struct.pack("<I", zlib.crc32(body)))

    def _append(self, data: bytes) -> None:
        with self._appending:
            size = os.fstat(self._map).st_size
            try:
                while data:
                    data = data[os.write(self._map, data) :]
            except OSError:  # a full disk: half a record would hide those after it
                os.ftruncate(self._map, size)
                raise

    def reset(self, indices: set[int]) -> None:
        """Forget segments whose content turned out to be wrong."""
        assert self.segments is not None
        self.segments.reset(indices)
        for index in indices:
            self.record(index, SegmentState())
        self.from_before -= indices

    def flush(self) -> None:
        """Bring the bytes to the disk."""
        os.fsync(self.descriptor)

    def move_to(self, target: Path, *, replace: bool) -> None:
        """Give the complete part its name. Without `replace`, FileExistsError if something has that name."""
        try:
            self._move_to(target, replace=replace)
        except FileNotFoundError:  # most files have a folder that exists
            os.makedirs(target.parent, exist_ok=True)
            self._move_to(target, replace=replace)

    def _move_to(self, target: Path, *, replace: bool) -> None:
        if not replace:
            try:
                os.link(self.part_path, target, follow_symlinks=False)
            except (FileExistsError, FileNotFoundError):
                raise
            except OSError:  # a file system without hard links
                if os.path.lexists(target):
                    raise FileExistsError(target) from None
            else:
                os.unlink(self.part_path)
                return
        os.replace(self.part_path, target)

    def close(self, *, remove: bool = False) -> None:
        """Release the part; remove: nothing of it is needed any more."""
        if remove:
            for path in (self.part_path, self._map_path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        os.close(self.descriptor)
        os.close(self._map)


def _opened(path: str) -> int:
    """Open a map, which need not be there; nor need its folder."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o666)


def _states(records: bytes, segments: Segments) -> tuple[dict[int, SegmentState], int]:
    """Return the last valid record of each segment, and the length of all records before the first torn one."""
    states: dict[int, SegmentState] = {}
    valid = 0
    while valid + _RECORD.size <= len(records):
        index, done, crc32, check = _RECORD.unpack_from(records, valid)
        if check != zlib.crc32(records[valid : valid + 12]):
            break
        valid += _RECORD.size
        if index < segments.count and done <= segments.length(index):
            states[index] = SegmentState(done, crc32)
    return {index: state for index, state in states.items() if state.done}, valid
