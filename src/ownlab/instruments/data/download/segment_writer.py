"""Writes what a server sends into the segments of a part."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from ownlab.download import without_secrets
from ownlab.instruments.data.download.answers import ContentRange, parse_content_range
from ownlab.instruments.data.download.connection import Response, Transient
from ownlab.instruments.data.download.part_file import PartFile
from ownlab.instruments.data.download.segments import Run, Segments, SegmentState
from ownlab.text import text
from ownlab.units import MIB, format_bytes

__all__ = ["Changed", "SegmentWriter", "Stopped", "is_range", "span_of"]

_CHUNK = MIB // 4  # bytes of one read
_RECORD_EVERY = MIB  # bytes between two records of the map: what a killed worker repeats at most


class Stopped(Exception):
    """The download is being interrupted, or this file is being started afresh."""


class Changed(Exception):
    """The file on the server is not the one that the download began with."""


def span_of(segments: Segments, run: Run) -> tuple[int, int]:
    """Return the bytes that a run still needs: from, to."""
    start = run.first * segments.segment + segments.state(run.first).done
    return start, min(segments.size, (run.last + 1) * segments.segment)


def is_range(span: ContentRange | None, start: int, response: Response) -> bool:
    """Whether an answer has the bytes from `start`, and as many as it says."""
    if span is None or span.first != start or span.last is None:
        return False
    return response.length in (None, span.last + 1 - start)


class SegmentWriter:
    """One answer on its way into a part."""

    def __init__(
        self,
        part: PartFile,
        stopped: Callable[[], bool],
        received: Callable[[int], None],
        first_bytes: Callable[[bytes, Response], None],
    ) -> None:
        self._part, self._stopped, self._received, self._first_bytes = part, stopped, received, first_bytes

    def write_run(self, response: Response, segments: Segments, run: Run) -> bool:
        """Fill the segments of a run. False if the answer has other bytes than asked for, and nothing was written.

        Raises Transient if it is cut off, and Stopped.
        """
        start, _ = span_of(segments, run)
        span = parse_content_range(response.headers.get("Content-Range"))
        if response.status == 206 and not is_range(span, start, response):
            return False
        for index in range(run.first, run.last + 1):
            if not self._write_segment(response, segments, index):
                break
        return True

    def write_stream(self, response: Response) -> int:
        """Write an answer of unknown length from its beginning; return its length."""
        offset = 0
        while data := self._read(response, _CHUNK, offset):
            self._part.write(data, offset)
            offset += len(data)
        return offset

    def _write_segment(self, response: Response, segments: Segments, index: int) -> bool:
        """Read one segment to its end. False if the answer ended first, as it had announced."""
        done, crc32 = segments.state(index)
        length, base = segments.length(index), index * segments.segment
        recorded = done
        try:
            while done < length:
                data = self._read(response, min(_CHUNK, length - done), base + done)
                if not data:
                    if response.status == 206:
                        return False
                    raise _shorter(response, segments.size, base + done)
                self._part.write(data, base + done)
                done, crc32 = done + len(data), zlib.crc32(data, crc32)
                segments.advance(index, SegmentState(done, crc32))
                if done - recorded >= _RECORD_EVERY:
                    self._part.record(index, SegmentState(done, crc32))
                    recorded = done
        finally:
            if done > recorded:
                self._part.record(index, SegmentState(done, crc32))
        return True

    def _read(self, response: Response, most: int, offset: int) -> bytes:
        if self._stopped():
            raise Stopped
        data = response.read(most)
        if data and offset == 0:
            self._first_bytes(data, response)
        self._received(len(data))
        return data


def _shorter(response: Response, announced: int, received: int) -> Transient:
    return Transient(
        text(
            "{address} announced {announced}, and sent only {received}.",
            address=without_secrets(response.url),
            announced=format_bytes(announced),
            received=format_bytes(received),
        )
    )
