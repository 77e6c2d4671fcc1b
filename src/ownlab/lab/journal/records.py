"""One record of a journal: a message that passed a supervisor, or an event, with its number; and how it lies on disk.

Standard library alone: a supervisor imports it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["CHANNELS", "EVENT", "Damaged", "Record", "decode", "encode", "event", "json_object"]

EVENT = "event"
# Their place is the number on disk: append only.
CHANNELS = ("shell", "control", "stdin", "iopub", EVENT)

# Checksum of all that follows; then: size of the whole record, its number, when it passed, channel, direction, parts.
_CHECK = struct.Struct("<I")
_HEAD = struct.Struct("<IQdBBH")
_START = _CHECK.size + _HEAD.size
_LENGTH = struct.Struct("<I")


class Damaged(Exception):
    """Bytes that are no whole record."""


class Record(NamedTuple):
    """What passed. Numbers grow by one with each; in a compacted file some stand for several, under the newest number."""

    number: int
    channel: str
    to_kernel: bool
    at: float  # seconds since 1970, by the supervisor's clock
    parts: tuple[bytes, ...]  # header, parent header, metadata, content, buffers …; of an event one JSON object


def event(number: int, at: float, what: str, **more: object) -> Record:
    """ "kernel" (launch), "kernel-ended" (why), "lost" (count, why), "ended" (why): what is no message."""
    return Record(number, EVENT, False, at, (json.dumps({"event": what, **more}).encode(),))


def encode(records: Iterable[Record]) -> list[bytes]:
    """The pieces to write, one after the other. Large parts are not copied."""
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
    """The record at a place, and where the next one begins. Damaged where there is no whole one."""
    view = memoryview(data)
    if len(view) - offset < _START:
        raise Damaged("its head is cut")
    (check,) = _CHECK.unpack_from(view, offset)
    size, number, at, channel, to_kernel, count = _HEAD.unpack_from(view, offset + _CHECK.size)
    end = offset + size
    if size < _START + count * _LENGTH.size or end > len(view) or channel >= len(CHANNELS):
        raise Damaged("it is cut, or no record")
    if zlib.crc32(view[offset + _CHECK.size : end]) != check:
        raise Damaged("its checksum is wrong")
    place = offset + _START
    lengths = struct.unpack_from(f"<{count}I", view, place)
    place += count * _LENGTH.size
    if place + sum(lengths) != end:
        raise Damaged("its parts do not fill it")
    parts = []
    for length in lengths:
        parts.append(bytes(view[place : place + length]))
        place += length
    return Record(number, CHANNELS[channel], bool(to_kernel), at, tuple(parts)), end


def json_object(part: bytes) -> dict[str, Any]:
    """A part's JSON object; empty where it is none, since a notebook may send what it likes."""
    try:
        value = json.loads(part)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
