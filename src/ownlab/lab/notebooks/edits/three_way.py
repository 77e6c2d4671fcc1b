"""Merges two versions of something against the version that both started from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

__all__ = ["MergedText", "merge_dict", "merge_order", "merge_text"]

# Longer parts are not compared line by line, which would take seconds: they count as changed as a whole.
_MAX_LINES = 5_000


class MergedText(NamedTuple):
    """The merged text, and whether both versions changed the same lines, in which case `ours` was kept there."""

    text: str
    conflict: bool


def merge_text(base: str, ours: str, theirs: str) -> MergedText:
    """Merge line by line. Where both changed the same lines in different ways, keep ours."""
    if ours == theirs or theirs == base:
        return MergedText(ours, False)
    if ours == base:
        return MergedText(theirs, False)
    # Without line ends: whoever appends a line does not change the one before.
    return _merge_lines(*(text.split("\n") for text in (base, ours, theirs)))


class _Change(NamedTuple):
    """Base lines start:end became `lines`."""

    start: int
    end: int
    lines: list[str]


def _merge_lines(base: list[str], ours: list[str], theirs: list[str]) -> MergedText:
    mine, other = _changes(base, ours), _changes(base, theirs)
    merged: list[str] = []
    position, conflict = 0, False
    while mine or other:
        start = min(changes[0].start for changes in (mine, other) if changes)
        region, end = _take_region(mine, other, start)
        merged += base[position:start]
        ours_here, theirs_here = region
        our_lines = _lines_of(base, ours_here, start, end)
        their_lines = _lines_of(base, theirs_here, start, end)
        if ours_here and theirs_here and our_lines != their_lines:
            conflict = True
            merged += _resolve(base, ours_here, theirs_here, start, end)
        else:
            merged += our_lines if ours_here else their_lines
        position = end
    merged += base[position:]
    return MergedText("\n".join(merged), conflict)


def _take_region(
    mine: list[_Change], other: list[_Change], start: int
) -> tuple[tuple[list[_Change], list[_Change]], int]:
    """Take the changes of both sides that overlap, directly or through others, beginning at `start`."""
    taken: tuple[list[_Change], list[_Change]] = ([], [])
    end, growing = start, True
    while growing:
        growing = False
        for side, changes in enumerate((mine, other)):
            while changes and (changes[0].start < end or changes[0].start == start):
                change = changes.pop(0)
                taken[side].append(change)
                end, growing = max(end, change.end), True
    return taken, end


def _resolve(base: list[str], ours: Sequence[_Change], theirs: Sequence[_Change], start: int, end: int) -> list[str]:
    """Merge changes of the same lines.

    Where one side only removed lines, those are gone and the lines of the other side are kept: the removed lines may be in
    another cell now, since a cell was split. Otherwise our version is kept.
    """
    if not any(change.lines for change in theirs):
        return _lines_of(base, ours, start, end, _removed(theirs))
    if not any(change.lines for change in ours):
        return _lines_of(base, theirs, start, end, _removed(ours))
    return _lines_of(base, ours, start, end)


def _removed(changes: Sequence[_Change]) -> frozenset[int]:
    return frozenset(number for change in changes for number in range(change.start, change.end))


def _lines_of(
    base: list[str], changes: Sequence[_Change], start: int, end: int, without: frozenset[int] = frozenset()
) -> list[str]:
    """Return base lines start:end after the changes, without some of the lines that they keep."""
    lines: list[str] = []
    for change in [*changes, _Change(end, end, [])]:
        lines += [base[number] for number in range(start, change.start) if number not in without]
        lines += change.lines
        start = change.end
    return lines


def _changes(base: list[str], changed: list[str]) -> list[_Change]:
    """Return the changes in order.

    An edit is mostly in one place. Only what differs there is compared: among lines that repeat, difflib would match the longest
    run of equal ones, wherever it is, and take the rest for changed.
    """
    start, (end, changed_end) = 0, (len(base), len(changed))
    while start < min(end, changed_end) and base[start] == changed[start]:
        start += 1
    while start < min(end, changed_end) and base[end - 1] == changed[changed_end - 1]:
        end, changed_end = end - 1, changed_end - 1
    before, after = base[start:end], changed[start:changed_end]
    if max(len(before), len(after)) > _MAX_LINES:
        return [_Change(start, end, after)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        _Change(start + i1, start + i2, after[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    ]


def merge_order(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], alive: Iterable[str]) -> list[str]:
    """Merge two orders of cells. `alive`: the cells that remain, each of which is in one of the orders.

    The cells that only one side has stay behind the cell that they followed there. If both sides moved cells, our order
    counts.
    """
    common = set(ours) & set(theirs)
    in_base = [cell for cell in base if cell in common]
    we_moved = [cell for cell in ours if cell in common] != in_base
    first, second = (ours, theirs) if we_moved else (theirs, ours)
    remaining = set(alive)
    merged = list(first)
    known = set(first)
    for index, cell in enumerate(second):
        if cell not in known:
            merged.insert(_place(merged, second[:index]), cell)
            known.add(cell)
    return [cell for cell in merged if cell in remaining]


def _place(order: list[str], before: Sequence[str]) -> int:
    """Return the index behind the nearest of the cells in `before` that the order has."""
    for cell in reversed(before):
        if cell in order:
            return order.index(cell) + 1
    return 0


def merge_dict(ours: dict[str, Any], base: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Take over the keys that they changed."""
    for name in base.keys() | theirs.keys():
        if base.get(name) != theirs.get(name):
            if name in theirs:
                ours[name] = theirs[name]
            else:
                ours.pop(name, None)
