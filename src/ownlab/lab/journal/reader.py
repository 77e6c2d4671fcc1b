"""Reads a journal in order, also while it is written and compacted. Standard library only.

Gaps are found by the numbers. A partial record (its writer died, or is still writing) was never forwarded: the next one
gets its number. If numbers are skipped and no event "lost" accounts for them, an event "damaged" (from_number, to_number,
count) is inserted as soon as another record follows.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from ownlab.lab.journal.records import EVENT, Damaged, Record, decode, event, json_object
from ownlab.lab.journal.storage import JournalFiles, compacted_name, list_journal_files, segment_name

__all__ = ["Tail", "compacted_to", "records_after"]

_SLICE = 4 << 20
_SIZE = struct.Struct("<4xI")  # of the whole record, after the checksum
_SIZE_AND_NUMBER = struct.Struct("<4xIQ")


def compacted_to(folder: Path) -> int:
    """The number up to which single records are no longer available; 0 if nothing was compacted."""
    return list_journal_files(folder).folded


def records_after(folder: Path, after: int) -> Iterator[Record]:
    """Yield everything on disk above a number, in order; for the compacted part, the records of its state."""
    tail = Tail(folder, after)
    try:
        yield from (record for record in tail.read() if record.number > after)
    finally:
        tail.close()


class Tail:
    """A position in a journal: each `read` continues where the last one ended."""

    def __init__(self, folder: Path, after: int = 0) -> None:
        self.reset = False  # see read
        self._folder = folder
        self._position = after  # everything up to this number was read
        self._begun = False
        self._files: list[_File] = []  # to be read in this order; the newest stays open

    def read(self) -> Iterator[Record]:
        """Read what was added since the last call, as it is on disk at the time of the call.

        `reset` is set before it returns: the journal was compacted beyond our position, so it is read from its beginning.
        """
        while True:
            try:
                self.reset = self._open_files(list_journal_files(self._folder))
            except FileNotFoundError:  # compacted just now: the file that replaces it is there
                continue
            return self._records()

    def close(self) -> None:
        """Close its files. It can be read again, and continues where it was."""
        while self._files:
            self._files.pop().close()

    def _open_files(self, files: JournalFiles) -> bool:
        """Open all files to read, since a compaction may remove them meanwhile. Return True if reading starts over."""
        newest = self._files[-1].number if self._files else 0
        unread = bool(self._files) and self._files[0].folded and self._files[0].number == files.folded
        behind = files.folded > self._position and not unread
        # Its folder was removed and created again, or its only record was partial and another process started over.
        replaced = newest > files.folded and not self._files[-1].is_at(self._folder / segment_name(newest))
        reached = files.folded if behind or unread else 0 if replaced else self._position
        # The last segment that begins at or before the next record, and all later ones.
        wanted = files.logs[max(0, bisect_right(files.logs, reached + 1) - 1) :]
        if not (behind or replaced):
            wanted = [first for first in wanted if first > newest]
        new: list[_File] = []
        try:
            if behind:
                new.append(_File(self._folder / compacted_name(files.folded), files.folded, folded=True))
            new += [_File(self._folder / segment_name(first), first) for first in wanted]
        except FileNotFoundError:
            for file in new:
                file.close()
            raise
        starts_over = False
        if behind or replaced:
            starts_over, self._begun, self._position = self._begun, False, 0
            self.close()
        self._files += new
        for file in self._files:
            file.measure()
        if new and not new[0].folded:
            new[0].skip_to(reached)
        return starts_over

    def _records(self) -> Iterator[Record]:
        while self._files:
            file = self._files[0]
            yield from self._compacted(file) if file.folded else self._numbered(file)
            if len(self._files) == 1 and not file.folded:
                return
            self._files.pop(0).close()

    def _compacted(self, file: _File) -> Iterator[Record]:
        newest = 0
        for record, end in file.records():
            newest, file.offset, self._begun = max(newest, record.number), end, True
            yield record
        self._position = file.number
        if file.offset < file.end or file.skipped:
            yield _damaged(min(newest + 1, file.number), file.number, file.changed_at)

    def _numbered(self, file: _File) -> Iterator[Record]:
        for record, end in file.records():
            if record.number > self._position:
                if record.number > self._position + 1 and not _accounts_for(record, self._position):
                    missing = self._position + 1
                    self._position, self._begun = record.number - 1, True
                    yield _damaged(missing, record.number - 1, file.changed_at)
                self._position, file.offset, self._begun = record.number, end, True
                yield record
            else:
                file.offset = end


class _File:
    """One of a journal's files, open at an offset."""

    def __init__(self, path: Path, number: int, *, folded: bool = False) -> None:
        self._file = -1  # set before opening: __del__ runs even if that fails
        self.number, self.folded = number, folded
        self.offset = 0  # of the first record that was not read yet
        self.end = 0
        self.changed_at = 0.0
        self.skipped = False
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def measure(self) -> None:
        status = os.fstat(self._file)
        self.end, self.changed_at = status.st_size, status.st_mtime

    def is_at(self, path: Path) -> bool:
        """Whether the path still leads to this file."""
        try:
            return os.stat(path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = close

    def skip_to(self, position: int) -> None:
        """Skip to the first record above a number, using only the sizes."""
        begun = -1
        while begun < self.offset < self.end:
            begun = self.offset
            data = os.pread(self._file, _SLICE, begun)
            while self.offset - begun + _SIZE_AND_NUMBER.size <= len(data):
                size, number = _SIZE_AND_NUMBER.unpack_from(data, self.offset - begun)
                if number > position or not 0 < size <= self.end - self.offset:
                    return
                self.offset += size

    def records(self) -> Iterator[tuple[Record, int]]:
        """Yield each complete record from the offset on, with its end."""
        offset, wanted = self.offset, _SLICE
        while offset < self.end:
            data = os.pread(self._file, min(wanted, self.end - offset), offset)
            view, place, wanted = memoryview(data), 0, _SLICE
            try:
                while True:
                    record, place = decode(view, place)
                    yield record, offset + place
            except Damaged:
                offset += place
            # Nothing read is cached: a writer whose disk is full truncates a partial record.
            if place:
                continue
            size = _SIZE.unpack_from(data)[0] if len(data) >= _SIZE.size else 0
            if len(data) < size <= self.end - offset:
                wanted = size
            elif size and self._whole(offset + size) and not self._whole(offset):
                offset += size
                self.skipped = True
            else:
                return

    def _whole(self, offset: int) -> bool:
        """Whether there is a complete record at this offset, as far as can be seen."""
        head = os.pread(self._file, _SIZE.size, offset)
        if len(head) < _SIZE.size or offset + _SIZE.unpack(head)[0] > self.end:
            return False
        try:
            decode(os.pread(self._file, _SIZE.unpack(head)[0], offset))
        except Damaged:
            return False
        return True


def _accounts_for(record: Record, position: int) -> bool:
    """Whether it is the writer's own account of what is missing since a number."""
    if record.channel != EVENT:
        return False
    content = json_object(record.parts[0])
    count = content.get("count")
    return content.get("event") == "lost" and isinstance(count, int) and record.number - count <= position


def _damaged(first: int, last: int, at: float) -> Record:
    return event(last, at, "damaged", from_number=first, to_number=last, count=last - first + 1)
