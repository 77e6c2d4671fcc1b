"""Writes a journal: a supervisor's records, in segments, each batch with one system call.

Nothing is synced to disk: a journal protects against processes that die, not against a power cut.

While nothing can be written (a full disk), records are held in memory up to a limit and written later, in order. Beyond it
outputs are dropped first, with an event "lost" in their place; what says which cells ran is held longer.
Standard library only: supervisors import it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ownlab.lab.journal.records import EVENT, Record, encode, event, read_head
from ownlab.lab.journal.storage import (
    compacted_name,
    list_journal_files,
    make_journal_folder,
    read_saved_position,
    segment_name,
)
from ownlab.text import text

__all__ = ["JournalWriter"]

_IOV_MAX = os.sysconf("SC_IOV_MAX")
_COMPACT_FROM = 64 << 20
_RESERVE = 64 << 10
_CONDENSED = 48 << 10  # bytes of records that are written into the freed reserve
_HELD_BYTES = 4 << 20  # outputs in memory while nothing can be written; as much again for other records
# Messages on iopub that say what ran, as they appear in headers.
_ESSENTIAL = (b'"status"', b'"execute_input"', b'"error"')
_RETRY_SECONDS = 1.0  # between attempts while nothing can be written


class _Lost:
    """Records that could not be held, up to a number."""

    __slots__ = ("bytes", "count", "number", "why")

    def __init__(self, why: str) -> None:
        self.number = self.count = self.bytes = 0
        self.why = why

    def add(self, record: Record) -> None:
        """Count one more."""
        self.number, self.count, self.bytes = record.number, self.count + 1, self.bytes + sum(map(len, record.parts))


class JournalWriter:
    """Only one process writes a journal, and no other process ever appends to its segments.

    If a runtime with the same id has written here before, numbers must continue after `last`.
    """

    def __init__(self, folder: str, segment_bytes: int = 16 << 20, held_bytes: int = _HELD_BYTES) -> None:
        self.trouble = ""  # why nothing can be written now
        self.last = 0  # the newest number of an earlier writer
        self.sealed_bytes = 0  # in segments that are complete and not compacted yet
        self._folder, self._segment_bytes, self._held_bytes = folder, segment_bytes, held_bytes
        self._file = -1
        self._path = ""
        self._size = 0
        self._held: list[Record | _Lost] = []  # records that could not be written, in order
        self._held_size = 0
        self._why = ""
        self._try_at = 0.0
        self._check_compaction = True  # a segment was sealed since the last check for compaction
        try:
            make_journal_folder(folder)
            self._read_earlier()
            self._allocate_reserve()
        except OSError as exc:
            self._fail(exc)
            self._try_at = 0.0

    def write(self, records: Sequence[Record]) -> None:
        """Append records with one system call. Without records, retry what could not be written. Never raises: see `trouble`."""
        if not self.trouble or time.monotonic() >= self._try_at:
            self._write_with_held(records)
        else:
            for record in records:
                self._hold(record)
        if self._held and any(record.channel == EVENT for record in records):
            self._write_condensed()

    def wants_compaction(self) -> bool:
        """Whether enough segments have accumulated; True at most once for each new segment."""
        if not self._check_compaction or self.sealed_bytes <= _COMPACT_FROM:
            return False
        self._check_compaction = False
        try:
            files = list_journal_files(self._folder)
            self.sealed_bytes = sum(
                os.path.getsize(path)
                for first in files.logs
                if first > files.folded and (path := os.path.join(self._folder, segment_name(first))) != self._path
            )
            folded = os.path.getsize(os.path.join(self._folder, compacted_name(files.folded))) if files.folded else 0
        except OSError:  # a compaction is removing files
            self._check_compaction = True
            return False
        return self.sealed_bytes > max(_COMPACT_FROM, 2 * folded)

    def notice_loss(self) -> bool:
        """Whether the end of the newest segment was cut off from outside. The next record then begins another segment.

        Readers find the gap by its number.
        """
        if self._file < 0 or os.fstat(self._file).st_size >= self._size:
            return False
        self._seal()
        return True

    def close(self) -> None:
        """Close the journal, recording what was lost if at all possible."""
        if self._held:
            self._write_with_held(())
        if self._held:
            self._write_condensed()
        self._seal()
        self._free_reserve()

    def _write_with_held(self, records: Sequence[Record]) -> None:
        """Write what is held and then these records. Hold what could not be written."""
        waiting = [*self._held, *records] if self._held else records
        if not waiting:
            return
        written = self._write_records(_as_records(waiting) if self._held else records)
        self._held, self._held_size = [], 0
        for item in waiting[written:]:
            self._hold(item)
        if self.trouble and not self._held:
            self.trouble = ""
            self._allocate_reserve()

    def _hold(self, item: Record | _Lost) -> None:
        """Hold a record, or only count it."""
        if isinstance(item, _Lost):
            self._held.append(item)
            return
        size = 100 + sum(map(len, item.parts))
        limit = self._held_bytes * (2 if _is_essential(item) else 1)
        if item.channel == EVENT or self._held_size + size <= limit:
            self._held.append(item)
            self._held_size += size
        else:
            _count_lost(self._held, item, self._why)

    def _write_condensed(self) -> None:
        """Write the events that are held, and what fits of the rest, in place of the reserve."""
        last = max((place for place, item in enumerate(self._held) if _is_event(item)), default=len(self._held) - 1)
        condensed: list[Record | _Lost] = []
        size = 0
        for item in self._held[: last + 1]:
            if isinstance(item, _Lost) or item.channel == EVENT:
                condensed.append(item)
                continue
            size += sum(map(len, encode([item])))
            if _is_essential(item) and size <= _CONDENSED:
                condensed.append(item)
            else:
                size -= sum(map(len, encode([item])))
                _count_lost(condensed, item, self._why)
        trouble, later = self.trouble, self._held[last + 1 :]
        self._free_reserve()
        written = self._write_records(_as_records(condensed))
        self._held, self._held_size = [], 0
        for item in [*condensed[written:], *later]:
            self._hold(item)
        self.trouble = trouble  # that an event was written does not show that there is space

    def _write_records(self, records: Sequence[Record]) -> int:
        """Write records; return how many are on disk."""
        pieces = encode(records)
        start = self._size
        try:
            if self._file < 0:
                self._open(records[0].number)
            for place in range(0, len(pieces), _IOV_MAX):
                self._append(pieces[place : place + _IOV_MAX])
        except OSError as exc:
            self._fail(exc)
            return self._truncate(records, start)
        if self._size >= self._segment_bytes:
            self._seal()
        return len(records)

    def _append(self, pieces: list[bytes]) -> None:
        wanted = sum(map(len, pieces))
        written = os.writev(self._file, pieces)
        self._size += written
        if written < wanted:  # a full disk, a signal, or more than 2 GiB, the limit of one call
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                written = os.write(self._file, rest)
                self._size += written
                rest = rest[written:]

    def _open(self, first: int) -> None:
        make_journal_folder(self._folder)
        path = os.path.join(self._folder, segment_name(first))
        # O_EXCL: an existing file was written by another process, and may be all that is left of it.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path, self._size = path, 0

    def _seal(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):  # a network file system lost data; the file is closed anyway
                os.close(self._file)
            self.sealed_bytes += self._size
            self._file, self._path, self._size, self._check_compaction = -1, "", 0, True

    def _truncate(self, records: Sequence[Record], start: int) -> int:
        """Keep complete records, cut off a partial one, and continue in another file. Return how many were kept."""
        kept, end = 0, start
        for record in records:
            size = sum(map(len, encode([record])))
            if end + size > self._size:
                break
            kept, end = kept + 1, end + size
        if self._file >= 0:
            with contextlib.suppress(OSError):  # readers recognise a partial record
                os.ftruncate(self._file, end)
                if not end:
                    os.unlink(self._path)
            self._size = end
            self._seal()
        return kept

    def _fail(self, exc: OSError) -> None:
        self._why = exc.strerror or str(exc)
        self.trouble = text("its output cannot be saved: {reason}", reason=self._why)
        self._try_at = time.monotonic() + _RETRY_SECONDS

    def _read_earlier(self) -> None:
        """Continue after a runtime with the same id. Its supervisor is dead: we hold the runtime's lock."""
        files = list_journal_files(self._folder)
        self.last = files.folded
        while files.logs and self.last < files.logs[-1]:
            from ownlab.lab.journal.reader import records_after  # rarely needed

            first = files.logs[-1]
            for record in records_after(Path(self._folder), first - 1, final=True):
                self.last = record.number
            if self.last < first and not self._is_damaged(first):
                # It died within its first record, which was never forwarded.
                os.unlink(os.path.join(self._folder, segment_name(first)))
                files.logs.pop()
            self.last = max(self.last, first if first in files.logs else 0)
        # What a notebook's file holds was in the journal, too, even if it is not there any more.
        self.last = max(self.last, read_saved_position(self._folder))
        self.sealed_bytes = sum(
            os.path.getsize(os.path.join(self._folder, segment_name(first))) for first in files.logs
        )

    def _is_damaged(self, first: int) -> bool:
        """Whether a segment without any readable record was damaged, and is not just the beginning of its first record."""
        with open(os.path.join(self._folder, segment_name(first)), "rb") as file:
            head = read_head(file.read(_RESERVE))
        return head is not None and (head.number != first or head.consistent is False)

    def _allocate_reserve(self) -> None:
        """Reserve disk space for the last events, as far as available."""
        with contextlib.suppress(OSError):
            file = os.open(os.path.join(self._folder, "reserve"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, _RESERVE)
            finally:
                os.close(file)

    def _free_reserve(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, "reserve"))


def _is_event(item: Record | _Lost) -> bool:
    return isinstance(item, Record) and item.channel == EVENT


def _is_essential(record: Record) -> bool:
    """Whether it says what ran, rather than what was printed."""
    return record.channel != "iopub" or any(kind in record.parts[0] for kind in _ESSENTIAL)


def _count_lost(held: list[Record | _Lost], record: Record, why: str) -> None:
    """Record at the end of a list that a record is not there."""
    lost = held[-1] if held else None
    if not isinstance(lost, _Lost):
        lost = _Lost(why)
        held.append(lost)
    lost.add(record)


def _as_records(held: Sequence[Record | _Lost]) -> list[Record]:
    return [
        event(each.number, time.time(), "lost", count=each.count, bytes=each.bytes, why=each.why)
        if isinstance(each, _Lost)
        else each
        for each in held
    ]
