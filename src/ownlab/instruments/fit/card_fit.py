"""A prediction against cards: whether it fits, how much is left, and the least time of a step."""

from __future__ import annotations

from typing import Literal

import msgspec

from ownlab.instruments.fit.card_specs import Card
from ownlab.instruments.fit.records import CardFit, Fit, Trace
from ownlab.instruments.fit.roofline import Work, floor_on, work_of

__all__ = ["judge", "with_cards"]


def with_cards(fit: Fit, trace: Trace, cards: tuple[Card, ...]) -> Fit:
    """The prediction, and what it means on each card."""
    work = work_of(trace)
    return msgspec.structs.replace(fit, cards=tuple(judge(fit, card, work) for card in cards))


def judge(fit: Fit, card: Card, work: Work) -> CardFit:
    """One card."""
    floor = floor_on(card, work, fit.request)
    return CardFit(
        name=card.name,
        memory_bytes=card.memory_bytes,
        fits=_fits(fit, card.memory_bytes),
        spare_bytes=card.memory_bytes - fit.band.device_high_bytes,
        calibrated=card.calibrated,
        floor_seconds=None if floor is None else floor.seconds,
        bound_by=None if floor is None else floor.bound_by,
        source=card.source,
        as_of=card.as_of,
    )


def _fits(fit: Fit, memory: int) -> Literal["yes", "tight", "no"]:
    """Tight: only where the path is a good one, or where the allocator gives back what it has cached."""
    if fit.band.device_high_bytes <= memory:
        return "yes"
    return "tight" if min(fit.smallest_bytes, fit.band.device_low_bytes) <= memory else "no"
