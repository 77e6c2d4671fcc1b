"""Sets of times as sorted intervals that do not overlap. Nanoseconds."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

__all__ = ["IntervalCollector", "Intervals", "common", "length", "without"]

Intervals = list[tuple[int, int]]

# Beyond this many, gaps between neighbours are what is lost.
_MOST = 4_000_000


class IntervalCollector:
    """Takes intervals in any order. Neighbours that overlap take no room: operators within operators come one after the other."""

    def __init__(self) -> None:
        self._begins, self._ends = array("q"), array("q")
        self.full = False

    def add(self, begin: int, end: int) -> None:
        """Add an interval."""
        if self._begins and begin <= self._ends[-1] and end >= self._begins[-1]:
            self._begins[-1], self._ends[-1] = min(begin, self._begins[-1]), max(end, self._ends[-1])
            return
        if len(self._begins) >= _MOST:
            self._compact()
        if self.full:
            return
        self._begins.append(begin)
        self._ends.append(end)

    def _compact(self) -> None:
        merged = self.merged()
        self.full = len(merged) > _MOST // 2
        self._begins = array("q", (begin for begin, _ in merged))
        self._ends = array("q", (end for _, end in merged))

    def merged(self) -> Intervals:
        """Return them sorted, and joined where they overlap."""
        joined: Intervals = []
        for begin, end in sorted(zip(self._begins, self._ends, strict=True)):
            if joined and begin <= joined[-1][1]:
                if end > joined[-1][1]:
                    joined[-1] = (joined[-1][0], end)
            elif end > begin:
                joined.append((begin, end))
        return joined


def length(intervals: Iterable[tuple[int, int]]) -> int:
    """The time in them."""
    return sum(end - begin for begin, end in intervals)


def common(first: Intervals, second: Intervals) -> Intervals:
    """The times that are in both."""
    found: Intervals = []
    one = other = 0
    while one < len(first) and other < len(second):
        begin, end = max(first[one][0], second[other][0]), min(first[one][1], second[other][1])
        if begin < end:
            found.append((begin, end))
        if first[one][1] < second[other][1]:
            one += 1
        else:
            other += 1
    return found


def without(first: Intervals, second: Intervals) -> Intervals:
    """The times of the first that are not in the second."""
    found: Intervals = []
    for begin, end in first:
        at = max(0, bisect_right(second, (begin, begin)) - 1)
        while at < len(second) and second[at][0] < end:
            low, high = second[at]
            if high > begin:
                if low > begin:
                    found.append((begin, low))
                begin = max(begin, high)
            at += 1
        if begin < end:
            found.append((begin, end))
    return found
