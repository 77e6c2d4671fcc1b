"""Which cards hold the job, and how fast they are at it."""

from __future__ import annotations

from typing import Literal

from ownlab.catalog.card_speeds import Speed, price_of
from ownlab.catalog.cards import Card, Figure, FigureName, load_cards
from ownlab.instruments.advise.duration import hours_on, speed_at
from ownlab.instruments.advise.records import CardAdvice, Question
from ownlab.instruments.fit import card_specs

__all__ = ["judge_cards", "memory_of", "runs_other_programs"]

# What `ownlab fit` speaks about runs on these; TPUs and Ascend run other programs.
_VENDORS = ("NVIDIA", "AMD")
_UNITS: dict[str, FigureName] = {"bf16": "bf16_tflops", "fp8": "fp8_tflops"}


def memory_of(card: Card) -> int | None:
    """What programs can have, as `ownlab fit` takes it; None where not even its size is known."""
    return card_specs.Card.of(card).memory_bytes or None


def runs_other_programs(card: Card) -> bool:
    """Whether it is a TPU or an Ascend card."""
    return bool(card.vendor) and card.vendor not in _VENDORS


def judge_cards(question: Question, cards: tuple[Card, ...]) -> tuple[CardAdvice, ...]:
    """Each of them, fastest first."""
    anchor = next((card for card in load_cards() if question.basis and card.name == question.basis.card), None)
    judged = [_judge(question, card, anchor) for card in cards]
    return tuple(sorted(judged, key=lambda one: -one.speed.relative if one.speed is not None else 1.0))


def _judge(question: Question, card: Card, anchor: Card | None) -> CardAdvice:
    memory, basis, price = memory_of(card), question.basis, price_of(card)
    budget, speed = question.budget_usd, speed_at(card, question)
    return CardAdvice(
        card=card.name,
        memory_bytes=memory,
        fits=_fits(question, memory),
        refused=_refused(question, card),
        speed=speed if isinstance(speed, Speed) else None,
        speed_unknown="" if isinstance(speed, Speed) else speed.reason,
        hours=hours_on(card, basis, anchor, question) if basis is not None and anchor is not None else None,
        price_usd=price,
        in_budget=price.value <= budget if isinstance(price, Figure) and budget is not None else None,
    )


def _fits(question: Question, memory: int | None) -> Literal["yes", "tight", "no", "unknown"]:
    if question.memory_bytes is None:
        return "yes"  # nobody asked
    if memory is None:
        return "unknown"
    if question.memory_bytes <= memory:
        return "yes"
    least = question.memory_least_bytes
    return "tight" if least is not None and least <= memory else "no"


def _refused(question: Question, card: Card) -> str:
    if runs_other_programs(card):
        return "runs other programs"
    wanted = question.precision.removeprefix("amp-")
    if wanted in _UNITS and card.lacks(_UNITS[wanted]):
        return f"no {wanted} units: fp16 instead" if wanted == "bf16" else f"no {wanted} units"
    return ""
