"""One record of a journal: a forwarded message or an event, with its number; and its binary format.

Standard library only: supervisors import it.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ownlab.text import pack_texts

__all__ = [
    "CHANNELS",
    "EVENT",
    "HEAD_BYTES",
    "Damaged",
    "Head",
    "Record",
    "decode",
    "encode",
    "event",
    "json_object",
    "possible_starts",
    "read_head",
]

EVENT = "event"
# The index is the number on disk: append only.
CHANNELS = ("shell", "control", "stdin", "iopub", EVENT)

# Checksum of everything after it; then: size of the whole record, number, time, channel, direction, number of parts.
_CHECK = struct.Struct("<I")
_HEAD = struct.Struct("<IQdBBH")
_START = _CHECK.size + _HEAD.size
_LENGTH = struct.Struct("<I")
HEAD_BYTES = _START
# What every head has, seen from the upper bytes of its number: they are 0, channel and direction are small, and the size
# before the number is not 0.
_POSSIBLE = re.compile(rb"(?=\0\0\0.{8}[\0-\x04][\0\x01])(?<!\0\0\0\0.....)", re.DOTALL)
_POSSIBLE_AT = 13  # offset of these bytes in a record


class Damaged(Exception):
    """Bytes that are not a complete record."""


class Record(NamedTuple):
    """A message or event. Numbers increase by one; in a compacted file a record may stand for several, with the last number."""

    number: int
    channel: str
    to_kernel: bool
    at: float  # seconds since 1970 on the supervisor's clock
    parts: tuple[bytes, ...]  # header, parent header, metadata, content, buffers …; one JSON object for an event


class Head(NamedTuple):
    """The beginning of a record, not verified."""

    size: int
    number: int
    consistent: bool | None  # whether the lengths of the parts add up to the size; None: they are not all there


def event(number: int, at: float, what: str, **more: object) -> Record:
    """Make an event: "kernel" (launch), "kernel-ended" (why, death), "lost" (count, bytes, why) or "ended" (why)."""
    return Record(number, EVENT, False, at, (json.dumps(pack_texts({"event": what, **more})).encode(),))


def encode(records: Iterable[Record]) -> list[bytes]:
    """Return the pieces to write, in order. Large parts are not copied."""
    pieces: list[bytes] = []
    for record in records:
        lengths = struct.pack(f"<{len(record.parts)}I", *map(len, record.parts))
        size = _START + len(lengths) + sum(map(len, record.parts))
        head = _HEAD.pack(
            size, record.number, record.at, CHANNELS.index(record.channel), record.to_kernel, len(record.parts)
        )
        front = head + lengths
        check = zlib.crc32(front)
        for part in record.parts:
            check = zlib.crc32(part, check)
        pieces += [_CHECK.pack(check) + front, *record.parts]
    return pieces


def decode(data: bytes | memoryview, offset: int = 0) -> tuple[Record, int]:
    """Return the record at an offset and the offset of the next one. Damaged if there is no complete record."""
    view = memoryview(data)
    if len(view) - offset < _START:
        raise Damaged("the head is incomplete")
    (check,) = _CHECK.unpack_from(view, offset)
    size, number, at, channel, to_kernel, count = _HEAD.unpack_from(view, offset + _CHECK.size)
    end = offset + size
    if size < _START + count * _LENGTH.size or end > len(view) or channel >= len(CHANNELS):
        raise Damaged("it is incomplete, or not a record")
    if zlib.crc32(view[offset + _CHECK.size : end]) != check:
        raise Damaged("the checksum is wrong")
    place = offset + _START
    lengths = struct.unpack_from(f"<{count}I", view, place)
    place += count * _LENGTH.size
    if place + sum(lengths) != end:
        raise Damaged("the parts do not fill it")
    parts = []
    for length in lengths:
        parts.append(bytes(view[place : place + length]))
        place += length
    return Record(number, CHANNELS[channel], bool(to_kernel), at, tuple(parts)), end


def read_head(data: bytes | memoryview, offset: int = 0) -> Head | None:
    """Return the head at an offset; None if it is not all there."""
    if len(data) - offset < _START:
        return None
    size, number, _, _, _, count = _HEAD.unpack_from(data, offset + _CHECK.size)
    to_lengths = _START + count * _LENGTH.size
    consistent = None
    if len(data) - offset >= to_lengths:
        consistent = size == to_lengths + sum(struct.unpack_from(f"<{count}I", data, offset + _START))
    return Head(size, number, consistent)


def possible_starts(data: bytes) -> Iterator[int]:
    """Return the offsets at which a record may begin, to find the next one after damage. `decode` verifies it."""
    if not data.strip(b"\0"):
        return  # a hole in the file
    for match in _POSSIBLE.finditer(data):
        if match.start() >= _POSSIBLE_AT:
            yield match.start() - _POSSIBLE_AT


def json_object(part: bytes) -> dict[str, Any]:
    """Parse a part as a JSON object; empty if it is invalid, since a notebook may send anything."""
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
