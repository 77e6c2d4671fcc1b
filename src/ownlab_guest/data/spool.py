"""Entries on disk between listing and packing: a shuffle of any number of them in bounded memory.

Each entry gets a number that depends on the seed and its name alone. Listing writes the entry into the bucket of that
number; packing reads bucket after bucket and sorts each. Entries without shuffling go into one bucket, in their order.
"""

import hashlib
import itertools
import json
import os
import struct
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.atomic_files import replace_durably, sync
from ownlab_guest.data.errors import DamagedData
from ownlab_guest.data.shard_index import encode_text
from ownlab_guest.data.sources.source import Entry, Part
from ownlab_guest.text import text

# rank in the shuffle, bytes of the description, bytes of the data
_FRAME = struct.Struct("<QIQ")
_BUCKETS, _MOST_BUCKETS = 64, 256
_BUFFER = 1 << 16
_BUCKET_BYTES = 256 << 20
# A listing that keeps data is saved after so many bytes; a repetition skips what was saved.
_SAVE_BYTES = 1 << 30
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
        self._count = len(state["sizes"])
        taken, payload, classes = state["taken"], state["bytes"], set(state["classes"])
        counts: List[int] = state["counts"]
        files = [self._open(number, size) for number, size in enumerate(state["sizes"])]
        saved = payload
        try:
            for number, entry in enumerate(entries):
                if number < taken:
                    continue
                rank = self._rank(entry.name, number)
                bucket = rank * self._count >> 64 if self.seed is not None else 0
                files[bucket].write(_encoded(entry, rank))
                counts[bucket] += 1
                payload += sum(part.size for part in entry.parts)
                if isinstance(entry.label, str):
                    classes.add(entry.label)
                if number % 1024 == 0:
                    yield number + 1, payload
                if payload - saved > _SAVE_BYTES and any(part.data is not None for part in entry.parts):
                    saved = payload
                    self._save(
                        files, {"taken": number + 1, "counts": counts, "bytes": payload, "classes": sorted(classes)}
                    )
            for file in files:
                sync(file)
        finally:
            for file in files:
                file.close()
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
            with open(self._path(bucket), "rb") as file:
                places = _places(file)
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

    def _open(self, bucket: int, size: int) -> BinaryIO:
        """Open a bucket for writing behind what was saved of it."""
        file = open(self._path(bucket), "ab", buffering=_BUFFER)  # noqa: SIM115  # fill() closes it
        file.truncate(size)
        file.seek(size)
        return file

    def _save(self, files: "List[BinaryIO]", state: "Dict[str, Any]") -> None:
        for file in files:
            sync(file)
        state["sizes"] = [file.tell() for file in files]
        replace_durably(os.path.join(self.folder, _STATE), json.dumps(state).encode())

    def _finish(self, counts: "List[int]", payload: int, classes: "List[str]", left_out: int) -> None:
        done = {
            "counts": counts,
            "samples": sum(counts),
            "payload_bytes": payload,
            "classes": classes,
            "left_out": left_out,
        }
        replace_durably(os.path.join(self.folder, _DONE), json.dumps(done).encode())

    def _load(self, name: str) -> "Optional[Dict[str, Any]]":
        try:
            with open(os.path.join(self.folder, name), "rb") as file:
                fields: Dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as exc:
            raise DamagedData(
                text("{folder} is damaged.", folder=self.folder), hint=text("Remove it, and pack again.")
            ) from exc
        return fields


def _places(file: BinaryIO) -> "Iterator[Tuple[int, int]]":
    """Yield the rank and the place of each entry of a bucket."""
    place = 0
    while True:
        file.seek(place)
        frame = file.read(_FRAME.size)
        if not frame:
            return
        rank, described, data = _FRAME.unpack(frame)
        yield rank, place
        place += _FRAME.size + described + data


def _encoded(entry: Entry, rank: int) -> bytes:
    parts = [[part.extension, part.size, part.place, part.data is not None] for part in entry.parts]
    described = json.dumps([entry.name, entry.label, parts]).encode()  # escapes what is no UTF-8
    data = b"".join(part.data for part in entry.parts if part.data is not None)
    return _FRAME.pack(rank, len(described), len(data)) + described + data


def _decoded(file: BinaryIO, place: int) -> Entry:
    file.seek(place)
    _, size, data = _FRAME.unpack(file.read(_FRAME.size))
    name, label, rows = json.loads(file.read(size))
    content = file.read(data) if data else b""
    parts, at = [], 0
    for extension, length, reference, held in rows:
        parts.append(Part(extension, length, content[at : at + length] if held else None, reference))
        at += length if held else 0
    return Entry(name, label, tuple(parts))
