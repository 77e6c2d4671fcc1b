"""Reads entries with several threads, and yields them in order. What is read and not yet written is bounded."""

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Deque, Iterator, List, NamedTuple, Optional

from ownlab_guest.data.preparation import Prepared, prepare
from ownlab_guest.data.reencoding import Reencoding
from ownlab_guest.data.sources.source import Entry, Source

# A piece of work for a thread: handing over single files would cost as much as reading them.
_CHUNK_ENTRIES, _CHUNK_BYTES = 32, 4 << 20
# What is read and not yet written.
_AHEAD_BYTES = 64 << 20
# Sizes from which the next one is guessed.
_REMEMBERED = 64


class Work(NamedTuple):
    """What is done to each entry."""

    source: Source
    reencoding: Reencoding
    digests: bool  # of their content: duplicates are to be found


class _Chunk(NamedTuple):
    prepared: List[Prepared]
    rest: List[Entry]  # would have been too much


class _Held:
    """The bytes that are read, or being read, and not yet taken. Where nobody knows what an entry has, those before it say it."""

    def __init__(self) -> None:
        self._bytes = 0
        self._sizes: Deque[int] = deque([_AHEAD_BYTES], maxlen=_REMEMBERED)
        self._lock = threading.Lock()

    def reserve(self, size: Optional[int], *, always: bool) -> Optional[int]:
        """Count an entry, as the largest of the last ones if its size is unknown; None if that is too much."""
        with self._lock:
            guessed = max(self._sizes) if size is None else size
            if self._bytes + guessed > _AHEAD_BYTES and not always:
                return None
            self._bytes += guessed
            return guessed

    def replace(self, guessed: int, size: int) -> None:
        """Count what it was."""
        with self._lock:
            self._bytes += size - guessed
            self._sizes.append(size)
            if self._sizes[0] == _AHEAD_BYTES:
                self._sizes.popleft()  # the guess before anything was read

    def release(self, size: int) -> None:
        """Something was taken."""
        with self._lock:
            self._bytes -= size


def read_ahead(entries: Iterator[Entry], work: Work, readers: ThreadPoolExecutor, workers: int) -> Iterator[Prepared]:
    """Prepare entries; yield them in order."""
    held = _Held()
    pending: "Deque[Future[_Chunk]]" = deque()
    for chunk in _chunks(entries):
        pending.append(readers.submit(_prepared, chunk, work, held, awaited=False))
        while len(pending) > workers + 2:
            yield from _taken(pending.popleft(), work, held, readers)
    while pending:
        yield from _taken(pending.popleft(), work, held, readers)


def _taken(pending: "Future[_Chunk]", work: Work, held: _Held, readers: ThreadPoolExecutor) -> Iterator[Prepared]:
    while True:
        chunk = pending.result()
        for prepared in chunk.prepared:
            yield prepared
            held.release(_bytes(prepared))
        if not chunk.rest:
            return
        pending = readers.submit(_prepared, chunk.rest, work, held, awaited=True)


def _prepared(entries: "List[Entry]", work: Work, held: _Held, *, awaited: bool) -> _Chunk:
    """Prepare entries until they are too much. `awaited`: nothing else is taken before, so at least one is prepared."""
    done: List[Prepared] = []
    size = 0
    for number, entry in enumerate(entries):
        guessed = held.reserve(_size(entry, work.source), always=awaited and not done) if size < _CHUNK_BYTES else None
        if guessed is None:
            return _Chunk(done, entries[number:])
        done.append(prepare(entry, work.source, work.reencoding, digests=work.digests))
        held.replace(guessed, _bytes(done[-1]))
        size += _bytes(done[-1])
    return _Chunk(done, [])


def _size(entry: Entry, source: Source) -> Optional[int]:
    sizes = [part.size or source.size_of(part.place) if part.data is None else len(part.data) for part in entry.parts]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _bytes(prepared: Prepared) -> int:
    return sum(len(payload.data) for payload in prepared.payloads)


def _chunks(entries: Iterator[Entry]) -> "Iterator[List[Entry]]":
    chunk: List[Entry] = []
    size = 0
    for entry in entries:
        chunk.append(entry)
        size += sum(part.size for part in entry.parts)
        if len(chunk) >= _CHUNK_ENTRIES or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
