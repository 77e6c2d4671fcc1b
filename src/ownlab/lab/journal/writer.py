"""The writing end of a journal: a supervisor's records, in segments, each batch with one system call.

Nothing is forced onto the disk: a journal is for processes that die, not for a machine that loses its power.
Standard library alone: a supervisor imports it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ownlab.lab.journal.records import EVENT, Record, encode, event
from ownlab.lab.journal.storage import compacted_name, list_journal_files, make_journal_folder, segment_name

__all__ = ["JournalWriter"]

_IOV_MAX = os.sysconf("SC_IOV_MAX")
_COMPACT_FROM = 64 << 20
_RESERVE = 64 << 10
_AGAIN = 1.0  # seconds between two attempts, as long as nothing can be written


class JournalWriter:
    """One process writes a journal, and no other ever goes on with its segments.

    Where a runtime of the same id has written here before, numbers have to go on behind `last`.
    """

    def __init__(self, folder: str, segment_bytes: int = 16 << 20) -> None:
        self.trouble = ""  # why nothing can be written now, in words
        self.last = 0  # the newest number that was here before us
        self.sealed_bytes = 0  # in segments that will not change any more, and were not compacted yet
        self._folder, self._segment_bytes = folder, segment_bytes
        self._file = -1
        self._path = ""
        self._size = 0
        self._lost = 0  # records that could not be written, and were not told of yet
        self._lost_to = 0
        self._why = ""
        self._try_at = 0.0
        self._news = True  # a segment was sealed since compaction was last thought of
        try:
            make_journal_folder(folder)
            self._look_back()
            self._take_reserve()
        except OSError as exc:
            self._fail(exc)
            self._try_at = 0.0

    def write(self, records: Sequence[Record]) -> None:
        """Append them with one system call; none of them: try again to tell what was lost. Never raises: see `trouble`."""
        if not self.trouble or time.monotonic() >= self._try_at:
            records = self._send(records)
        if records:
            self._last_words(records)

    def wants_compaction(self) -> bool:
        """Whether so much has come together that folding it is worth its while; told once for each new segment."""
        if not self._news or self.sealed_bytes <= _COMPACT_FROM:
            return False
        self._news = False
        try:
            files = list_journal_files(self._folder)
            self.sealed_bytes = sum(
                os.path.getsize(path)
                for first in files.logs
                if first > files.folded and (path := os.path.join(self._folder, segment_name(first))) != self._path
            )
            folded = os.path.getsize(os.path.join(self._folder, compacted_name(files.folded))) if files.folded else 0
        except OSError:  # a compaction is removing them
            self._news = True
            return False
        return self.sealed_bytes > max(_COMPACT_FROM, 2 * folded)

    def close(self) -> None:
        """No more will come. What was lost and not told yet is told, if at all possible."""
        if self._lost:
            self._give_up_reserve()
            self._send([])
        self._seal()
        self._give_up_reserve()

    def _send(self, records: Sequence[Record]) -> Sequence[Record]:
        """Write them, and before them what was lost; those that could not be written."""
        told = [event(self._lost_to, time.time(), "lost", count=self._lost, why=self._why)] if self._lost else []
        if not told and not records:
            return ()
        kept = self._put([*told, *records] if told else records)
        if told and kept:
            self._lost = 0
            kept -= 1
        if self.trouble and kept == len(records) and not self._lost:
            self.trouble = ""
            self._take_reserve()
        return records[kept:]

    def _last_words(self, records: Sequence[Record]) -> None:
        """Of what comes while nothing can be written, events alone are: the reserve is for them."""
        trouble = self.trouble
        for record in records:
            if record.channel == EVENT:
                self._give_up_reserve()
                if not self._send([record]):
                    continue
            self._lost += 1
            self._lost_to = record.number
        self.trouble = trouble

    def _put(self, records: Sequence[Record]) -> int:
        """How many of them are on disk now."""
        pieces = encode(records)
        start = self._size
        try:
            if self._file < 0:
                self._open(records[0].number)
            for place in range(0, len(pieces), _IOV_MAX):
                self._append(pieces[place : place + _IOV_MAX])
        except OSError as exc:
            self._fail(exc)
            return self._cut(records, start)
        if self._size >= self._segment_bytes:
            self._seal()
        return len(records)

    def _append(self, pieces: list[bytes]) -> None:
        wanted = sum(map(len, pieces))
        written = os.writev(self._file, pieces)
        self._size += written
        if written < wanted:  # a full disk, a signal, or more than the 2 GiB that one call may write
            rest = memoryview(b"".join(pieces))[written:]
            while rest:
                written = os.write(self._file, rest)
                self._size += written
                rest = rest[written:]

    def _open(self, first: int) -> None:
        make_journal_folder(self._folder)
        path = os.path.join(self._folder, segment_name(first))
        # O_EXCL: what is there was written by somebody else, and may be all that is left of it.
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._path, self._size = path, 0

    def _seal(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):  # what a network's file system could not keep; it is closed all the same
                os.close(self._file)
            self.sealed_bytes += self._size
            self._file, self._path, self._size, self._news = -1, "", 0, True

    def _cut(self, records: Sequence[Record], start: int) -> int:
        """Keep what was written whole, cut off what was not, and go on in another file; how many were kept."""
        kept, end = 0, start
        for record in records:
            size = sum(map(len, encode([record])))
            if end + size > self._size:
                break
            kept, end = kept + 1, end + size
        if self._file >= 0:
            with contextlib.suppress(OSError):  # readers tell a torn record from a whole one
                os.ftruncate(self._file, end)
                if not end:
                    os.unlink(self._path)
            self._size = end
            self._seal()
        return kept

    def _fail(self, exc: OSError) -> None:
        self._why = exc.strerror or str(exc)
        self.trouble = f"what it says is not kept: {self._why}"
        self._try_at = time.monotonic() + _AGAIN

    def _look_back(self) -> None:
        """What a runtime of the same id has left. Its supervisor is dead: we hold the runtime's lock."""
        files = list_journal_files(self._folder)
        self.last = files.folded
        while files.logs and self.last < files.logs[-1]:
            from ownlab.lab.journal.reader import records_after  # seldom needed

            first = files.logs[-1]
            for record in records_after(Path(self._folder), first - 1):
                self.last = record.number
            if self.last < first:  # it died within its first record, of which nobody heard
                os.unlink(os.path.join(self._folder, segment_name(first)))
                files.logs.pop()
        self.sealed_bytes = sum(
            os.path.getsize(os.path.join(self._folder, segment_name(first))) for first in files.logs
        )

    def _take_reserve(self) -> None:
        """Room on the disk for a last word, of which nothing else can take hold; as much as there is."""
        with contextlib.suppress(OSError):
            file = os.open(os.path.join(self._folder, "reserve"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, _RESERVE)
            finally:
                os.close(file)

    def _give_up_reserve(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, "reserve"))
