"""From a trace to a prediction: replay its events through the model of torch's allocator (torch_allocator.py).

The replay gives the peak and its parts, the phase and the modules that hold it, and a band: how much the peak changes when the
same tensors are allocated and freed in a slightly different order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
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
    ROUND_LARGE,
    Addresses,
    Allocator,
    AllocatorSettings,
    OutOfMemory,
    RisingAddresses,
    parse_settings,
)
from ownlab.instruments.fit.torch_allocator_expandable import ExpandableAllocator
from ownlab.instruments.fit.workspace_draws import densest_window, draw_sizes
from ownlab.text import text
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

_TIMELINE_POINTS = 240
# Error of the predicted reserved memory on an H200 (torch 2.11.0+cu130): below the first where other orders of the events change
# less than that. The second keeps the band within 10 % of its lower end; benchmarks/RESULTS.md says how often it holds.
_MIN_ERROR, _MAX_ERROR = 0.015, 0.0475
# Of two free blocks of equal size the one with the lower address is taken. Drivers place segments in their own ways: as one did on
# an H200 for most steps, without gaps, or upwards.
_LAYOUTS = (Addresses, Addresses, partial(Addresses, ROUND_LARGE), RisingAddresses)
_WIDTH = 0.0995  # of the widest band, as a share of its lower end
_STABLE = text("other orders of the same allocations reserve the same")
_ORDER_DEPENDENT = text("what the allocator reserves depends on the order in which tensors are allocated and freed")


def predict(trace: Trace, request: Request, allocator: str = "", cuda: Context = H200) -> Fit:
    """Predict a step from its trace, without cards. `allocator`: settings as in PYTORCH_ALLOC_CONF."""
    settings = parse_settings(allocator)
    events, peaks, spread = _likely_events(trace, settings)
    peak_event = _peak_event(events, settings)
    held = _bytes_by_tag(events[: peak_event + 1], settings)
    context = predict_context(trace, request, cuda)
    tag = trace.tags[events[peak_event].tag]
    band = _band(events, trace.tags, peaks, spread, context, settings)
    return Fit(
        request=request,
        torch=trace.torch,
        allocator=allocator,
        batch=trace.batch,
        parameters=trace.parameters,
        flops=trace.flops,
        peak=Peak(
            peaks.allocated, peaks.reserved, peaks.reserved + context, _phase(trace, peak_event), tag.module, tag.op
        ),
        band=band,
        parts=_parts(held, trace.tags, peaks, context),
        smallest_bytes=find_smallest_capacity(events, peaks, settings) + context,
        modules=module_shares((trace.tags[number].module, size) for number, size in held.items()),
        timeline=_timeline(trace, events, peak_event),
        cards=(),
        guesses=trace.guesses,
        optimizer_arguments=trace.optimizer_arguments,
    )


def _likely_events(trace: Trace, settings: AllocatorSettings) -> tuple[list[Event], Peaks, tuple[int, int]]:
    """Return the events with likely workspaces, what they take, and between which bounds most draws of workspaces reserve."""
    events = read_events(trace)
    peaks = replay(events, make_allocator(settings=settings))
    draws = list(draw_sizes(trace.uncertain)) or [{}] * len(_LAYOUTS)
    drawn = [
        replay(_resized(events, sizes), make_allocator(settings=settings, addresses=_LAYOUTS[number % len(_LAYOUTS)]()))
        for number, sizes in enumerate(draws)
    ]
    typical = [_LAYOUTS[number % len(_LAYOUTS)] is Addresses for number in range(len(draws))]
    window = densest_window(peaks.reserved, [one.reserved for one in drawn], _WIDTH - 2 * _MIN_ERROR, typical)
    if window.middle:
        events, peaks = list(_resized(events, draws[window.middle - 1])), drawn[window.middle - 1]
    return events, peaks, (window.low, window.high)


def _resized(events: list[Event], sizes: dict[int, int]) -> Iterator[Event]:
    """Yield the events with other sizes of some storages."""
    for event in events:
        yield Event(event.name, sizes[event.name], event.tag) if event.bytes >= 0 and event.name in sizes else event


def _peak_event(events: list[Event], settings: AllocatorSettings) -> int:
    """Return the index of the first event at which most is allocated."""
    allocator = make_allocator(settings=settings)
    most, peak = -1, 0
    for number, (name, size, _) in enumerate(events):
        if size < 0:
            allocator.free(name)
            continue
        allocator.allocate(name, size)
        if allocator.allocated > most:
            most, peak = allocator.allocated, number
    return peak


def _bytes_by_tag(events: Iterable[Event], settings: AllocatorSettings) -> Counter[int]:
    """Return the bytes of blocks that are allocated after these events, by tag."""
    allocator = make_allocator(settings=settings)
    blocks: dict[int, tuple[int, int]] = {}
    for name, size, tag in events:
        before = allocator.allocated
        if size < 0:
            allocator.free(name)
            blocks.pop(name, None)
        else:
            allocator.allocate(name, size)
            blocks[name] = (allocator.allocated - before, tag)
    held: Counter[int] = Counter()
    for block_bytes, tag in blocks.values():
        held[tag] += block_bytes
    return held


def _parts(held: Counter[int], tags: tuple[Tag, ...], peaks: Peaks, context: int) -> Parts:
    kinds: Counter[str] = Counter()
    for number, size in held.items():
        kinds[tags[number].kind] += size
    return Parts(**kinds, slack=peaks.reserved - peaks.allocated, context=context)


def _phase(trace: Trace, peak_event: int) -> Phase:
    return trace.tags[trace.events.tag[peak_event]].phase


def _band(
    events: list[Event],
    tags: tuple[Tag, ...],
    peaks: Peaks,
    spread: tuple[int, int],
    context: int,
    settings: AllocatorSettings,
) -> Band:
    """Compute the band: as wide as other workspaces and other orders of the events differ, within the errors that were measured."""
    workspace = frozenset(number for number, tag in enumerate(tags) if tag.kind == "workspace")
    others = [replay(order, make_allocator(settings=settings)).reserved for order in reorder_events(events, workspace)]
    difference = max(abs(other - peaks.reserved) for other in others) / max(1, peaks.reserved)
    low, high = _widened(spread, peaks.reserved, difference)
    low = max(low, peaks.allocated)
    why = _STABLE if difference <= _MIN_ERROR and spread[0] == spread[1] else _ORDER_DEPENDENT
    return Band(low, high, low + context - CONTEXT_ERROR, high + context + CONTEXT_ERROR, why)


def _widened(spread: tuple[int, int], reserved: int, difference: float) -> tuple[int, int]:
    """Return the spread with its errors on both sides, not wider than the widest band."""
    share = min(max(difference, _MIN_ERROR), _MAX_ERROR)
    low = min(spread[0], round(reserved * (1 - share)))
    high = max(spread[1], round(reserved * (1 + share)))
    excess = high - low * (1 + _WIDTH)
    if excess <= 0:
        return low, high
    # What is too much is taken from the margins in equal shares, and not from what was drawn.
    above, below = high - spread[1], spread[0] - low
    cut = min(1.0, excess / max(1.0, above + below * (1 + _WIDTH)))
    return round(low + cut * below), round(high - cut * above)


def _timeline(trace: Trace, events: list[Event], peak_event: int) -> Timeline:
    """Divide the step with the peak into equal parts, and take the maximum of each, so that no spike is lost."""
    bounds = (0, *trace.marks)
    step = next((number for number, mark in enumerate(trace.marks) if mark > peak_event), len(trace.marks) - 1)
    begin, end = bounds[step], bounds[step + 1]
    length = max(1, end - begin)
    parts: dict[int, tuple[int, int, tuple[int, ...]]] = {}
    phases: list[tuple[float, Phase]] = []
    for number, held in enumerate(_bytes_by_kind(trace, events[:end])):
        if number < begin:
            continue
        part, total = (number - begin) * _TIMELINE_POINTS // length, sum(held)
        if part not in parts or total > parts[part][0]:
            parts[part] = total, number, tuple(held)
        tag = trace.tags[events[number].tag]
        if events[number].bytes >= 0 and (not phases or phases[-1][1] != tag.phase):
            phases.append(((number - begin) / length, tag.phase))
    return Timeline(
        at=tuple((number - begin) / length for _, number, _ in parts.values()),
        held={kind: tuple(held[column] for _, _, held in parts.values()) for column, kind in enumerate(KINDS)},
        phases=tuple(phases),
        peak_at=(peak_event - begin) / length,
    )


def _bytes_by_kind(trace: Trace, events: list[Event]) -> Iterator[list[int]]:
    """Yield the bytes of each kind after each event; always the same list object."""
    held = [0] * len(KINDS)
    columns = [KINDS.index(tag.kind) for tag in trace.tags]
    storages: dict[int, tuple[int, int]] = {}
    for name, size, tag in events:
        if size < 0:
            freed, column = storages.pop(name, (0, 0))
            held[column] -= freed
        else:
            storages[name] = size, columns[tag]
            held[columns[tag]] += size
        yield held


# Precision of the search for the smallest capacity.
_CAPACITY_STEP = 8 * MIB


class Event(NamedTuple):
    """A storage is allocated, or freed: then `bytes` is -1."""

    name: int
    bytes: int
    tag: int


class Peaks(NamedTuple):
    """The result of a replay."""

    allocated: int
    reserved: int


def read_events(trace: Trace) -> list[Event]:
    """Return the events of a trace as rows."""
    columns = trace.events
    return [Event(*row) for row in zip(columns.name, columns.bytes, columns.tag, strict=True)]


def make_allocator(
    capacity: int | None = None,
    settings: AllocatorSettings = DEFAULT_SETTINGS,
    addresses: Addresses | None = None,
) -> Allocator:
    """Make the allocator for these settings; its segments lie as `addresses` places them."""
    if settings.expandable_segments:
        return ExpandableAllocator(capacity, settings)
    return Allocator(capacity, settings, addresses)


def replay(events: Iterable[Event], allocator: Allocator) -> Peaks:
    """Replay the events. Raise OutOfMemory if the capacity of the allocator is too small."""
    allocate, free = allocator.allocate, allocator.free
    for name, size, _ in events:
        if size < 0:
            free(name)
        else:
            allocate(name, size)
    return Peaks(allocator.peak_allocated, allocator.peak_reserved)


def find_smallest_capacity(events: list[Event], peaks: Peaks, settings: AllocatorSettings = DEFAULT_SETTINGS) -> int:
    """Find the smallest capacity with which the step runs: before it fails, the allocator releases its cache."""
    fails, works = peaks.allocated - 1, peaks.reserved
    while works - fails > _CAPACITY_STEP:
        middle = (fails + works) // 2
        try:
            replay(events, make_allocator(middle, settings))
            works = middle
        except OutOfMemory:
            fails = middle
    return works


def reorder_events(events: list[Event], workspace: frozenset[int]) -> Iterator[list[Event]]:
    """Yield variants of the events: what is reserved depends on which small block lies where.

    `workspace`: tags of library workspaces. Those that live only inside one operation are the least certain.
    """
    short_lived = {
        first.name
        for first, second in pairwise(events)
        if first.tag in workspace and first.name == second.name and first.bytes >= 0
    }
    yield [event for event in events if event.name not in short_lived]
    yield from (_freed_later(events, by) for by in (1, 2))


def _freed_later(events: list[Event], by: int) -> list[Event]:
    """Delay each free by some allocations: Python variables keep tensors alive for different times."""
    late: list[Event] = []
    waiting: list[tuple[int, Event]] = []
    allocations = 0
    for event in events:
        if event.bytes < 0:
            waiting.append((allocations + by, event))
            continue
        late.append(event)
        allocations += 1
        while waiting and waiting[0][0] <= allocations:
            late.append(waiting.pop(0)[1])
    return [*late, *(event for _, event in waiting)]


_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")


def module_shares(held: Iterable[tuple[str, int]]) -> tuple[ModuleShare, ...]:
    """Return the tree of modules, the largest branch first. "layers.0" and "layers.1" are both "layers.*"; "" is the rest."""
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
    rows: list[ModuleShare] = []

    def walk(parent: str, depth: int) -> None:
        for key in sorted(children.get(parent, ()), key=lambda name: (-sizes[name], name)):
            rows.append(ModuleShare(key, len(names[key]), sizes[key], depth))
            walk(key, depth + 1)

    walk("", 0)
    return (*rows, ModuleShare("", 1, own, 0)) if own else tuple(rows)


def _ancestors(module: str) -> Iterable[str]:
    """ "a.b" -> "a", "a.b"."""
    parts = module.split(".") if module else []
    return (".".join(parts[: number + 1]) for number in range(len(parts)))
