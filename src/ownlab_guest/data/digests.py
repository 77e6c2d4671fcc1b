"""The set of contents that were packed, for finding duplicates: 16 bytes each, in a file that is mapped into memory.

A set of Python objects would take 100 bytes for each of them; pages of a mapped file can be written back.
"""

import hashlib
import mmap
import tempfile
import zlib
from typing import Iterable, List, Sequence

from ownlab_guest.data.sealed_json import damaged_notes

SIZE = 16
_EMPTY = bytes(SIZE)
_FIRST_SLOTS = 1 << 16


def digest_of(contents: Iterable[bytes]) -> bytes:
    """Return the digest of a sample: of the contents of its members, in order."""
    hashed = hashlib.blake2b(digest_size=SIZE)
    for content in contents:
        hashed.update(len(content).to_bytes(8, "little"))
        hashed.update(content)
    return hashed.digest()


def encode_digests(digests: Sequence[bytes]) -> bytes:
    """Make the content of a file of digests."""
    content = b"".join(digests)
    return zlib.crc32(content).to_bytes(4, "little") + content


def read_digests(path: str) -> "List[bytes]":
    """Read such a file. Raises DamagedData and OSError."""
    with open(path, "rb") as file:
        crc, content = file.read(4), file.read()
    if zlib.crc32(content).to_bytes(4, "little") != crc or len(content) % SIZE:
        raise damaged_notes(path)
    return [content[place : place + SIZE] for place in range(0, len(content), SIZE)]


class Digests:
    """A hash table with open addressing."""

    def __init__(self) -> None:
        self._count = 0
        self._slots = _FIRST_SLOTS
        self._table = self._new(_FIRST_SLOTS)

    def __len__(self) -> int:
        return self._count

    def add(self, digest: bytes) -> bool:
        """Add a digest; False when it is there already."""
        if self._count * 2 > self._slots:
            self._grow()
        place = self._find(digest)
        if self._table[place : place + SIZE] == digest:
            return False
        self._table[place : place + SIZE] = digest
        self._count += 1
        return True

    def _find(self, digest: bytes) -> int:
        slot = int.from_bytes(digest[:8], "little") & (self._slots - 1)
        while self._table[slot * SIZE : slot * SIZE + SIZE] not in (_EMPTY, digest):
            slot = (slot + 1) & (self._slots - 1)
        return slot * SIZE

    def _grow(self) -> None:
        old, slots = self._table, self._slots
        self._slots = slots * 2
        self._table = self._new(self._slots)
        for place in range(0, slots * SIZE, SIZE):
            digest = old[place : place + SIZE]
            if digest != _EMPTY:
                at = self._find(digest)
                self._table[at : at + SIZE] = digest
        old.close()

    @staticmethod
    def _new(slots: int) -> mmap.mmap:
        with tempfile.TemporaryFile() as file:
            file.truncate(slots * SIZE)
            return mmap.mmap(file.fileno(), slots * SIZE)
