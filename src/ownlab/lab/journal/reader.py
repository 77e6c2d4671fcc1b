"""Reads a journal in order, also while it is written and compacted. Standard library only.

Gaps are found by the numbers. A partial record (its writer died, or is still writing) was never forwarded: the next one
gets its number. Bytes that are not a record are skipped up to the next one that is whole. If numbers are skipped and no
event "lost" accounts for them, an event "damaged" (from_number, to_number, count, bytes) is inserted as soon as another
record follows; what cannot be read at the very end is in `Tail.unread_bytes`.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from ownlab.lab.journal.records import (
    EVENT,
    HEAD_BYTES,
    Damaged,
    Head,
    Record,
    decode,
    event,
    json_object,
    possible_starts,
    read_head,
)
from ownlab.lab.journal.storage import JournalFiles, compacted_name, list_journal_files, segment_name

__all__ = ["Tail", "compacted_to", "records_after"]

_SLICE = 4 << 20
_AFTER_DAMAGE = 64 << 10  # the first slice there: damage may be everywhere
_MAX_LENGTHS = 4 * 0xFFFF  # bytes of the lengths of a record's parts


def compacted_to(folder: Path) -> int:
    """The number up to which single records are no longer available; 0 if nothing was compacted."""
    return list_journal_files(folder).folded


def records_after(folder: Path, after: int, *, final: bool = False) -> Iterator[Record]:
    """Yield everything on disk above a number, in order; for the compacted part, the records of its state.

    `final`: see Tail.read.
    """
    tail = Tail(folder, after)
    try:
        yield from (record for record in tail.read(final=final) if record.number > after)
    finally:
        tail.close()


class Tail:
    """A position in a journal: each `read` continues where the last one ended."""

    def __init__(self, folder: Path, after: int = 0) -> None:
        self.reset = False  # see read
        self._folder = folder
        self._position = after  # everything up to this number was read
        self._begun = False
        self._skipped_bytes = 0  # that were not records, since the last record
        self._files: list[_File] = []  # to be read in this order; the newest stays open

    def read(self, *, final: bool = False) -> Iterator[Record]:
        """Read what was added since the last call, as it is on disk at the time of the call.

        `reset` is set before it returns: the journal was compacted beyond our position, so it is read from its beginning.
        `final`: its writer is gone, so a partial record will never be completed.
        """
        while True:
            try:
                self.reset = self._open_files(list_journal_files(self._folder))
            except FileNotFoundError:  # compacted just now: the file that replaces it is there
                continue
            for place, file in enumerate(self._files):
                file.sealed = final or place + 1 < len(self._files)
            return self._records()

    @property
    def unread_bytes(self) -> int:
        """The bytes after the last record, once everything was read: a partial record, or damage."""
        return sum(max(0, file.end - file.offset) for file in self._files)

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
            self._skipped_bytes += 0 if file.folded else max(0, file.end - file.offset)
            self._files.pop(0).close()

    def _compacted(self, file: _File) -> Iterator[Record]:
        skipped = 0
        for record, start, end in file.records():
            skipped += start - file.offset
            file.newest, file.offset, self._begun = max(file.newest, record.number), end, True
            yield record
        self._position = file.number
        skipped += file.end - file.offset
        if skipped:
            yield _damaged(min(file.newest + 1, file.number), file.number, file.changed_at, skipped)

    def _numbered(self, file: _File) -> Iterator[Record]:
        file.newest = max(file.newest, file.number - 1)
        for record, start, end in file.records():
            self._skipped_bytes += start - file.offset
            file.newest, file.offset = max(file.newest, record.number), start
            if record.number > self._position:
                if record.number > self._position + 1 and not _accounts_for(record, self._position):
                    missing, skipped, self._skipped_bytes = self._position + 1, self._skipped_bytes, 0
                    self._position, self._begun = record.number - 1, True
                    yield _damaged(missing, record.number - 1, file.changed_at, skipped)
                self._position, self._begun = record.number, True
                self._skipped_bytes, file.offset = 0, end
                yield record
            else:
                self._skipped_bytes, file.offset = 0, end


class _File:
    """One of a journal's files, open at an offset."""

    def __init__(self, path: Path, number: int, *, folded: bool = False) -> None:
        self._file = -1  # set before opening: __del__ runs even if that fails
        self.number, self.folded = number, folded
        self.offset = 0  # of the first record that was not read yet
        self.end = 0
        self.changed_at = 0.0
        self.newest = 0  # the number of the last record that was read
        self.sealed = folded  # nothing will be added to it
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
        """Skip to the first record above a number, using only the sizes, as far as the numbers continue."""
        before, expected, begun = 0, self.number, -1
        while begun < self.offset < self.end:
            begun = self.offset
            data = os.pread(self._file, _SLICE, begun)
            while (head := read_head(data, self.offset - begun)) is not None:
                if head.number != expected:
                    # The record before it is damaged, or accounts for a loss: continue there, verifying everything.
                    self.offset = before
                    return
                if head.number > position or not 0 < head.size <= self.end - self.offset:
                    return
                before, expected = self.offset, head.number + 1
                self.offset += head.size

    def records(self) -> Iterator[tuple[Record, int, int]]:
        """Yield each complete record from the offset on, with its start and its end."""
        offset, wanted = self.offset, _SLICE
        while offset < self.end:
            data = os.pread(self._file, min(wanted, self.end - offset), offset)
            view, place, wanted = memoryview(data), 0, min(_SLICE, 4 * wanted)
            try:
                while True:
                    start = place
                    record, place = decode(view, place)
                    yield record, offset + start, offset + place
            except Damaged:
                offset += place
            # Nothing read is cached: a writer whose disk is full truncates a partial record.
            if place:
                continue
            head = read_head(data)
            if head is not None and len(data) < head.size <= self.end - offset:
                wanted = head.size
            elif (following := self._next_record(offset)) is not None:
                offset, wanted = following, _AFTER_DAMAGE
            else:
                return

    def _next_record(self, damaged: int) -> int | None:
        """Return the offset of the next whole record after damaged bytes; None if there is none, or none yet."""
        if not self.sealed and self._is_partial(damaged):
            return None
        place, wanted = damaged + 1, _AFTER_DAMAGE
        while place < self.end:
            data = os.pread(self._file, wanted, place)
            wanted = min(_SLICE, 4 * wanted)
            if len(data) < HEAD_BYTES:
                return None
            for start in possible_starts(data):
                if self._is_record(place + start, read_head(data, start)):
                    return place + start
            place += len(data) - HEAD_BYTES + 1
        return None

    def _is_partial(self, offset: int) -> bool:
        """Whether a record begins here that is still being written."""
        head = read_head(os.pread(self._file, HEAD_BYTES + _MAX_LENGTHS, offset))
        if head is None:
            return True
        is_next = head.number == self.newest + 1 and head.size > self.end - offset
        return is_next and head.consistent is not False

    def _is_record(self, offset: int, head: Head | None) -> bool:
        """Whether there is a complete record at this offset that may follow what was read."""
        if head is None or head.consistent is False or offset + head.size > self.end:
            return False
        if head.number < self.newest or (head.number == self.newest and not self.folded):
            return False  # perhaps a copy of an earlier one
        try:
            decode(os.pread(self._file, head.size, offset))
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


def _damaged(first: int, last: int, at: float, skipped: int) -> Record:
    return event(last, at, "damaged", from_number=first, to_number=last, count=last - first + 1, bytes=skipped)
