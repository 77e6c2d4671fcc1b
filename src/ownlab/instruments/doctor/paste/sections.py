"""Finds the reports in a text: which lines belong to which kind of report, and which to none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from ownlab.machine.records import Machine

__all__ = ["ReportKind", "Section", "Split", "end_of_run", "split"]


class ReportKind(NamedTuple):
    """A kind of report that ownlab can read."""

    name: str  # shown to users: "nvidia-smi table"
    opening: str  # a regular expression without groups for the start of its first line
    extent: Callable[
        [Sequence[str], int], int
    ]  # where the report that opens at this line ends; same line: not a report
    read: Callable[[Sequence[str]], Machine | None]  # None: it looked like a report, but nothing could be read
    width: int = 1000  # longer lines are cut before they are read: its own lines are shorter
    # A second report of this kind is from another time or machine and ignored ("first"), is another piece of the same
    # report, until a line matches `again` once more ("pieces"), or counts as much as the first ("each").
    several: Literal["first", "pieces", "each"] = "first"
    again: str = ""


class Section(NamedTuple):
    kind: ReportKind
    lines: list[str]
    start: int  # the number of its first line in the text


class Split(NamedTuple):
    sections: list[Section]
    rest: list[tuple[int, int]]  # spans of lines that belong to no report


def split(lines: Sequence[str], kinds: Sequence[ReportKind]) -> Split:
    """Split a text into reports and the rest. Each line is searched once for an opening, unless a report contains it."""
    # One search for all openings: a log of half a million lines must not be searched once for every kind.
    opening = re.compile("|".join(f"(?:{kind.opening})" for kind in kinds))
    each = [(kind, re.compile(kind.opening)) for kind in kinds]
    sections: list[Section] = []
    rest: list[tuple[int, int]] = []
    begin = index = 0
    while index < len(lines):
        line = lines[index]
        if line and opening.match(line):
            for kind, pattern in each:
                end = kind.extent(lines, index) if pattern.match(line) else index
                if end > index:
                    sections.append(Section(kind, [line[: kind.width] for line in lines[index:end]], index))
                    if begin < index:
                        rest.append((begin, index))
                    begin = end
                    break
        index = max(index + 1, begin)
    if begin < len(lines):
        rest.append((begin, len(lines)))
    return Split(sections, rest)


def end_of_run(pattern: re.Pattern[str], lines: Sequence[str], start: int, *, blanks: int = 0) -> int:
    """Return where the run of matching lines ends; up to `blanks` blank lines may separate two of them."""
    end, gap = start, 0
    for index in range(start, len(lines)):
        line = lines[index]
        if not line.strip():
            gap += 1
            if gap > blanks:
                break
        elif pattern.match(line):
            end, gap = index + 1, 0
        else:
            break
    return end
