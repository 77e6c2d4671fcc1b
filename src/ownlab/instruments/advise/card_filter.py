"""Which cards hold the job, which cannot run it, and how fast the others are."""

from __future__ import annotations

from typing import Literal

from ownlab.catalog.card_speeds import Speed, price_of
from ownlab.catalog.cards import Card, Figure, FigureName, load_cards
from ownlab.catalog.published_work import scaling_of
from ownlab.catalog.usable_memory import UsableMemory, usable_memory
from ownlab.instruments.advise.duration import hours_on, speed_for
from ownlab.instruments.advise.records import Basis, CardAdvice, Question, Range
from ownlab.text import text

__all__ = ["assess_cards", "is_other_platform"]

# `ownlab fit` predicts programs for these vendors; TPUs and Ascend cards run other programs.
_VENDORS = ("NVIDIA", "AMD")
_SAME_SIZE = 0.98  # of the memory of another card
_RATE_OF_PRECISION: dict[str, FigureName] = {"bf16": "bf16_tflops", "fp8": "fp8_tflops"}


def is_other_platform(card: Card) -> bool:
    """Return whether it is a TPU or an Ascend card, which run other programs."""
    return bool(card.vendor) and card.vendor not in _VENDORS


def assess_cards(question: Question, cards: tuple[Card, ...]) -> tuple[CardAdvice, ...]:
    """Assess each card for the job; fastest first, by what each reaches at least."""
    basis_card = next((card for card in load_cards() if question.basis and card.name == question.basis.card), None)
    advices = [_assess(question, card, basis_card) for card in cards]
    return tuple(sorted(advices, key=lambda advice: -advice.speed.low if advice.speed is not None else 1.0))


def _assess(question: Question, card: Card, basis_card: Card | None) -> CardAdvice:
    memory, basis, price = usable_memory(card), question.basis, price_of(card)
    budget, speed = question.budget_usd, speed_for(card, question)
    return CardAdvice(
        card=card.name,
        memory_bytes=None if memory is None else memory.low_bytes,
        fits="yes" if _as_large(question, card, basis_card) else _fits(question, memory),
        refused=_refusal(question, card),
        speed=speed if isinstance(speed, Speed) else None,
        speed_unknown="" if isinstance(speed, Speed) else speed.reason,
        hours=None if basis is None or basis_card is None else _hours(card, basis, basis_card, question),
        price_usd=price,
        in_budget=price.value <= budget if isinstance(price, Figure) and budget is not None else None,
        memory_high_bytes=memory.high_bytes if memory is not None and memory.inferred else None,
    )


def _hours(card: Card, basis: Basis, basis_card: Card, question: Question) -> Range | None:
    """Return the hours on so many cards as the question says, by the published speed-ups."""
    hours = hours_on(card, basis, basis_card, question)
    scaling = scaling_of(card.name, question.count, question.workload)
    if hours is None or scaling is None:
        return None
    return Range(hours.low / scaling.high, hours.high / scaling.low)


def _as_large(question: Question, card: Card, basis_card: Card | None) -> bool:
    """Whether only the card is known on which the job runs, and this one has as much memory, within 2 %.

    Reports of what programs can use differ by a few hundred MiB between cards of one size: an RTX 4090 has 0.2 GiB less than an
    RTX 3090. A T4 has 1.2 GiB less than a V100 16GB, and that may matter.
    """
    own, its = usable_memory(card), None if basis_card is None else usable_memory(basis_card)
    if question.memory_least_bytes != 0 or own is None or its is None:
        return False
    return own.low_bytes >= _SAME_SIZE * its.low_bytes


def _fits(question: Question, memory: UsableMemory | None) -> Literal["yes", "tight", "no", "unknown"]:
    if question.memory_bytes is None:
        return "yes"  # no size was given
    if memory is None:
        return "unknown"
    holds, least = memory.holds(question.memory_bytes), question.memory_least_bytes
    if holds is not False:
        return "yes" if holds else "unknown"
    may_hold = memory.holds(least) if least is not None else False
    return "tight" if may_hold else "no" if may_hold is False else "unknown"


def _refusal(question: Question, card: Card) -> str:
    if is_other_platform(card):
        return text("runs other programs")
    precision = question.precision.removeprefix("amp-")
    if precision not in _RATE_OF_PRECISION or not card.lacks(_RATE_OF_PRECISION[precision]):
        return ""
    if precision == "bf16":
        return text("no bf16 units: use fp16")
    return text("no {precision} units", precision=precision)
