"""Writes a journal: a supervisor's records, in segments, each batch with one system call.

Nothing is synced to disk: a journal protects against processes that die, not against a power cut.
Standard library only: supervisors import it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ownlab.lab.journal.records import EVENT, Record, encode, event
from ownlab.lab.journal.storage import compacted_name, list_journal_files, make_journal_folder, segment_name
from ownlab.text import text

__all__ = ["JournalWriter"]

_IOV_MAX = os.sysconf("SC_IOV_MAX")
_COMPACT_FROM = 64 << 20
_RESERVE = 64 << 10
_RETRY_SECONDS = 1.0  # between attempts while nothing can be written


class JournalWriter:
    """Only one process writes a journal, and no other process ever appends to its segments.

    If a runtime with the same id has written here before, numbers must continue after `last`.
    """

    def __init__(self, folder: str, segment_bytes: int = 16 << 20) -> None:
        self.trouble = ""  # why nothing can be written now
        self.last = 0  # the newest number of an earlier writer
        self.sealed_bytes = 0  # in segments that are complete and not compacted yet
        self._folder, self._segment_bytes = folder, segment_bytes
        self._file = -1
        self._path = ""
        self._size = 0
        self._lost = 0  # records that could not be written, and are not recorded as lost yet
        self._lost_to = 0
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
        """Append records with one system call. Without records, retry to record what was lost. Never raises: see `trouble`."""
        if not self.trouble or time.monotonic() >= self._try_at:
            records = self._write_with_lost(records)
        if records:
            self._write_events(records)

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

    def close(self) -> None:
        """Close the journal, recording what was lost if at all possible."""
        if self._lost:
            self._free_reserve()
            self._write_with_lost([])
        self._seal()
        self._free_reserve()

    def _write_with_lost(self, records: Sequence[Record]) -> Sequence[Record]:
        """Write records, after an event for those that were lost. Return those that could not be written."""
        lost = [event(self._lost_to, time.time(), "lost", count=self._lost, why=self._why)] if self._lost else []
        if not lost and not records:
            return ()
        kept = self._write_records([*lost, *records] if lost else records)
        if lost and kept:
            self._lost = 0
            kept -= 1
        if self.trouble and kept == len(records) and not self._lost:
            self.trouble = ""
            self._allocate_reserve()
        return records[kept:]

    def _write_events(self, records: Sequence[Record]) -> None:
        """While nothing else can be written, write events only: the reserve is for them."""
        trouble = self.trouble
        for record in records:
            if record.channel == EVENT:
                self._free_reserve()
                if not self._write_with_lost([record]):
                    continue
            self._lost += 1
            self._lost_to = record.number
        self.trouble = trouble

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
            for record in records_after(Path(self._folder), first - 1):
                self.last = record.number
            if self.last < first:  # it died within its first record, which was never forwarded
                os.unlink(os.path.join(self._folder, segment_name(first)))
                files.logs.pop()
        self.sealed_bytes = sum(
            os.path.getsize(os.path.join(self._folder, segment_name(first))) for first in files.logs
        )

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
