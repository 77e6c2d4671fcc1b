"""The reading end of a journal: what is on disk, in order, also while it is written and compacted. Standard library.

Whether something is missing is told by the numbers. A record that was cut (its writer died in it, or is just at it) was
never passed on: the next one takes its number. Where numbers are skipped and no event "lost" accounts for them, an event
"damaged" (from_number, to_number, count) stands in their place, as soon as something follows it.
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
_SIZE = struct.Struct("<4xI")  # of a whole record; before it stands the checksum
_SIZE_AND_NUMBER = struct.Struct("<4xIQ")


def compacted_to(folder: Path) -> int:
    """Up to which number single records are no longer to be had; 0 where nothing was compacted."""
    return list_journal_files(folder).folded


def records_after(folder: Path, after: int) -> Iterator[Record]:
    """Everything on disk above a number, in order; of what was compacted, the records that stand for it."""
    tail = Tail(folder, after)
    try:
        yield from (record for record in tail.read() if record.number > after)
    finally:
        tail.close()


class Tail:
    """A place in a journal: each `read` goes on where the last one ended."""

    def __init__(self, folder: Path, after: int = 0) -> None:
        self.reset = False  # see read
        self._folder = folder
        self._position = after  # everything up to this number was read
        self._begun = False
        self._files: list[_File] = []  # to be read in this order; the newest one stays open

    def read(self) -> Iterator[Record]:
        """Exactly what came since, as it lies on disk at the time of the call.

        `reset` is set before it returns: the journal was compacted beyond our place, so this tells it from its beginning.
        """
        while True:
            try:
                self.reset = self._look(list_journal_files(self._folder))
            except FileNotFoundError:  # compacted just now: what stands for it is there
                continue
            return self._records()

    def close(self) -> None:
        """Let go of its files; it may be read again all the same, and goes on where it was."""
        while self._files:
            self._files.pop().close()

    def _look(self, files: JournalFiles) -> bool:
        """Open all that is to be read: a compaction may remove files while they are read. True: from the beginning."""
        newest = self._files[-1].number if self._files else 0
        unread = bool(self._files) and self._files[0].folded and self._files[0].number == files.folded
        behind = files.folded > self._position and not unread
        # Its folder was removed and made again, or its only record was cut and another process has begun it anew.
        replaced = newest > files.folded and not self._files[-1].is_at(self._folder / segment_name(newest))
        reached = files.folded if behind or unread else 0 if replaced else self._position
        # The last segment that begins at or before what comes next, and all behind it.
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
        anew = False
        if behind or replaced:
            anew, self._begun, self._position = self._begun, False, 0
            self.close()
        self._files += new
        for file in self._files:
            file.measure()
        if new and not new[0].folded:
            new[0].hop(reached)
        return anew

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
                if record.number > self._position + 1 and not _accounts(record, self._position):
                    missing = self._position + 1
                    self._position, self._begun = record.number - 1, True
                    yield _damaged(missing, record.number - 1, file.changed_at)
                self._position, file.offset, self._begun = record.number, end, True
                yield record
            else:
                file.offset = end


class _File:
    """One of a journal's files, open at a place."""

    def __init__(self, path: Path, number: int, *, folded: bool = False) -> None:
        self._file = -1  # before it is opened: __del__ comes also where that fails
        self.number, self.folded = number, folded
        self.offset = 0  # where the first record begins that was not read yet
        self.end = 0
        self.changed_at = 0.0
        self.skipped = False
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def measure(self) -> None:
        found = os.fstat(self._file)
        self.end, self.changed_at = found.st_size, found.st_mtime

    def is_at(self, path: Path) -> bool:
        """Whether the name still leads to it."""
        try:
            return os.stat(path).st_ino == os.fstat(self._file).st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = close

    def hop(self, position: int) -> None:
        """Go to the first record above a number, by their sizes alone."""
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
        """Each whole record from the offset on, and where it ends."""
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
            # Nothing that was read is kept: a writer whose disk is full cuts off what it had begun.
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
        """Whether a record is here, as far as one can tell."""
        head = os.pread(self._file, _SIZE.size, offset)
        if len(head) < _SIZE.size or offset + _SIZE.unpack(head)[0] > self.end:
            return False
        try:
            decode(os.pread(self._file, _SIZE.unpack(head)[0], offset))
        except Damaged:
            return False
        return True


def _accounts(record: Record, position: int) -> bool:
    """Whether it is the writer's own word on what is missing since a number."""
    if record.channel != EVENT:
        return False
    told = json_object(record.parts[0])
    count = told.get("count")
    return told.get("event") == "lost" and isinstance(count, int) and record.number - count <= position


def _damaged(first: int, last: int, at: float) -> Record:
    return event(last, at, "damaged", from_number=first, to_number=last, count=last - first + 1)
