"""Samples for tests: of the recorded H200, or with the values that a test needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ownlab.instruments.top.recording import read
from ownlab.instruments.top.records import CardSample, HostSample, ProcessSample, Sample, Saturation, Verdict
from ownlab.instruments.top.verdict_window import Window

STREAMS = Path(__file__).resolve().parents[2] / "streams"
BEGUN = 1_794_770_000.0
GIB = 1024**3
MIB = 1024**2


def stream(name: str) -> list[Sample]:
    """Return the samples of a recorded H200."""
    return list(read(STREAMS / f"h200-{name}.ndjson"))


def without_gpm(sample: Sample) -> Sample:
    """Return the sample as a card without GPM would give it."""
    cards = (msgspec.structs.replace(card, saturation=None, no_saturation="no GPM") for card in sample.cards)
    return msgspec.structs.replace(sample, cards=tuple(cards))


def a_card(busy: float | None = 99.0, index: int = 0, **more: Any) -> CardSample:
    """Return a card, by default without GPM."""
    known: dict[str, Any] = {"memory_total": 80 * GIB, "memory_used": GIB // 4, "power": 100.0, "power_limit": 400.0}
    return CardSample(f"GPU-{index}", index, "A card", utilisation=busy, **(known | more))


def worked(busy: float = 99.0, **shares: float) -> Saturation:
    """Return the activity that GPM measures."""
    return Saturation(graphics=busy, **({"sm": 90.0, "tensor": 0.0, "dram": 10.0} | shares))


def moments(
    *cards: CardSample,
    count: int = 10,
    begun: float = BEGUN,
    seconds: float = 1.0,
    processes: tuple[ProcessSample, ...] = (),
    **host: Any,
) -> list[Sample]:
    """Return the same sample repeatedly, a second apart."""
    return [
        Sample(begun + number * seconds, seconds, HostSample(**host), cards, processes)
        for number in range(1, count + 1)
    ]


def verdicts(samples: list[Sample], seconds: float = 30.0) -> tuple[Verdict, ...]:
    """Return the verdicts after the last sample."""
    window = Window(seconds)
    for each in samples:
        window.add(each)
    return window.verdicts()


def verdict(samples: list[Sample]) -> Verdict:
    """Return the verdict on the only card."""
    (single,) = verdicts(samples)
    return single
