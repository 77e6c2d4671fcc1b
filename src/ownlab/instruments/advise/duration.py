"""How long a job takes on a card: told, measured, or at a share of the least time; other cards by the ladder."""

from __future__ import annotations

import math
from typing import NamedTuple

from ownlab.catalog.card_speeds import Shares, Speed, Workload, formula, load_throughput, speed_of
from ownlab.catalog.cards import Card, Unstated, load_cards
from ownlab.errors import InputError, UsageError
from ownlab.instruments.advise.records import Basis, Question, Span
from ownlab.instruments.bench.report_files import find_report
from ownlab.instruments.fit.records import CardFit, Fit

__all__ = [
    "SHARES",
    "Reached",
    "basis_measured",
    "basis_of_fit",
    "basis_told",
    "bench_share",
    "by_fp32",
    "hours_on",
    "speed_at",
]

# Which share of the least time's rate real steps reached: 25 steps of common models on one H200 SXM (torch 2.11, eager, no more
# than three steps each, batches of 2 to 128; 2026-11-15), the floor by instruments/fit/card_fit.py. Of each kind all but the
# lowest one lie within. Bigger batches, torch.compile and CUDA graphs reach more, slow data loading less.
#   transformers 0.03, 0.09, 0.18, 0.18, 0.23, 0.28, 0.28, 0.56, 0.58; convolutions 0.02, 0.04, 0.04, 0.07, 0.10, 0.13, 0.14,
#   0.15, 0.17, 0.26; recurrent 0.08, 0.12 (two alone: widened); inference of transformers 0.22, 0.37.
# Lambda's ResNet-50 (FP16, 2022 to 2025) says the same of arithmetic alone: 8 % of the peak on an H200, 16 % on a V100.
SHARES: dict[Workload, Span] = {
    "vision": Span(0.04, 0.26),
    "transformer": Span(0.09, 0.58),
    "recurrent": Span(0.05, 0.2),
    "decoding": Span(0.2, 0.9),  # upper end: a copy reached 4.3 of the H200's 4.8 TB/s
}
_SHARE_OF_ANY = Span(0.04, 0.58)
# The shares were measured there: its floor is the one to start from.
_MEASURED_ON = "H200 SXM"
_SECONDS_AN_HOUR = 3600
_FP32_ALONE = Shares(tasks=(), tensor=0.0, fp32=1.0, near=0.0, far=0.0)
_LONGEST = 1e6  # hours; a century
_SHORTEST = 1 / _SECONDS_AN_HOUR
# What `ownlab bench` trains, and how far another model of its kind may be from it: assumed, the 25 steps above differ by more.
_BENCHED: dict[Workload, str] = {"vision": "resnet50 training", "transformer": "gpt2 training"}
_ALIKE = 2.0


class Reached(NamedTuple):
    """A share of the best rate, and where it was seen."""

    card: str
    share: Span
    what: str


def basis_told(card: Card, hours: float) -> Basis:
    """Somebody knows how long it takes on one card."""
    if not _SHORTEST <= hours <= _LONGEST:
        raise UsageError(f"a job of {hours:g} hours is none", hint="Write how long it takes: --hours 20 --on T4")
    return Basis("told", card.name, Span(hours, hours), f"told: {hours:g} hours on the {card.name}")


def basis_measured(card: Card, seconds: float, steps: int) -> Basis:
    """Somebody timed a step on one card."""
    if seconds <= 0 or not math.isfinite(seconds):
        raise UsageError(f"a step of {seconds:g} seconds is none", hint="--step-seconds 0.12 --on T4 --steps 100000")
    hours = _bounded(steps * seconds / _SECONDS_AN_HOUR)
    why = f"measured: {steps:,} steps of {seconds:g} s on the {card.name}"
    return Basis("measured", card.name, Span(hours, hours), why, steps)


def bench_share(name: str, workload: Workload) -> Reached:
    """What the same kind of work reached on a card that was measured with `ownlab bench`."""
    report = find_report(name)
    start = _BENCHED.get(workload)
    if start is None:
        raise UsageError(f"`ownlab bench` trains nothing {workload}", hint=f"--workload {' or '.join(_BENCHED)}")
    shares = [
        one.share_of_peak for one in report.results if one.name.startswith(start) and one.share_of_peak is not None
    ]
    card = next((card.catalogue for card in report.machine.cards if card.catalogue), None)
    if not shares or card is None:
        raise InputError(
            f"{name} has no share of the peak for {start}", hint="ownlab bench --only training, on a card that is known"
        )
    what = f"{start.removesuffix(' training')} reached on this {card} by {name}, taken within a factor of {_ALIKE:g}"
    return Reached(card, Span(min(shares) / _ALIKE, min(1.0, max(shares) * _ALIKE)), what)


def basis_of_fit(fit: Fit, steps: int, workload: Workload | None, own: Reached | None = None) -> Basis:
    """From the least time of a step, and the share of it that such work reaches: by one's own measurement, or by ours."""
    known = {card.name: card.floor_seconds for card in fit.cards if card.floor_seconds}
    if not known:
        raise UsageError(
            "the report has the least time of a step for none of its cards",
            hint="ownlab fit … --cards h200 --json has it.",
        )
    anchor = own.card if own is not None and own.card in known else _anchor(fit.cards)
    share = own.share if own is not None else _SHARE_OF_ANY if workload is None else SHARES[workload]
    what = own.what if own is not None else _reached_by(workload)
    floor = _bounded(known[anchor] * steps / _SECONDS_AN_HOUR)
    why = f"{steps:,} steps at {share.low:.0%} to {share.high:.0%} of the best rate of the {anchor}: {what}"
    least = {name: seconds * steps / _SECONDS_AN_HOUR for name, seconds in known.items()}
    return Basis("floor", anchor, Span(floor / share.high, floor / share.low), why, steps, least)


def _bounded(hours: float) -> float:
    if hours > _LONGEST:
        raise UsageError(f"that is a job of {hours:,.0f} hours", hint="Is --steps right? Nobody waits for a century.")
    return hours


def _reached_by(workload: Workload | None) -> str:
    what = "models of all kinds" if workload is None else {"decoding": "inference"}.get(workload, f"{workload} models")
    return f"so much {what} reached on an H200, in eager torch with batches of 2 to 128"


def _anchor(cards: tuple[CardFit, ...]) -> str:
    names = {card.name for card in load_cards()}
    timed = [card for card in cards if card.floor_seconds and card.name in names]
    if not timed:
        raise UsageError("the report has a time for no card that is known", hint="ownlab fit … --cards h200 --json")
    best = min(timed, key=lambda card: (card.name != _MEASURED_ON, card.floor_seconds))
    return best.name


def by_fp32(question: Question) -> bool:
    """Whether cards stand by their fp32 rates: the ladder is of fp16 work, and products in fp32 use no tensor cores.

    Convolutions do: cuDNN computes them in TF32 unless somebody forbids it.
    """
    return question.precision == "fp32" and question.workload in ("transformer", "recurrent")


def speed_at(card: Card, question: Question) -> Speed | Unstated:
    """How fast it is at this work: by the ladder, or in fp32 by its fp32 rate."""
    if not by_fp32(question):
        return speed_of(card, question.workload)
    computed = formula(card, _FP32_ALONE)
    if isinstance(computed, Unstated):
        return computed
    # No fp32 work was measured on several cards: two are as unsure beside each other as the ladder is of one whose make
    # nobody measured.
    spread = math.exp(load_throughput().workloads[question.workload].far / math.sqrt(2))
    speed = math.exp(computed)
    return Speed(card.name, speed, speed / spread, speed * spread, "computed", "", "by its fp32 rate alone")


def hours_on(card: Card, basis: Basis, anchor: Card, question: Question) -> Span | None:
    """How long it takes there; None where one of the two cards has no speed."""
    if card.name == basis.card:
        return basis.hours
    here, there = speed_at(anchor, question), speed_at(card, question)
    if not isinstance(here, Speed) or not isinstance(there, Speed):
        return None
    least = basis.least_hours.get(card.name, 0.0)
    return _widened(basis.hours.times(here.relative / there.relative), _width(here), _width(there), least=least)


def _widened(hours: Span, *widths: float, least: float) -> Span:
    """Errors that have nothing to do with each other: as factors, so their logarithms add up in squares."""
    width = math.hypot(math.log(hours.high / hours.low) / 2, *widths)
    low = max(hours.middle / math.exp(width), least)
    return Span(low, max(low, hours.middle * math.exp(width)))


def _width(speed: Speed) -> float:
    return math.log(speed.high / speed.low) / 2
