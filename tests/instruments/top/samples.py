"""Samples for tests: of the H200 that was recorded, or made up of what a test is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ownlab.instruments.top.recording import read
from ownlab.instruments.top.records import CardSample, HostSample, ProcessSample, Sample, Saturation, Verdict
from ownlab.instruments.top.window import Window

STREAMS = Path(__file__).resolve().parents[2] / "streams"
BEGUN = 1_794_770_000.0
GIB = 1024**3
MIB = 1024**2


def stream(name: str) -> list[Sample]:
    """A recorded H200."""
    return list(read(STREAMS / f"h200-{name}.ndjson"))


def without_gpm(sample: Sample) -> Sample:
    """As an older card would have told it."""
    cards = (msgspec.structs.replace(card, saturation=None, no_saturation="no GPM") for card in sample.cards)
    return msgspec.structs.replace(sample, cards=tuple(cards))


def a_card(busy: float | None = 99.0, index: int = 0, **more: Any) -> CardSample:
    """A card without GPM, unless more is said."""
    known: dict[str, Any] = {"memory_total": 80 * GIB, "memory_used": GIB // 4, "power": 100.0, "power_limit": 400.0}
    return CardSample(f"GPU-{index}", index, "A card", utilisation=busy, **(known | more))


def worked(busy: float = 99.0, **shares: float) -> Saturation:
    """What GPM says."""
    return Saturation(graphics=busy, **({"sm": 90.0, "tensor": 0.0, "dram": 10.0} | shares))


def moments(
    *cards: CardSample,
    count: int = 10,
    begun: float = BEGUN,
    seconds: float = 1.0,
    processes: tuple[ProcessSample, ...] = (),
    **host: Any,
) -> list[Sample]:
    """The same again and again, a second apart."""
    return [
        Sample(begun + number * seconds, seconds, HostSample(**host), cards, processes)
        for number in range(1, count + 1)
    ]


def verdicts(samples: list[Sample], seconds: float = 30.0) -> tuple[Verdict, ...]:
    """What is said at the end."""
    window = Window(seconds)
    for each in samples:
        window.add(each)
    return window.verdicts()


def verdict(samples: list[Sample]) -> Verdict:
    """Of the only card."""
    (found,) = verdicts(samples)
    return found
