"""From a trace to figures: peaks and their parts, where in the step, which modules, and a band where the path decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ownlab.instruments.fit.allocator import Policy
from ownlab.instruments.fit.allocator_settings import parse_policy
from ownlab.instruments.fit.cuda_context import CONTEXT_APART, H200, Context, context_bytes
from ownlab.instruments.fit.module_tree import shares
from ownlab.instruments.fit.records import KINDS, Band, Fit, Parts, Peak, Phase, Request, Tag, Timeline, Trace
from ownlab.instruments.fit.replay import (
    Event,
    Peaks,
    events_of,
    make_allocator,
    other_paths,
    peaks_of,
    smallest_capacity,
)

__all__ = ["predict"]

_POINTS = 240
# How far what an H200 reserved lay from the prediction, in 25 models (torch 2.11.0+cu130, 2026-11-15): within the first where
# no other path led farther away, within the second in all.
_LEAST_APART, _MOST_APART = 0.015, 0.065
_STEADY = "other orders of the same tensors come to the same"
_SHAKY = "what the allocator keeps depends on the order in which tensors come and go"


def predict(trace: Trace, request: Request, allocator: str = "", cuda: Context = H200) -> Fit:
    """All that a trace says, but for the cards. `allocator`: its options, as in PYTORCH_ALLOC_CONF."""
    policy = parse_policy(allocator)
    events = events_of(trace)
    peaks = peaks_of(events, make_allocator(policy=policy))
    moment = _moment(events, policy)
    held = _held(events[: moment + 1], policy)
    context = context_bytes(trace, request, cuda)
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
        smallest_bytes=smallest_capacity(events, peaks, policy) + context,
        modules=shares((trace.tags[number].module, size) for number, size in held.items()),
        timeline=_timeline(trace, events, moment),
        cards=(),
        guesses=trace.guesses,
    )


def _moment(events: list[Event], policy: Policy) -> int:
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


def _held(events: Iterable[Event], policy: Policy) -> Counter[int]:
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


def _band(events: list[Event], tags: tuple[Tag, ...], peaks: Peaks, context: int, policy: Policy) -> Band:
    """As wide as other paths lead apart, within what was seen: the measured lay as far off at most."""
    workspace = frozenset(number for number, tag in enumerate(tags) if tag.kind == "workspace")
    others = [peaks_of(path, make_allocator(policy=policy)).reserved for path in other_paths(events, workspace)]
    apart = max(abs(other - peaks.reserved) for other in others) / max(1, peaks.reserved)
    share = min(max(apart, _LEAST_APART), _MOST_APART)
    low = max(round(peaks.reserved * (1 - share)), peaks.allocated)
    high = round(peaks.reserved * (1 + share))
    why = _STEADY if apart <= _LEAST_APART else _SHAKY
    return Band(low, high, low + context - CONTEXT_APART, high + context + CONTEXT_APART, why)


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
