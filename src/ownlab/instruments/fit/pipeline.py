"""A whole answer from traces, whoever makes them: a guest with a deadline, or a notebook that has the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.fit.allocator_settings import parse_policy
from ownlab.instruments.fit.batch import Batches, Range, biggest_batch
from ownlab.instruments.fit.card_fit import with_cards
from ownlab.instruments.fit.card_specs import DEFAULT_CARDS, Card, choose_cards, load_cards
from ownlab.instruments.fit.predict import predict
from ownlab.instruments.fit.records import Fit, Request, Trace
from ownlab.instruments.fit.remedy_trials import price_remedies

__all__ = ["Wanted", "answer", "parse_batch", "wanted"]


class Wanted(NamedTuple):
    """What is to be said, beside the step's own figures."""

    cards: tuple[Card, ...]
    within: Range | None = None  # where the biggest batch is looked for
    remedies: bool = False
    allocator: str = ""


def wanted(cards: str | None, within: Range | None = None, *, remedies: bool = False, allocator: str = "") -> Wanted:
    """As people write it; what is wrong in it is said before anything starts."""
    parse_policy(allocator)
    chosen = load_cards() if cards == "all" else choose_cards(cards or DEFAULT_CARDS)
    return Wanted(chosen, within, remedies, allocator)


def answer(
    request: Request,
    traced: Callable[[Request], Trace],
    wants: Wanted,
    working: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Fit:
    """The prediction. `working` is told what is being done, for as long as it takes."""

    def predicted(asked: Request) -> Fit:
        return predict(traced(asked), asked, wants.allocator)

    with working("Following a few steps without a GPU"):
        trace = traced(request)
        fit = with_cards(predict(trace, request, wants.allocator), trace, wants.cards)
    if wants.within is not None:
        with working("Looking for the biggest batch"):
            fit = _with_batches(fit, wants.cards, wants.within, predicted)
    if wants.remedies:
        with working("Trying what makes it need less"):
            fit = replace(fit, remedies=price_remedies(fit, predicted))
    return fit


def _with_batches(fit: Fit, cards: tuple[Card, ...], within: Range, predicted: Callable[[Request], Fit]) -> Fit:
    start = fit.request.batch
    assert start is not None

    def at(batch: int) -> Fit:
        return predicted(replace(fit.request, batch=batch))

    batches = Batches(at)
    batches.keep(start, fit)
    found = [biggest_batch(batches, card.memory_bytes, within, start) for card in cards]
    judged = [replace(card, biggest_batch=batch) for card, batch in zip(fit.cards, found, strict=True)]
    return replace(fit, cards=tuple(judged))


def parse_batch(asked: str | None, start: int) -> tuple[int | None, Range | None]:
    """ "8" -> a number; "8..512" or "max" -> where the search begins, and what lies between two."""
    if asked is None:
        return None, None
    if asked == "max":
        return start, Range()
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", asked)
    if match is None or int(match[1]) < 1 or (match[2] and int(match[2]) < int(match[1])):
        raise UsageError(f"--batch {asked} is neither a number nor a range", hint="Write 8, 8..512 or max.")
    if match[2] is None:
        return int(match[1]), None
    return int(match[1]), Range(int(match[1]), int(match[2]))
