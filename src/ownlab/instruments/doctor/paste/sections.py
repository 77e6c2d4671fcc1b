"""Finds the reports in a text: which lines belong to which kind of report, and which to none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from ownlab.machine.records import Machine

__all__ = ["Kind", "Section", "Split", "run_of", "split"]


class Kind(NamedTuple):
    """A kind of report that we can read."""

    name: str  # in words, for people: "nvidia-smi table"
    opening: str  # regular expression, without groups of its own, for the start of its first line
    extent: Callable[
        [Sequence[str], int], int
    ]  # where the report that opens at this line ends; at the same line: it is none
    read: Callable[[Sequence[str]], Machine | None]  # None: it looked like one, and nothing could be read from it
    width: int = 1000  # longer lines are cut before they are read: none of its own are longer
    # A second one in the text is of another moment or machine ("first": it is left aside), a further piece of the same
    # report ("pieces": until `again`, if there is such a line, comes again), or as good as the first ("each").
    several: Literal["first", "pieces", "each"] = "first"
    again: str = ""


class Section(NamedTuple):
    kind: Kind
    lines: list[str]
    start: int  # its first line's place in the text


class Split(NamedTuple):
    sections: list[Section]
    left: list[tuple[int, int]]  # spans of lines that belong to no report


def split(lines: Sequence[str], kinds: Sequence[Kind]) -> Split:
    """Each line is looked at once for an opening; a report's own lines are only looked at by its kind."""
    # One search for all openings: a log of half a million lines must not be searched once for every kind.
    opening = re.compile("|".join(f"(?:{kind.opening})" for kind in kinds))
    each = [(kind, re.compile(kind.opening)) for kind in kinds]
    sections: list[Section] = []
    left: list[tuple[int, int]] = []
    begin = index = 0
    while index < len(lines):
        line = lines[index]
        if line and opening.match(line):
            for kind, pattern in each:
                end = kind.extent(lines, index) if pattern.match(line) else index
                if end > index:
                    sections.append(Section(kind, [line[: kind.width] for line in lines[index:end]], index))
                    if begin < index:
                        left.append((begin, index))
                    begin = end
                    break
        index = max(index + 1, begin)
    if begin < len(lines):
        left.append((begin, len(lines)))
    return Split(sections, left)


def run_of(pattern: re.Pattern[str], lines: Sequence[str], start: int, *, blanks: int = 0) -> int:
    """Where the run of lines that match ends; so many blank lines may stand between two of them."""
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
