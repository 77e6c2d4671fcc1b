"""From command-line options to a question. Options that cannot be answered are refused here, with what to write instead."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import msgspec

from ownlab.catalog.card_speeds import Workload
from ownlab.catalog.cards import Card, choose_cards, find_card
from ownlab.errors import InputError, RecordError, UsageError
from ownlab.instruments.advise.card_filter import is_other_platform, usable_memory
from ownlab.instruments.advise.duration import basis_given, basis_measured, basis_of_fit, reached_share
from ownlab.instruments.advise.records import Basis, Question
from ownlab.instruments.fit.records import Fit
from ownlab.text import listing, text
from ownlab.units import MIB, format_bytes, parse_bytes

__all__ = ["Options", "build_question", "read_fit"]

# The ladder needs a kind of work; most people train transformers today.
_DEFAULT_WORKLOAD: Workload = "transformer"
# A report has some hundred kilobytes; a much larger file is something else.
_MAX_REPORT_BYTES = 64 * 1024 * 1024


class Options(NamedTuple):
    """The command-line options, by their names."""

    fit: str | None = None
    model_memory: str | None = None
    workload: Workload | None = None
    precision: str | None = None
    steps: int | None = None
    hours: float | None = None
    step_seconds: float | None = None
    on: str | None = None
    bench: str | None = None
    budget: float | None = None
    hours_per_day: float | None = None


def build_question(options: Options) -> Question:
    """Check the options and build the question."""
    _check_limits(options)
    _check_combinations(options)
    fit = None if options.fit is None else read_fit(options.fit)
    memory, least = _memory(options, fit)
    basis = _basis(options, fit)
    _check_memory(memory if least is None else least, basis)
    return Question(
        workload=options.workload or _DEFAULT_WORKLOAD,
        workload_given=options.workload is not None,
        memory_bytes=memory,
        memory_least_bytes=least,
        precision=options.precision or (fit.request.precision if fit is not None else ""),
        basis=basis,
        budget_usd=options.budget,
        hours_per_day=options.hours_per_day,
    )


def read_fit(path: str) -> Fit:
    """Read a report of `ownlab fit --json`; "-" is stdin."""
    hint = text("Make one: ownlab fit … --json > fit.json")
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MAX_REPORT_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(_MAX_REPORT_BYTES + 1)  # a pipe or a device has no size to check first
    except OSError as exc:
        raise InputError(text("Cannot read {path}: {cause}.", path=path, cause=exc.strerror or exc), hint=hint) from exc
    if len(data) > _MAX_REPORT_BYTES:
        raise InputError(text("{path} is too large for a report of `ownlab fit`.", path=path))
    try:
        return msgspec.json.decode(data, type=Fit)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise RecordError(
            text("{path} is not a report of `ownlab fit`: {cause}.", path="stdin" if path == "-" else path, cause=exc),
            hint=hint,
        ) from exc


def _check_limits(options: Options) -> None:
    if options.budget is not None and not 0 < options.budget < math.inf:
        raise UsageError(
            text("--budget must be a positive amount, not {budget:g}.", budget=options.budget),
            hint=text("Omit --budget to see everything. Free offers: ownlab clouds cost … --platforms kaggle,colab"),
        )
    if options.hours_per_day is not None and not 0 < options.hours_per_day <= 24:
        raise UsageError(
            text("--hours-per-day must be between 0 and 24, not {hours:g}.", hours=options.hours_per_day),
            hint=text("Write for example --hours-per-day 8."),
        )


def _check_combinations(options: Options) -> None:
    has_time = options.hours is not None or options.step_seconds is not None
    if options.fit is not None and options.model_memory is not None:
        raise UsageError(text("--fit and --model-memory both give the memory size."), hint=text("Omit one of them."))
    if has_time and options.on is None:
        raise UsageError(
            text("--hours and --step-seconds need --on: the card on which it was timed."),
            hint=text("Write for example: --hours 20 --on T4"),
        )
    if options.hours is not None and options.step_seconds is not None:
        raise UsageError(text("--hours and --step-seconds both give the duration."), hint=text("Omit one of them."))
    if options.on is not None and not has_time:
        raise UsageError(
            text("--on needs the duration on that card."),
            hint=text(
                "Write --hours 20 --on {card}, or --step-seconds 0.12 --steps 100000 --on {card}.", card=options.on
            ),
        )
    if options.step_seconds is not None and options.steps is None:
        raise UsageError(
            text("--step-seconds needs --steps: the number of steps."),
            hint=text("Write for example: --step-seconds 0.12 --steps 100000 --on T4"),
        )
    if options.bench is not None and (options.fit is None or options.steps is None):
        raise UsageError(text("--bench needs --fit and --steps."), hint=text("Add --fit REPORT.json --steps N."))
    if options.steps is not None and options.fit is None and options.step_seconds is None:
        raise UsageError(
            text("--steps needs the duration of a step."),
            hint=text("Add --fit REPORT.json for an estimate, or --step-seconds 0.12 --on T4 for a measured one."),
        )


def _memory(options: Options, fit: Fit | None) -> tuple[int | None, int | None]:
    """Return the memory that the job takes at most, and the least with which it may run."""
    if fit is not None:
        most = max(fit.band.device_high_bytes, fit.decoding.device_bytes if fit.decoding is not None else 0)
        return most, min(fit.smallest_bytes, fit.band.device_low_bytes)
    if options.model_memory is None:
        # A job that runs on one card fits all cards with as much memory; it may fit smaller ones.
        size = None if options.on is None else usable_memory(_single_card(options.on))
        return size, None if size is None else 0
    try:
        size = parse_bytes(options.model_memory)
    except ValueError as exc:
        raise UsageError(text("--model-memory: {cause}.", cause=exc)) from exc
    if size < MIB:
        raise UsageError(
            text("--model-memory {size} is less than one MiB.", size=options.model_memory),
            hint=text("Write the unit, for example 18GiB."),
        )
    return size, None


def _basis(options: Options, fit: Fit | None) -> Basis | None:
    if options.on is not None:
        card = _single_card(options.on)
        if is_other_platform(card):
            raise UsageError(
                text("The {card} runs other programs, so its time says nothing about other cards.", card=card.name),
                hint=text("Use --on with a card of `ownlab gpus ladder`."),
            )
        if options.hours is not None:
            return basis_given(card, options.hours)
        assert options.step_seconds is not None
        assert options.steps is not None
        return basis_measured(card, options.step_seconds, options.steps)
    if fit is None or options.steps is None:
        return None
    measured = None if fit.measured is None or fit.measured.device.kind == "cpu" else fit.measured
    if measured is not None and measured.step_seconds:
        known = find_card(measured.device.name, measured.device.memory_bytes)
        if known is not None:
            return basis_measured(known, measured.step_seconds, options.steps)
    reached = None if options.bench is None else reached_share(options.bench, options.workload or _DEFAULT_WORKLOAD)
    return basis_of_fit(fit, options.steps, options.workload, reached)


def _check_memory(memory: int | None, basis: Basis | None) -> None:
    """A card on which the job was timed must be large enough for it."""
    if memory is None or basis is None or basis.kind == "floor":
        return
    size = usable_memory(choose_cards(basis.card)[0])
    if size is not None and size < memory:
        raise UsageError(
            text(
                "The job needs {needed} and cannot have run on the {card}, which has {size} for programs.",
                needed=format_bytes(memory),
                card=basis.card,
                size=format_bytes(size),
            ),
            hint=text("Use --on with a card that is large enough."),
        )


def _single_card(name: str) -> Card:
    cards = choose_cards(name, sizes=False)
    if len(cards) > 1:
        names = listing([card.name for card in cards], "{items} or {last}")
        raise UsageError(
            text("--on {name} is ambiguous: it may be {names}.", name=name, names=names),
            hint=text("Write more of the name."),
        )
    return cards[0]
