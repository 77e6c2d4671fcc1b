"""The events of a trace in Chrome's format, one at a time: a trace has gigabytes, and may be one line.

torch.profiler writes `{…, "traceEvents": [{…}, …], …}`; other tools write the list alone. Memory is bounded by a part of the file and
the largest event.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from ownlab.errors import NotRecognised, RecordError
from ownlab.input_files import read_parts
from ownlab.text import text

__all__ = ["EventStream"]

_GZIP = b"\x1f\x8b"
# The list begins within this many characters: before it are properties of the devices.
_LONGEST_HEAD = 64 << 20
_LARGEST_EVENT = 16 << 20
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_LIST = re.compile(r"\s*\[")
_BETWEEN = re.compile(r"[\s,]*")


class EventStream:
    """Yields the events of a file. `complete` says afterwards whether the list was closed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.complete = False
        self._decoder = json.JSONDecoder()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        parts = _decoded(self.path)
        buffer, position = self._find_list(parts)
        while True:
            match = _BETWEEN.match(buffer, position)
            position = match.end() if match else position
            if buffer[position : position + 1] == "]":
                self.complete = True
                return
            try:
                event, position = self._decoder.raw_decode(buffer, position)
            except (ValueError, RecursionError) as exc:
                buffer, position = buffer[position:], 0
                part = next(parts, "")
                if not part:
                    return  # the program that wrote it has ended early
                if len(buffer) > _LARGEST_EVENT or isinstance(exc, RecursionError):
                    raise RecordError(text("{path} is damaged: {reason}.", path=self.path, reason=exc)) from exc
                buffer += part
                continue
            if isinstance(event, dict):
                yield event
            if position > len(buffer) // 2 and len(buffer) > _LARGEST_EVENT:
                buffer, position = buffer[position:], 0

    def _find_list(self, parts: Iterator[str]) -> tuple[str, int]:
        buffer = ""
        for part in parts:
            buffer += part
            match = _LIST.match(buffer) or _BEGIN.search(buffer)
            if match is not None:
                return buffer, match.end()
            if len(buffer) > _LONGEST_HEAD:
                break
        raise NotRecognised(
            text("{path} is no trace: it has no list of events.", path=self.path),
            hint=text("torch.profiler writes one with profiler.export_chrome_trace(FILE), or tensorboard_trace_handler(FOLDER)."),
        )  # fmt: skip


def _decoded(path: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    for part in _unpacked(read_parts(path), path):
        yield decoder.decode(part)


def _unpacked(parts: Iterable[bytes], path: str) -> Iterator[bytes]:
    """Unpack gzip, also of several members; other files as they are."""
    unpack: Any = None
    first = True
    for part in parts:
        if first and part.startswith(_GZIP):
            unpack = zlib.decompressobj(wbits=31)
        first = False
        if unpack is None:
            yield part
            continue
        while part:
            try:
                yield unpack.decompress(part, _LARGEST_EVENT)
            except zlib.error as exc:
                raise RecordError(text("{path} is damaged: {reason}.", path=path, reason=exc)) from exc
            part = unpack.unconsumed_tail
            if unpack.eof:
                part = unpack.unused_data
                unpack = zlib.decompressobj(wbits=31)
