"""From a trace to a prediction."""

from __future__ import annotations

import pytest
from tests.instruments.fit.traces import Writer, a_trace

from ownlab.errors import UsageError
from ownlab.instruments.fit.prediction import Peaks, find_smallest_capacity, module_shares, predict, read_events, replay
from ownlab.instruments.fit.records import KINDS, Request
from ownlab.instruments.fit.torch_allocator import Allocator, AllocatorSettings, OutOfMemory, parse_settings
from ownlab.units import MIB

REQUEST = Request(target="net.py:build")


def test_the_peak_and_its_parts() -> None:
    """Weights 200, state 400, input 8, both outputs 640, a gradient and the error that goes back: 100 and 320."""
    fit = predict(a_trace(), REQUEST)
    assert fit.peak.allocated_bytes == (200 + 400 + 8 + 640 + 100 + 320) * MIB
    assert (fit.peak.phase, fit.peak.module, fit.peak.op) == ("backward", "layers.1", "aten.mm")
    parts = fit.parts
    assert (parts.weights, parts.optimizer, parts.activations) == (200 * MIB, 400 * MIB, 640 * MIB)
    assert (parts.gradients, parts.temporary, parts.inputs, parts.workspace) == (100 * MIB, 320 * MIB, 8 * MIB, 0)


def test_the_parts_add_up_to_what_the_card_shows() -> None:
    fit = predict(a_trace(), REQUEST)
    assert sum(getattr(fit.parts, name) for name in fit.parts.__struct_fields__) == fit.peak.device_bytes
    assert fit.peak.reserved_bytes + fit.parts.context == fit.peak.device_bytes


def test_the_band_holds_the_figure() -> None:
    band, peak = (fit := predict(a_trace(), REQUEST)).band, fit.peak
    assert peak.allocated_bytes <= band.reserved_low_bytes <= peak.reserved_bytes <= band.reserved_high_bytes
    assert band.device_low_bytes < peak.device_bytes < band.device_high_bytes
    assert band.reserved_high_bytes <= 1.15 * band.reserved_low_bytes


def test_a_module_includes_its_submodules() -> None:
    shares = {share.module: share for share in predict(a_trace(), REQUEST).modules}
    assert shares["layers"].bytes == shares["layers.*"].bytes == (200 + 400 + 640 + 100 + 320) * MIB
    assert (shares["layers.*"].count, shares["layers.*"].depth) == (2, 1)


def test_the_largest_module_comes_first_and_its_parts_below_it() -> None:
    shares = module_shares([("a.x", 1), ("b.0.y", 3), ("b.1.y", 4), ("a.z", 2), ("", 9)])
    assert [(share.module, share.bytes, share.depth) for share in shares] == [
        ("b", 7, 0),
        ("b.*", 7, 1),
        ("b.*.y", 7, 2),
        ("a", 3, 0),
        ("a.z", 2, 1),
        ("a.x", 1, 1),
        ("", 9, 0),
    ]


def test_the_timeline_is_that_of_the_step_with_the_peak() -> None:
    fit = predict(a_trace(), REQUEST)
    timeline = fit.timeline
    totals = [sum(timeline.held[kind][number] for kind in KINDS) for number in range(len(timeline.at))]
    assert max(totals) == fit.peak.allocated_bytes
    assert timeline.at[totals.index(max(totals))] == timeline.peak_at
    assert [phase for _, phase in timeline.phases] == ["forward", "backward", "optimizer"]
    assert list(timeline.at) == sorted(timeline.at)
    assert min(timeline.held["optimizer"]) == 400 * MIB  # the first step has none yet


def test_a_trace_of_one_step() -> None:
    fit = predict(a_trace(steps=1), REQUEST)
    assert fit.timeline.phases[0] == (0.0, "setup")


def test_the_smallest_capacity_is_where_it_just_runs() -> None:
    writer = Writer()
    writer.come("a", 100 * MIB, "activations")
    writer.come("b", 100 * MIB, "activations")
    writer.go("a", "b")
    writer.come("c", 150 * MIB, "activations")  # neither suffices: 350 are reserved, unless the two are given back
    writer.go("c")
    events = read_events(writer.trace())
    peaks = replay(events, Allocator())
    assert peaks == Peaks(200 * MIB, 350 * MIB)
    least = find_smallest_capacity(events, peaks)
    assert 200 * MIB <= least < 210 * MIB
    replay(events, Allocator(least))
    with pytest.raises(OutOfMemory):
        replay(events, Allocator(199 * MIB))


def test_expandable_segments_need_less() -> None:
    plain = predict(a_trace(), REQUEST)
    growing = predict(a_trace(), REQUEST, "expandable_segments:True")
    assert growing.peak.reserved_bytes < plain.peak.reserved_bytes
    assert growing.peak.allocated_bytes == plain.peak.allocated_bytes


def test_allocator_settings() -> None:
    assert parse_settings("") == AllocatorSettings()
    assert parse_settings("expandable_segments:True, max_split_size_mb:128") == AllocatorSettings(
        max_split_size=128 * MIB, expandable_segments=True
    )
    assert parse_settings("garbage_collection_threshold:0.8,backend:native").garbage_collection_threshold == 0.8


@pytest.mark.parametrize("text", ["max_split_size_mb", "max_split_size_mb:many", "backend:cudaMallocAsync", "gc:1"])
def test_unknown_allocator_settings(text: str) -> None:
    with pytest.raises(UsageError):
        parse_settings(text)
