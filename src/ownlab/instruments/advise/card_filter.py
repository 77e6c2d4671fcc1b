"""Which cards hold the job, which cannot run it, and how fast the others are."""

from __future__ import annotations

from typing import Literal

from ownlab.catalog.card_speeds import Speed, price_of
from ownlab.catalog.cards import Card, Figure, FigureName, load_cards
from ownlab.instruments.advise.duration import hours_on, speed_for
from ownlab.instruments.advise.records import CardAdvice, Question
from ownlab.instruments.fit import card_specs
from ownlab.text import text

__all__ = ["assess_cards", "is_other_platform", "usable_memory"]

# `ownlab fit` predicts programs for these vendors; TPUs and Ascend cards run other programs.
_VENDORS = ("NVIDIA", "AMD")
_RATE_OF_PRECISION: dict[str, FigureName] = {"bf16": "bf16_tflops", "fp8": "fp8_tflops"}


def usable_memory(card: Card) -> int | None:
    """Return the memory that programs can use, as `ownlab fit` computes it; None where even the size is unknown."""
    return card_specs.Card.of(card).memory_bytes or None


def is_other_platform(card: Card) -> bool:
    """Return whether it is a TPU or an Ascend card, which run other programs."""
    return bool(card.vendor) and card.vendor not in _VENDORS


def assess_cards(question: Question, cards: tuple[Card, ...]) -> tuple[CardAdvice, ...]:
    """Assess each card for the job; fastest first."""
    basis_card = next((card for card in load_cards() if question.basis and card.name == question.basis.card), None)
    advices = [_assess(question, card, basis_card) for card in cards]
    return tuple(sorted(advices, key=lambda advice: -advice.speed.relative if advice.speed is not None else 1.0))


def _assess(question: Question, card: Card, basis_card: Card | None) -> CardAdvice:
    memory, basis, price = usable_memory(card), question.basis, price_of(card)
    budget, speed = question.budget_usd, speed_for(card, question)
    return CardAdvice(
        card=card.name,
        memory_bytes=memory,
        fits=_fits(question, memory),
        refused=_refusal(question, card),
        speed=speed if isinstance(speed, Speed) else None,
        speed_unknown="" if isinstance(speed, Speed) else speed.reason,
        hours=hours_on(card, basis, basis_card, question) if basis is not None and basis_card is not None else None,
        price_usd=price,
        in_budget=price.value <= budget if isinstance(price, Figure) and budget is not None else None,
    )


def _fits(question: Question, memory: int | None) -> Literal["yes", "tight", "no", "unknown"]:
    if question.memory_bytes is None:
        return "yes"  # no size was given
    if memory is None:
        return "unknown"
    if question.memory_bytes <= memory:
        return "yes"
    least = question.memory_least_bytes
    return "tight" if least is not None and least <= memory else "no"


def _refusal(question: Question, card: Card) -> str:
    if is_other_platform(card):
        return text("runs other programs")
    precision = question.precision.removeprefix("amp-")
    if precision not in _RATE_OF_PRECISION or not card.lacks(_RATE_OF_PRECISION[precision]):
        return ""
    if precision == "bf16":
        return text("no bf16 units: use fp16")
    return text("no {precision} units", precision=precision)
