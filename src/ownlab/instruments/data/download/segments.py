"""The segments of one file: what has arrived, and which worker fetches what next. No input or output."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from ownlab.units import MIB

__all__ = ["Run", "SegmentState", "Segments", "segment_size"]

_SMALLEST, _LARGEST = MIB, 8 * MIB
_LONGEST_RUN = 64 * MIB  # one request; a connection pauses for a round trip between two of them


def segment_size(size: int) -> int:
    """Return how a file of this size is cut: about 64 segments, of 1, 2, 4 or 8 MiB."""
    segment = _SMALLEST
    while segment < _LARGEST and size > 64 * segment:
        segment *= 2
    return segment


class SegmentState(NamedTuple):
    """How much of a segment has arrived, from its beginning, and the CRC32 of that."""

    done: int = 0
    crc32: int = 0


class Run(NamedTuple):
    """Neighbouring segments that one request fetches."""

    first: int
    last: int  # inclusive


class Segments:
    """For several threads."""

    def __init__(self, size: int, segment: int, states: Iterable[tuple[int, SegmentState]] = ()) -> None:
        self.size = size
        self.segment = segment
        self.count = -(-size // segment)
        self._states = [SegmentState()] * self.count
        for index, state in states:
            self._states[index] = state
        self._claimed: set[int] = set()
        self._lowest = 0  # below it, all segments are complete
        self.lock = threading.Lock()

    def length(self, index: int) -> int:
        """Return the bytes of a segment; the last one is shorter."""
        return min(self.segment, self.size - index * self.segment)

    def state(self, index: int) -> SegmentState:
        """Return what has arrived of a segment."""
        return self._states[index]

    def is_complete(self, index: int) -> bool:
        """Whether a segment has arrived."""
        return self._states[index].done == self.length(index)

    def claim(self, workers: int) -> Run | None:
        """Return the next run for a worker, which then owns it; None if all is complete or claimed.

        The lowest first, so that the checksum can follow. Runs become shorter towards the end: all workers end together.
        """
        with self.lock:
            first = next((i for i in range(self.prefix_segments(), self.count) if self._is_free(i)), None)
            if first is None:
                return None
            left = (self.count - first) * self.segment
            length = max(1, min(_LONGEST_RUN, left // (2 * max(1, workers))) // self.segment)
            last = first
            while last + 1 < self.count and last + 1 - first < length and self._is_free(last + 1):
                if self._states[last + 1].done:  # one request has one beginning
                    break
                last += 1
            self._claimed.update(range(first, last + 1))
            return Run(first, last)

    def claim_beginning(self, length: int) -> Run:
        """Return the run of the first `length` bytes, for the worker that has asked for them already."""
        with self.lock:
            run = Run(0, min(self.count, -(-length // self.segment)) - 1)
            self._claimed.update(range(run.first, run.last + 1))
            return run

    def release(self, run: Run) -> None:
        """End a worker's claim, whether or not the run is complete."""
        with self.lock:
            self._claimed.difference_update(range(run.first, run.last + 1))

    def advance(self, index: int, state: SegmentState) -> None:
        """Record what has arrived of a segment."""
        self._states[index] = state

    def reset(self, indices: Iterable[int]) -> None:
        """Forget segments whose content turned out to be wrong."""
        with self.lock:
            for index in indices:
                self._states[index] = SegmentState()
                self._lowest = min(self._lowest, index)

    def prefix_segments(self) -> int:
        """Return the number of complete segments at the beginning."""
        while self._lowest < self.count and self.is_complete(self._lowest):
            self._lowest += 1
        return self._lowest

    def arrived(self) -> int:
        """Return the bytes that have arrived."""
        return sum(state.done for state in self._states)

    def all_complete(self) -> bool:
        """Whether the whole file has arrived."""
        return self.prefix_segments() == self.count

    def _is_free(self, index: int) -> bool:
        return index not in self._claimed and not self.is_complete(index)
