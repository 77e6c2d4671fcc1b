"""From a request to a prediction, for the command line and for notebooks alike.

Both give `predict_fit` a function that traces a step: the command line asks a guest process with a deadline, a notebook traces
the model that it holds. The prediction is then compared with cards, extended by the biggest batch and by remedies where they
were asked for, and corrected by the calibrations that this user has made (`ownlab fit --calibrate`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ownlab.errors import UsageError
from ownlab.instruments.fit.batch_search import BatchRange, PredictedBatches, predict_biggest_batch
from ownlab.instruments.fit.calibration import Calibration, load_calibrations
from ownlab.instruments.fit.card_fit import count_work, judge_card, with_cards
from ownlab.instruments.fit.card_specs import DEFAULT_CARDS, CardSpecs, card_of_device, choose_cards, load_cards
from ownlab.instruments.fit.guest_client import ask_guest, check_trace, error_of
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Decoding, Fit, Request, Strategy, Trace, Trouble
from ownlab.instruments.fit.remedies import try_remedies
from ownlab.instruments.fit.strategies import share_step
from ownlab.instruments.fit.torch_allocator import parse_settings
from ownlab.text import text

__all__ = ["Goals", "Working", "parse_batch", "parse_goals", "predict_fit", "with_calibrations", "with_decoding"]

Tracer = Callable[[Request], Trace]
Working = Callable[[str], AbstractContextManager[None]]


class Goals(NamedTuple):
    """What to find out in addition to the figures of the step itself."""

    cards: tuple[CardSpecs, ...]
    batches: BatchRange | None = None  # where to search for the biggest batch
    remedies: bool = False
    allocator: str = ""  # settings as in PYTORCH_ALLOC_CONF
    calibrations: tuple[Calibration, ...] = ()  # cards among these are judged by their own kernels and context
    strategy: Strategy | None = None  # how several cards share the step
    world: int = 1  # number of these cards


def parse_goals(
    cards: str | None, batches: BatchRange | None = None, *, remedies: bool = False, allocator: str = ""
) -> Goals:
    """Read what a user wrote, and report mistakes before anything starts. Calibrations of this user are loaded."""
    parse_settings(allocator)
    chosen = load_cards() if cards == "all" else choose_cards(cards or DEFAULT_CARDS)
    return Goals(chosen, batches, remedies, allocator, load_calibrations())


def predict_fit(request: Request, trace_step: Tracer, goals: Goals, working: Working = lambda _: nullcontext()) -> Fit:
    """Predict a step. `working` is entered with a description for as long as each part takes."""

    def predict_step(step: Request) -> Fit:
        return predict(trace_step(step), step, goals.allocator)

    with working(text("Tracing a few steps without a GPU")):
        trace = trace_step(request)
        fit = with_cards(predict(trace, request, goals.allocator), trace, goals.cards)
    if goals.strategy is not None:
        fit = replace(fit, sharing=share_step(fit, trace, goals.strategy, goals.world))
    if goals.batches is not None:
        with working(text("Searching for the biggest batch")):
            fit = _with_batches(fit, goals.cards, goals.batches, predict_step)
    if goals.remedies:
        with working(text("Trying remedies")):
            fit = replace(fit, remedies=try_remedies(fit, predict_step))
    if goals.calibrations:
        with working(text("Applying calibrations")):
            fit = with_calibrations(fit, goals.cards, trace_step, goals.calibrations)
    return fit


def _with_batches(
    fit: Fit, cards: tuple[CardSpecs, ...], batches: BatchRange, predict_step: Callable[[Request], Fit]
) -> Fit:
    start = fit.request.batch
    assert start is not None

    def predict_batch(batch: int) -> Fit:
        return predict_step(replace(fit.request, batch=batch))

    predicted = PredictedBatches(predict_batch)
    predicted.add(start, fit)
    biggest = [predict_biggest_batch(predicted, card.memory_bytes, batches, start) for card in cards]
    judged = [replace(card, biggest_batch=batch) for card, batch in zip(fit.cards, biggest, strict=True)]
    return replace(fit, cards=tuple(judged), searched=(batches.least, batches.most))


def with_calibrations(
    fit: Fit, cards: tuple[CardSpecs, ...], trace_step: Tracer, calibrations: tuple[Calibration, ...]
) -> Fit:
    """Judge calibrated cards again: by a trace for their own kernels, and by their own CUDA context."""
    by_name = {card.name: known for known in calibrations if (card := card_of_device(known.device)) is not None}
    judged = list(fit.cards)
    for index, card in enumerate(cards):
        calibration = by_name.get(card.name)
        if calibration is None:
            continue
        request = replace(fit.request, card=calibration.card)
        trace = trace_step(request)
        prediction = predict(trace, request, fit.allocator, calibration.context)
        own = judge_card(prediction, card, count_work(trace))
        judged[index] = replace(own, calibrated=True, biggest_batch=fit.cards[index].biggest_batch)
    return replace(fit, cards=tuple(judged))


def parse_batch(written: str | None, start: int) -> tuple[int | None, BatchRange | None]:
    """ "8" -> a batch; "8..512" or "max" -> the batch where the search begins, and the range to search."""
    if written is None:
        return None, None
    if written == "max":
        return start, BatchRange()
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", written)
    if match is None or int(match[1]) < 1 or (match[2] and int(match[2]) < int(match[1])):
        raise UsageError(
            text("--batch {batch} is neither a number nor a range.", batch=written),
            hint=text("Write 8, 8..512 or max."),
        )
    if match[2] is None:
        return int(match[1]), None
    return int(match[1]), BatchRange(int(match[1]), int(match[2]))


# -- decoding: the cache of keys and values ------------------------------------------------------------------------------


class DecodingAnswer(Struct, frozen=True):
    """The answer of the guest: the step of the last token, and the sizes of the cache."""

    trace: Trace = Trace()
    batch: int = 0
    prompt_tokens: int = 0
    new_tokens: int = 0
    prompt_bytes: int = 0
    cache_bytes: int = 0
    error: Trouble | None = None


def with_decoding(fit: Fit, count: int, goals: Goals, python: str, *, deadline: float) -> Fit:
    """Add the cache after `count` new tokens. The prediction becomes that of prompt or last token, whichever takes more."""
    request: Request = fit.request
    no_card = {"CUDA_VISIBLE_DEVICES": ""}  # as in every trace
    answer = ask_guest(
        "fit.kv_cache", request, python, str(count), answer=DecodingAnswer, deadline=deadline, env=no_card
    )
    if answer.error is not None:
        raise error_of(answer.error)
    trace = check_trace(answer.trace, request)
    last = with_cards(predict(trace, request, goals.allocator), trace, goals.cards)
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
