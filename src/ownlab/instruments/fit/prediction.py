"""From a trace to figures: peaks and their parts, where in the step, which modules, and a band where the path decides."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from ownlab.instruments.fit.calibration import CONTEXT_ERROR, H200, Context, predict_context
from ownlab.instruments.fit.records import (
    KINDS,
    Band,
    Fit,
    ModuleShare,
    Parts,
    Peak,
    Phase,
    Request,
    Tag,
    Timeline,
    Trace,
)
from ownlab.instruments.fit.torch_allocator import (
    DEFAULT_SETTINGS,
    Allocator,
    AllocatorSettings,
    OutOfMemory,
    parse_settings,
)
from ownlab.instruments.fit.torch_allocator_expandable import ExpandableAllocator
from ownlab.units import MIB

__all__ = [
    "Event",
    "Peaks",
    "find_smallest_capacity",
    "make_allocator",
    "module_shares",
    "predict",
    "read_events",
    "reorder_events",
    "replay",
]

_POINTS = 240
# How far what an H200 reserved lay from the prediction, in 25 models (torch 2.11.0+cu130, 2026-11-15): within the first where
# no other path led farther away, within the second in all.
_LEAST_APART, _MOST_APART = 0.015, 0.065
_STEADY = "other orders of the same tensors come to the same"
_SHAKY = "what the allocator keeps depends on the order in which tensors come and go"


def predict(trace: Trace, request: Request, allocator: str = "", cuda: Context = H200) -> Fit:
    """All that a trace says, but for the cards. `allocator`: its options, as in PYTORCH_ALLOC_CONF."""
    policy = parse_settings(allocator)
    events = read_events(trace)
    peaks = replay(events, make_allocator(policy=policy))
    moment = _moment(events, policy)
    held = _held(events[: moment + 1], policy)
    context = predict_context(trace, request, cuda)
    tag = trace.tags[events[moment].tag]
    band = _band(events, trace.tags, peaks, context, policy)
    return Fit(
        request=request,
        torch=trace.torch,
        allocator=allocator,
        batch=trace.batch,
        parameters=trace.parameters,
        flops=trace.flops,
        peak=Peak(peaks.allocated, peaks.reserved, peaks.reserved + context, _phase(trace, moment), tag.module, tag.op),
        band=band,
        parts=_parts(held, trace.tags, peaks, context),
        smallest_bytes=find_smallest_capacity(events, peaks, policy) + context,
        modules=module_shares((trace.tags[number].module, size) for number, size in held.items()),
        timeline=_timeline(trace, events, moment),
        cards=(),
        guesses=trace.guesses,
    )


def _moment(events: list[Event], policy: AllocatorSettings) -> int:
    """The number of the event at which most is allocated, for the first time."""
    allocator = make_allocator(policy=policy)
    most, found = -1, 0
    for number, (name, size, _) in enumerate(events):
        if size < 0:
            allocator.free(name)
            continue
        allocator.allocate(name, size)
        if allocator.allocated > most:
            most, found = allocator.allocated, number
    return found


def _held(events: Iterable[Event], policy: AllocatorSettings) -> Counter[int]:
    """Bytes of blocks that are taken after these events, by tag."""
    allocator = make_allocator(policy=policy)
    taken: dict[int, tuple[int, int]] = {}
    for name, size, tag in events:
        before = allocator.allocated
        if size < 0:
            allocator.free(name)
            taken.pop(name, None)
        else:
            allocator.allocate(name, size)
            taken[name] = (allocator.allocated - before, tag)
    held: Counter[int] = Counter()
    for took, tag in taken.values():
        held[tag] += took
    return held


def _parts(held: Counter[int], tags: tuple[Tag, ...], peaks: Peaks, context: int) -> Parts:
    kinds: Counter[str] = Counter()
    for number, size in held.items():
        kinds[tags[number].kind] += size
    return Parts(**kinds, slack=peaks.reserved - peaks.allocated, context=context)


def _phase(trace: Trace, moment: int) -> Phase:
    return trace.tags[trace.events.tag[moment]].phase


def _band(events: list[Event], tags: tuple[Tag, ...], peaks: Peaks, context: int, policy: AllocatorSettings) -> Band:
    """As wide as other paths lead apart, within what was seen: the measured lay as far off at most."""
    workspace = frozenset(number for number, tag in enumerate(tags) if tag.kind == "workspace")
    others = [replay(path, make_allocator(policy=policy)).reserved for path in reorder_events(events, workspace)]
    apart = max(abs(other - peaks.reserved) for other in others) / max(1, peaks.reserved)
    share = min(max(apart, _LEAST_APART), _MOST_APART)
    low = max(round(peaks.reserved * (1 - share)), peaks.allocated)
    high = round(peaks.reserved * (1 + share))
    why = _STEADY if apart <= _LEAST_APART else _SHAKY
    return Band(low, high, low + context - CONTEXT_ERROR, high + context + CONTEXT_ERROR, why)


def _timeline(trace: Trace, events: list[Event], moment: int) -> Timeline:
    """The step in which the peak lies, in equal parts; of each the moment with most, so that no spike is lost."""
    bounds = (0, *trace.marks)
    step = next((number for number, mark in enumerate(trace.marks) if mark > moment), len(trace.marks) - 1)
    begin, end = bounds[step], bounds[step + 1]
    length = max(1, end - begin)
    parts: dict[int, tuple[int, int, tuple[int, ...]]] = {}
    phases: list[tuple[float, Phase]] = []
    for number, held in enumerate(_running(trace, events[:end])):
        if number < begin:
            continue
        part, total = (number - begin) * _POINTS // length, sum(held)
        if part not in parts or total > parts[part][0]:
            parts[part] = total, number, tuple(held)
        tag = trace.tags[events[number].tag]
        if events[number].bytes >= 0 and (not phases or phases[-1][1] != tag.phase):
            phases.append(((number - begin) / length, tag.phase))
    return Timeline(
        at=tuple((number - begin) / length for _, number, _ in parts.values()),
        held={kind: tuple(held[place] for _, _, held in parts.values()) for place, kind in enumerate(KINDS)},
        phases=tuple(phases),
        peak_at=(moment - begin) / length,
    )


def _running(trace: Trace, events: list[Event]) -> Iterator[list[int]]:
    """Bytes of each kind after each event; the same list each time."""
    held = [0] * len(KINDS)
    places = [KINDS.index(tag.kind) for tag in trace.tags]
    living: dict[int, tuple[int, int]] = {}
    for name, size, tag in events:
        if size < 0:
            went, place = living.pop(name, (0, 0))
            held[place] -= went
        else:
            living[name] = size, places[tag]
            held[places[tag]] += size
        yield held


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


def read_events(trace: Trace) -> list[Event]:
    """Its events as rows."""
    columns = trace.events
    return [Event(*row) for row in zip(columns.name, columns.bytes, columns.tag, strict=True)]


def make_allocator(capacity: int | None = None, policy: AllocatorSettings = DEFAULT_SETTINGS) -> Allocator:
    """The one that the policy asks for."""
    return (ExpandableAllocator if policy.expandable_segments else Allocator)(capacity, policy)


def replay(events: Iterable[Event], allocator: Allocator) -> Peaks:
    """Let everything come and go. Raises OutOfMemory where its capacity does not suffice."""
    allocate, free = allocator.allocate, allocator.free
    for name, size, _ in events:
        if size < 0:
            free(name)
        else:
            allocate(name, size)
    return Peaks(allocator.peak_allocated, allocator.peak_reserved)


def find_smallest_capacity(events: list[Event], peaks: Peaks, policy: AllocatorSettings = DEFAULT_SETTINGS) -> int:
    """The least that may be reserved so that it runs: before it fails, the allocator gives back what it has cached."""
    fails, works = peaks.allocated - 1, peaks.reserved
    while works - fails > _FINE:
        middle = (fails + works) // 2
        try:
            replay(events, make_allocator(middle, policy))
            works = middle
        except OutOfMemory:
            fails = middle
    return works


def reorder_events(events: list[Event], workspace: frozenset[int]) -> Iterator[list[Event]]:
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


_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def module_shares(held: Iterable[tuple[str, int]]) -> tuple[ModuleShare, ...]:
    """The tree, the greatest branch first; "layers.0" and "layers.1" are both "layers.*". What no part holds has no name."""
    own = 0
    sizes: dict[str, int] = defaultdict(int)
    names: dict[str, set[str]] = defaultdict(set)
    for module, size in held:
        own += 0 if module else size
        for inner in _ancestors(module):
            key = _NUMBER.sub("*", inner)
            sizes[key] += size
            names[key].add(inner)
    children: dict[str, list[str]] = defaultdict(list)
    for key in sizes:
        children[key.rpartition(".")[0]].append(key)
    found: list[ModuleShare] = []

    def walk(above: str, depth: int) -> None:
        for key in sorted(children.get(above, ()), key=lambda one: (-sizes[one], one)):
            found.append(ModuleShare(key, len(names[key]), sizes[key], depth))
            walk(key, depth + 1)

    walk("", 0)
    return (*found, ModuleShare("", 1, own, 0)) if own else tuple(found)


def _ancestors(module: str) -> Iterable[str]:
    """ "a.b" -> "a", "a.b"."""
    parts = module.split(".") if module else []
    return (".".join(parts[: number + 1]) for number in range(len(parts)))
