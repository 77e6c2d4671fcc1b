"""From command-line options to a question. Options that cannot be answered are refused here, with what to write instead."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from ownlab.catalog.card_speeds import Workload, load_throughput
from ownlab.catalog.cards import Card, choose_cards, find_card
from ownlab.catalog.platforms import usual_card
from ownlab.catalog.usable_memory import usable_memory
from ownlab.errors import RecordError, UsageError
from ownlab.input_files import read_bytes
from ownlab.instruments.advise.card_filter import is_other_platform
from ownlab.instruments.advise.duration import basis_given, basis_measured, basis_of_fit, reached_share
from ownlab.instruments.advise.published import basis_published, benchmark_of
from ownlab.instruments.advise.records import Basis, Question
from ownlab.instruments.fit.records import Fit
from ownlab.json_encoding import decode_json
from ownlab.text import listing, text
from ownlab.units import MIB, format_bytes, parse_bytes

__all__ = ["AdviseOptions", "build_question", "read_fit"]

# The ladder needs a kind of work; most people train transformers today.
_DEFAULT_WORKLOAD: Workload = "transformer"
# A report has some hundred kilobytes; a much larger file is something else.
_MAX_REPORT_BYTES = 64 * 1024 * 1024


class AdviseOptions(NamedTuple):
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
    card_count: int = 1


def build_question(options: AdviseOptions) -> Question:
    """Check the options and build the question."""
    _check_limits(options)
    _check_combinations(options)
    fit = None if options.fit is None else read_fit(options.fit)
    benchmark = None if fit is None else benchmark_of(fit)
    workload = options.workload or (None if fit is None else _workload_of(fit, benchmark))
    memory, least = _memory(options, fit)
    basis = _basis(options, fit, benchmark, workload)
    _check_memory(memory if least is None else least, basis)
    return Question(
        workload=workload or _DEFAULT_WORKLOAD,
        workload_given=options.workload is not None,
        workload_inferred=options.workload is None and workload is not None,
        memory_bytes=memory,
        memory_least_bytes=least,
        precision=options.precision or (fit.request.precision if fit is not None else ""),
        basis=basis,
        budget_usd=options.budget,
        hours_per_day=options.hours_per_day,
        count=options.card_count,
        notes=() if options.on is None else _note_on_card(options.on),
    )


def _workload_of(fit: Fit, benchmark: str | None) -> Workload | None:
    """Return the kind of work of a step by its layers; None where it has several kinds, or the report does not say."""
    if benchmark is not None:
        return load_throughput().benchmarks[benchmark].workload
    kinds = set(fit.work.kinds) if fit.work is not None else set()
    if "attention" in kinds and "convolution" not in kinds:
        return "transformer"
    by_kind: dict[frozenset[str], Workload] = {
        frozenset({"convolution"}): "vision",
        frozenset({"recurrent"}): "recurrent",
    }
    return by_kind.get(frozenset(kinds))


def read_fit(path: str) -> Fit:
    """Read a report of `ownlab fit --json`; "-" is stdin."""
    hint = text("Make one: ownlab fit … --json > fit.json")
    data = read_bytes(path, max_bytes=_MAX_REPORT_BYTES, stdin=True, hint=hint)
    try:
        return decode_json(data, Fit)
    except msgspec.DecodeError as exc:
        raise RecordError(
            text("{path} is not a report of `ownlab fit`: {cause}.", path="stdin" if path == "-" else path, cause=exc),
            hint=hint,
        ) from exc


def _check_limits(options: AdviseOptions) -> None:
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


def _check_combinations(options: AdviseOptions) -> None:
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


def _memory(options: AdviseOptions, fit: Fit | None) -> tuple[int | None, int | None]:
    """Return the memory that the job takes at most, and the least with which it may run."""
    if fit is not None:
        most = max(fit.band.device_high_bytes, fit.decoding.device_bytes if fit.decoding is not None else 0)
        return most, min(fit.smallest_bytes, fit.band.device_low_bytes)
    if options.model_memory is None:
        # A job that runs on one card fits all cards with as much memory; it may fit smaller ones.
        usable = None if options.on is None else usable_memory(_card_on(options.on))
        return (None, None) if usable is None else (usable.low_bytes, 0)
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


def _basis(options: AdviseOptions, fit: Fit | None, benchmark: str | None, workload: Workload | None) -> Basis | None:
    if options.on is not None:
        card = _card_on(options.on)
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
    if options.bench is not None:
        return basis_of_fit(fit, options.steps, workload, reached_share(options.bench, workload or _DEFAULT_WORKLOAD))
    published = None if benchmark is None else basis_published(fit, options.steps, benchmark)
    return published or basis_of_fit(fit, options.steps, workload)


def _check_memory(memory: int | None, basis: Basis | None) -> None:
    """A card on which the job was timed must be large enough for it."""
    if memory is None or basis is None or basis.kind in ("floor", "published"):
        return
    usable = usable_memory(choose_cards(basis.card)[0])
    if usable is not None and usable.holds(memory) is False:
        raise UsageError(
            text(
                "The job needs {needed} and cannot have run on the {card}, which has {size} for programs.",
                needed=format_bytes(memory),
                card=basis.card,
                size=format_bytes(usable.high_bytes),
            ),
            hint=text("Use --on with a card that is large enough."),
        )


def _card_on(name: str) -> Card:
    """Return the card of --on: of several of one model the usual one (`_note_on_card` says which)."""
    cards = choose_cards(name, sizes=False)
    usual = usual_card(cards, name)
    if usual is None:
        names = listing([card.name for card in cards], "{items} or {last}")
        raise UsageError(
            text("--on {name} is ambiguous: it may be {names}.", name=name, names=names),
            hint=text("Write more of the name."),
        )
    return usual


def _note_on_card(name: str) -> tuple[str, ...]:
    cards = choose_cards(name, sizes=False)
    card = _card_on(name)
    others = [other.name for other in cards if other.name != card.name]
    if not others:
        return ()
    return (
        text(
            "--on {name} is taken as the {card}, the usual one. If it was another, write its name: {others}.",
            name=name,
            card=card.name,
            others=listing(others, "{items} or {last}"),
        ),
    )
