"""From what a person said to a question; all that cannot be answered is refused here, with what to write instead."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import msgspec

from ownlab.catalog.card_speeds import Workload
from ownlab.catalog.cards import Card, choose_cards, find_card
from ownlab.errors import InputError, RecordError, UsageError
from ownlab.instruments.advise.card_filter import memory_of, runs_other_programs
from ownlab.instruments.advise.duration import basis_measured, basis_of_fit, basis_told, bench_share
from ownlab.instruments.advise.records import Basis, Question
from ownlab.instruments.fit.records import Fit
from ownlab.units import format_bytes, parse_bytes

__all__ = ["Wishes", "question_of", "read_fit"]

# The ladder needs one; what most people train now.
_DEFAULT_WORKLOAD: Workload = "transformer"


class Wishes(NamedTuple):
    """The options, by their names."""

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


def question_of(wishes: Wishes) -> Question:
    """The question that is meant."""
    _check(wishes)
    fit = None if wishes.fit is None else read_fit(wishes.fit)
    memory, least = _memory(wishes, fit)
    basis = _basis(wishes, fit)
    _check_memory(memory if least is None else least, basis)
    return Question(
        workload=wishes.workload or _DEFAULT_WORKLOAD,
        workload_told=wishes.workload is not None,
        memory_bytes=memory,
        memory_least_bytes=least,
        precision=wishes.precision or (fit.request.precision if fit is not None else ""),
        basis=basis,
        budget_usd=wishes.budget,
        hours_per_day=wishes.hours_per_day,
    )


def _check(wishes: Wishes) -> None:
    if wishes.budget is not None and not 0 < wishes.budget < math.inf:
        raise UsageError(
            f"a budget of {wishes.budget:g} buys nothing",
            hint="Without --budget all is shown; what costs nothing: ownlab clouds cost … --platforms kaggle,colab",
        )
    if wishes.hours_per_day is not None and not 0 < wishes.hours_per_day <= 24:
        raise UsageError(f"a day has no {wishes.hours_per_day:g} hours to run", hint="Write --hours-per-day 8")
    if wishes.fit is not None and wishes.model_memory is not None:
        raise UsageError("--fit says how much memory is needed, and --model-memory too", hint="Leave one of them out.")
    if (wishes.hours is not None or wishes.step_seconds is not None) and wishes.on is None:
        raise UsageError("on which card does it take so long?", hint="Name it: --hours 20 --on T4")
    if wishes.hours is not None and wishes.step_seconds is not None:
        raise UsageError("--hours and --step-seconds both say how long it takes", hint="Leave one of them out.")
    if wishes.on is not None and wishes.hours is None and wishes.step_seconds is None:
        raise UsageError("how long does it take there?", hint=f"--hours 20 --on {wishes.on}, or --step-seconds 0.12")
    if wishes.step_seconds is not None and wishes.steps is None:
        raise UsageError("how many steps are there?", hint="--step-seconds 0.12 --steps 100000 --on T4")
    if wishes.bench is not None and (wishes.fit is None or wishes.steps is None):
        raise UsageError(
            "--bench says which share of the best rate is reached: of what?", hint="--fit REPORT.json --steps N"
        )
    if wishes.steps is not None and wishes.fit is None and wishes.step_seconds is None:
        raise UsageError(
            "how long is a step?", hint="--fit REPORT.json says it at best, --step-seconds 0.12 --on T4 as measured"
        )


def _memory(wishes: Wishes, fit: Fit | None) -> tuple[int | None, int | None]:
    if fit is not None:
        most = max(fit.band.device_high_bytes, fit.decoding.device_bytes if fit.decoding is not None else 0)
        return most, min(fit.smallest_bytes, fit.band.device_low_bytes)
    if wishes.model_memory is None:
        # What runs on one card fits all that have as much; smaller ones may do, which nobody said.
        told = None if wishes.on is None else memory_of(_one_card(wishes.on))
        return told, None if told is None else 0
    try:
        size = parse_bytes(wishes.model_memory)
    except ValueError as exc:
        raise UsageError(f"--model-memory: {exc}") from exc
    if size < 1024**2:
        raise UsageError(f"--model-memory {wishes.model_memory} is less than a mebibyte", hint="Write 18GiB.")
    return size, None


def _basis(wishes: Wishes, fit: Fit | None) -> Basis | None:
    if wishes.on is not None:
        card = _one_card(wishes.on)
        if runs_other_programs(card):
            raise UsageError(
                f"the {card.name} runs other programs: what it takes there says nothing of other cards",
                hint="Name a card of `ownlab gpus ladder` with --on.",
            )
        if wishes.hours is not None:
            return basis_told(card, wishes.hours)
        assert wishes.step_seconds is not None
        assert wishes.steps is not None
        return basis_measured(card, wishes.step_seconds, wishes.steps)
    if fit is None or wishes.steps is None:
        return None
    measured = None if fit.measured is None or fit.measured.device.kind == "cpu" else fit.measured
    if measured is not None and measured.step_seconds:
        known = find_card(measured.device.name, measured.device.memory_bytes)
        if known is not None:
            return basis_measured(known, measured.step_seconds, wishes.steps)
    own = None if wishes.bench is None else bench_share(wishes.bench, wishes.workload or _DEFAULT_WORKLOAD)
    return basis_of_fit(fit, wishes.steps, wishes.workload, own)


def _check_memory(memory: int | None, basis: Basis | None) -> None:
    """What takes so long on a card was held by it."""
    if memory is None or basis is None or basis.kind == "floor":
        return
    size = memory_of(choose_cards(basis.card)[0])
    if size is not None and size < memory:
        raise UsageError(
            f"the {basis.card} has {format_bytes(size)} for programs, and the job needs {format_bytes(memory)}: it takes no "
            "hours there",
            hint="Name a card that holds it with --on.",
        )


def _one_card(asked: str) -> Card:
    found = choose_cards(asked, sizes=False)
    if len(found) > 1:
        raise UsageError(
            f"--on {asked} may be {' or '.join(card.name for card in found)}", hint="Write more of its name."
        )
    return found[0]


# A report is some hundred kilobytes; a file that is greater by far is something else.
_BIGGEST = 64 * 1024 * 1024


def read_fit(path: str) -> Fit:
    """The report of a model; "-" is stdin."""
    try:
        if path == "-":
            text = sys.stdin.buffer.read(_BIGGEST + 1)
        else:
            with open(path, "rb") as file:
                text = file.read(_BIGGEST + 1)  # a pipe, or a device, has no size to look at
    except OSError as exc:
        raise InputError(
            f"cannot read {path}: {exc.strerror or exc}", hint="Make one: ownlab fit … --json > fit.json"
        ) from exc
    if len(text) > _BIGGEST:
        raise InputError(f"{path} is too big to be a report of `ownlab fit`")
    try:
        return msgspec.json.decode(text, type=Fit)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise RecordError(
            f"{'stdin' if path == '-' else path} is no report of `ownlab fit`: {exc}",
            hint="Make one: ownlab fit … --json > fit.json",
        ) from exc
