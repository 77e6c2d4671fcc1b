"""Kernel messages on a websocket, in the framing v1.kernel.websocket.jupyter.org: nothing of them is parsed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["PROTOCOL", "frame", "unframe"]

PROTOCOL = "v1.kernel.websocket.jupyter.org"

_WORD = struct.Struct("<Q")
_PARTS = 4  # header, parent header, metadata, content; then buffers


def frame(number: int, channel: str, parts: Sequence[bytes]) -> bytes:
    """A message for a page that follows: its number (0: it has none), then as Jupyter frames it."""
    pieces = (channel.encode(), *parts)
    count = len(pieces) + 1
    place = _WORD.size * (1 + count)
    places = [place]
    for piece in pieces:
        place += len(piece)
        places.append(place)
    return b"".join((struct.pack(f"<{2 + count}Q", number, count, *places), *pieces))


def unframe(data: bytes) -> tuple[str, list[bytes]]:
    """Channel and parts of what a page sent; ValueError where it is no message."""
    try:
        (count,) = _WORD.unpack_from(data)
        places = struct.unpack_from(f"<{count}Q", data, _WORD.size)
    except (struct.error, OverflowError, MemoryError) as exc:
        raise ValueError("it is cut") from exc
    if count < _PARTS + 2 or places[-1] > len(data) or list(places) != sorted(places):
        raise ValueError("its parts are not where it says")
    channel, *parts = (data[start:end] for start, end in pairwise(places))
    return channel.decode(), parts
