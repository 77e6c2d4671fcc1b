"""Traces replayed through the allocator's model: peaks, the smallest capacity that works, and other paths it could take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ownlab.instruments.fit.allocator import PLAIN, Allocator, OutOfMemory, Policy
from ownlab.instruments.fit.expandable_segments import ExpandableAllocator
from ownlab.instruments.fit.records import Trace
from ownlab.units import MIB

__all__ = ["Event", "Peaks", "events_of", "make_allocator", "other_paths", "peaks_of", "smallest_capacity"]

# The smallest capacity is looked for as finely as this.
_FINE = 8 * MIB


class Event(NamedTuple):
    """A storage that comes, or goes: then it has -1 bytes."""

    name: int
    bytes: int
    tag: int


class Peaks(NamedTuple):
    """What a replay came to."""

    allocated: int
    reserved: int


def events_of(trace: Trace) -> list[Event]:
    """Its events as rows."""
    columns = trace.events
    return [Event(*row) for row in zip(columns.name, columns.bytes, columns.tag, strict=True)]


def make_allocator(capacity: int | None = None, policy: Policy = PLAIN) -> Allocator:
    """The one that the policy asks for."""
    return (ExpandableAllocator if policy.expandable_segments else Allocator)(capacity, policy)


def peaks_of(events: Iterable[Event], allocator: Allocator) -> Peaks:
    """Let everything come and go. Raises OutOfMemory where its capacity does not suffice."""
    allocate, free = allocator.allocate, allocator.free
    for name, size, _ in events:
        if size < 0:
            free(name)
        else:
            allocate(name, size)
    return Peaks(allocator.peak_allocated, allocator.peak_reserved)


def smallest_capacity(events: list[Event], peaks: Peaks, policy: Policy = PLAIN) -> int:
    """The least that may be reserved so that it runs: before it fails, the allocator gives back what it has cached."""
    fails, works = peaks.allocated - 1, peaks.reserved
    while works - fails > _FINE:
        middle = (fails + works) // 2
        try:
            peaks_of(events, make_allocator(middle, policy))
            works = middle
        except OutOfMemory:
            fails = middle
    return works


def other_paths(events: list[Event], workspace: frozenset[int]) -> Iterator[list[Event]]:
    """The same tensors, a little otherwise: what is reserved depends on which small thing lay where.

    `workspace`: tags of libraries' memory. What they take and give back inside an operation is least certain.
    """
    brief = {
        first.name
        for first, second in pairwise(events)
        if first.tag in workspace and first.name == second.name and first.bytes >= 0
    }
    yield [event for event in events if event.name not in brief]
    yield from (_freed_later(events, by) for by in (1, 2))


def _freed_later(events: list[Event], by: int) -> list[Event]:
    """Names of Python variables keep tensors a little longer in one program than in another."""
    late: list[Event] = []
    waiting: list[tuple[int, Event]] = []
    comes = 0
    for event in events:
        if event.bytes < 0:
            waiting.append((comes + by, event))
            continue
        late.append(event)
        comes += 1
        while waiting and waiting[0][0] <= comes:
            late.append(waiting.pop(0)[1])
    return [*late, *(event for _, event in waiting)]
