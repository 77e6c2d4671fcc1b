"""A whole answer from traces, whoever makes them: a guest with a deadline, or a notebook that has the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.fit.batch_search import Batches, Range, biggest_batch
from ownlab.instruments.fit.calibration import Calibration
from ownlab.instruments.fit.card_fit import judge, with_cards, work_of
from ownlab.instruments.fit.card_specs import DEFAULT_CARDS, Card, card_of, choose_cards, load_cards
from ownlab.instruments.fit.guest_client import accepted, ask_guest, refusal
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Decoding, Fit, Request, Trace, Trouble
from ownlab.instruments.fit.remedies import price_remedies
from ownlab.instruments.fit.torch_allocator import parse_policy

__all__ = ["Wanted", "answer", "parse_batch", "wanted", "with_calibrations", "with_decoding"]


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


class Answer(Struct, frozen=True):
    """What the guest says: the last token's step, and sizes of the cache."""

    trace: Trace = Trace()
    batch: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    prompt_bytes: int = 0
    cache_bytes: int = 0
    error: Trouble | None = None


def with_decoding(fit: Fit, count: int, wants: Wanted, python: str, *, deadline: float) -> Fit:
    """Of prompt and last token the one that takes more; and the cache."""
    request: Request = fit.request
    hidden = {"CUDA_VISIBLE_DEVICES": ""}  # as with any trace
    answer = ask_guest("fit.kv_cache", request, python, str(count), answer=Answer, deadline=deadline, env=hidden)
    if answer.error is not None:
        raise refusal(answer.error)
    trace = accepted(answer.trace, request)
    last = with_cards(predict(trace, request, wants.allocator), trace, wants.cards)
    decoding = Decoding(
        batch=answer.batch,
        prompt_tokens=answer.prompt_tokens,
        new_tokens=answer.new_tokens,
        prompt_bytes=answer.prompt_bytes,
        cache_bytes=answer.cache_bytes,
        device_bytes=last.band.device_high_bytes,
    )
    greater = last if last.band.device_high_bytes > fit.band.device_high_bytes else fit
    return replace(greater, decoding=decoding, flops=fit.flops, measured=fit.measured, biggest=fit.biggest)


def with_calibrations(
    fit: Fit, cards: tuple[Card, ...], traced: Callable[[Request], Trace], known: tuple[Calibration, ...]
) -> Fit:
    """Cards that were calibrated here are judged by a trace for their own kernels, and by their own context."""
    by_name = {card.name: one for one in known if (card := card_of(one.device)) is not None}
    judged = list(fit.cards)
    for place, card in enumerate(cards):
        calibration = by_name.get(card.name)
        if calibration is None:
            continue
        request = replace(fit.request, card=calibration.card)
        trace = traced(request)
        own = predict(trace, request, fit.allocator, calibration.context)
        found = judge(own, card, work_of(trace))
        judged[place] = replace(found, calibrated=True, biggest_batch=fit.cards[place].biggest_batch)
    return replace(fit, cards=tuple(judged))
