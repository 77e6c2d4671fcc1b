"""Entries on disk between listing and packing: a shuffle of any number of them in bounded memory.

Each entry gets a number that depends on the seed and its name alone. Listing writes the entry into the bucket of that
number; packing reads bucket after bucket and sorts each. Entries without shuffling go into one bucket, in their order.
A listing that fits into memory is one bucket: waiting for the disk once for each of many files would take longer than listing.
"""

import contextlib
import hashlib
import io
import itertools
import json
import operator
import os
import struct
import zlib
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.atomic_files import replace_durably, sync
from ownlab_guest.data.sealed_json import damaged_notes, seal, unseal
from ownlab_guest.data.shard_index import encode_text
from ownlab_guest.data.sources.source import Entry, Part

# rank in the shuffle, bytes of the description, bytes of the data, CRC-32 of all three; that of description and data follows both
_FRAME, _CRC = struct.Struct("<QIQI"), struct.Struct("<I")
_BUCKETS, _MOST_BUCKETS = 64, 256
_BUFFER = 1 << 16
_BUCKET_BYTES = 256 << 20
# A listing that keeps data is saved after so many bytes; a repetition skips what was saved.
_SAVE_BYTES = 1 << 30
# What is listed is kept in memory up to here; a bucket without data that is no larger is read at once.
_MEMORY_BYTES = 32 << 20
# What Python needs for an entry in memory, besides its bytes.
_ROW_BYTES = 150
_STATE, _DONE = "listing.json", "listed.json"


class Listed(NamedTuple):
    """What listing has found."""

    counts: Tuple[int, ...]  # entries of each bucket
    samples: int
    payload_bytes: int  # as far as the source knows sizes
    classes: Tuple[str, ...]
    left_out: int


class Spool:
    """The buckets in a folder."""

    def __init__(self, folder: str, *, seed: Optional[int], expected_bytes: int = 0) -> None:
        """seed None: the order of the source."""
        self.folder, self.seed = folder, seed
        wanted = max(_BUCKETS, expected_bytes // _BUCKET_BYTES)
        self._count = 1 if seed is None else min(_MOST_BUCKETS, wanted)

    def listed(self) -> Optional[Listed]:
        """Return what is listed, if listing was finished."""
        fields = self._load(_DONE)
        if fields is None:
            return None
        return Listed(
            tuple(fields["counts"]),
            fields["samples"],
            fields["payload_bytes"],
            tuple(fields["classes"]),
            fields["left_out"],
        )

    def has_begun(self) -> bool:
        """Whether there is a listing, or a part of one, that would be continued."""
        return any(os.path.exists(os.path.join(self.folder, name)) for name in (_STATE, _DONE))

    def fill(self, entries: Iterable[Entry], left_out: Callable[[], int]) -> "Iterator[Tuple[int, int]]":
        """Write all entries; yield now and then how many, and how many bytes. An interrupted listing continues."""
        os.makedirs(self.folder, exist_ok=True)
        state = self._load(_STATE) or {
            "taken": 0,
            "sizes": [0] * self._count,
            "counts": [0] * self._count,
            "bytes": 0,
            "classes": [],
        }
        taken, payload, classes = state["taken"], state["bytes"], set(state["classes"])
        saved = payload
        with _Buckets(self._path, state["sizes"], state["counts"]) as buckets:
            for number, entry in enumerate(entries):
                if number < taken:
                    continue
                rank = self._rank(entry.name, number)
                buckets.add(0 if self.seed is None else rank * len(state["sizes"]) >> 64, rank, _encoded(entry, rank))
                payload += sum(part.size for part in entry.parts)
                if isinstance(entry.label, str):
                    classes.add(entry.label)
                if number % 1024 == 0:
                    yield number + 1, payload
                if payload - saved > _SAVE_BYTES and any(part.data is not None for part in entry.parts):
                    saved = payload
                    sizes = buckets.save()
                    fields = {"counts": buckets.counts, "bytes": payload, "classes": sorted(classes)}
                    replace_durably(
                        os.path.join(self.folder, _STATE), seal({"taken": number + 1, "sizes": sizes, **fields})
                    )
            counts = buckets.finish()
        self._finish(counts, payload, sorted(classes), left_out())
        yield sum(counts), payload

    def entries(self, skip: int = 0) -> Iterator[Entry]:
        """Yield the entries in the order of packing, without the first ones."""
        listed = self.listed()
        assert listed is not None
        for bucket, count in enumerate(listed.counts):
            if skip >= count:
                skip -= count
                continue
            with _opened(self._path(bucket)) as file:
                places = _places(file, count)
                # Sorting takes a table of the bucket; without it a listing of any length is read in its order.
                chosen = places if self.seed is None else iter(sorted(places))
                for _, place in itertools.islice(chosen, skip, None):
                    yield _decoded(file, place)
            skip = 0

    def _rank(self, name: str, number: int) -> int:
        if self.seed is None:
            return number
        key = (self.seed % 2**64).to_bytes(8, "little")
        return int.from_bytes(hashlib.blake2b(encode_text(name), digest_size=8, key=key).digest(), "little")

    def _path(self, bucket: int) -> str:
        return os.path.join(self.folder, f"bucket-{bucket:03d}")

    def _finish(self, counts: "List[int]", payload: int, classes: "List[str]", left_out: int) -> None:
        done = {
            "counts": counts,
            "samples": sum(counts),
            "payload_bytes": payload,
            "classes": classes,
            "left_out": left_out,
        }
        replace_durably(os.path.join(self.folder, _DONE), seal(done))

    def _load(self, name: str) -> "Optional[Dict[str, Any]]":
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                fields: Dict[str, Any] = unseal(file.read(), file.name)
        except FileNotFoundError:
            return None
        return fields


class _Buckets:
    """The entries while they are listed: in memory, and in files as soon as they are many."""

    def __init__(self, path: Callable[[int], str], sizes: "List[int]", counts: "List[int]") -> None:
        """sizes, counts: what an earlier attempt has saved of each bucket."""
        self.counts = counts
        self._path, self._sizes = path, sizes
        self._files: List[BinaryIO] = []
        self._kept: List[Tuple[int, int, bytes]] = []  # bucket, rank, encoded entry
        self._kept_bytes = 0
        if any(sizes):
            self._open_all()

    def __enter__(self) -> "_Buckets":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, bucket: int, rank: int, encoded: bytes) -> None:
        """Take the next entry."""
        self.counts[bucket] += 1
        if self._files:
            self._files[bucket].write(encoded)
            return
        self._kept.append((bucket, rank, encoded))
        self._kept_bytes += len(encoded) + _ROW_BYTES
        if self._kept_bytes > _MEMORY_BYTES:
            self._open_all()

    def save(self) -> "List[int]":
        """Bring everything to the disk; return the size of each bucket."""
        if not self._files:
            self._open_all()
        for file in self._files:
            sync(file)
        return [file.tell() for file in self._files]

    def finish(self) -> "List[int]":
        """Bring everything to the disk; return the entries of each bucket. What was kept in memory is one."""
        if self._files:
            self.save()
            return self.counts
        self._kept.sort(key=operator.itemgetter(1))
        with open(self._path(0), "wb") as file:
            file.writelines(encoded for _, _, encoded in self._kept)
            sync(file)
        return [len(self._kept)]

    def _open_all(self) -> None:
        """Open all buckets behind what was saved of them, and write what was kept."""
        for bucket, size in enumerate(self._sizes):
            file = open(self._path(bucket), "ab", buffering=_BUFFER)  # noqa: SIM115  # __exit__ closes it
            self._files.append(file)
            file.truncate(size)
            file.seek(size)
        for bucket, _, encoded in self._kept:
            self._files[bucket].write(encoded)
        self._kept = []


class _Loaded(io.BytesIO):
    """A bucket in memory; errors name its file."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a bucket; a small one is read at once."""
    with open(path, "rb") as file:
        small = os.fstat(file.fileno()).st_size <= _MEMORY_BYTES
        yield _Loaded(file.read(), path) if small else file


def _places(file: BinaryIO, count: int) -> "Iterator[Tuple[int, int]]":
    """Yield the rank and the place of each entry of a bucket."""
    place, end = 0, file.seek(0, os.SEEK_END)
    for _ in range(count):
        file.seek(place)
        rank, described, data = _frame(file)
        yield rank, place
        place += _FRAME.size + described + data + _CRC.size
    if place != end:
        raise damaged_notes(file.name)


def _frame(file: BinaryIO) -> "Tuple[int, int, int]":
    frame = file.read(_FRAME.size)
    if len(frame) < _FRAME.size or zlib.crc32(frame[: -_CRC.size]) != _CRC.unpack(frame[-_CRC.size :])[0]:
        raise damaged_notes(file.name)
    rank, described, data, _ = _FRAME.unpack(frame)
    return rank, described, data


def _encoded(entry: Entry, rank: int) -> bytes:
    parts = [[part.extension, part.size, part.place, part.data is not None] for part in entry.parts]
    described = json.dumps([entry.name, entry.label, parts]).encode()  # escapes what is no UTF-8
    data = b"".join(part.data for part in entry.parts if part.data is not None)
    frame = _FRAME.pack(rank, len(described), len(data), 0)[: -_CRC.size]
    content = described + data
    return frame + _CRC.pack(zlib.crc32(frame)) + content + _CRC.pack(zlib.crc32(content))


def _decoded(file: BinaryIO, place: int) -> Entry:
    file.seek(place)
    _, size, data = _frame(file)
    content = file.read(size + data)
    if _CRC.pack(zlib.crc32(content)) != file.read(_CRC.size):
        raise damaged_notes(file.name)
    name, label, rows = json.loads(content[:size])
    parts, at = [], size
    for extension, length, reference, held in rows:
        parts.append(Part(extension, length, content[at : at + length] if held else None, reference))
        at += length if held else 0
    return Entry(name, label, tuple(parts))
