"""How long a job takes on one card (given, measured, or estimated from its least time), and from there on other cards."""

from __future__ import annotations

import math
from typing import NamedTuple

from ownlab.catalog.card_speeds import Shares, Speed, Workload, computed_log_speed, load_throughput, speed_of
from ownlab.catalog.cards import Card, Unstated
from ownlab.catalog.gpu_ladder import WORKLOAD_NAMES
from ownlab.errors import InputError, UsageError
from ownlab.instruments.advise.records import Basis, Question, Range
from ownlab.instruments.bench.report_files import find_report
from ownlab.instruments.fit.card_fit import compute_floor
from ownlab.instruments.fit.card_specs import load_cards
from ownlab.instruments.fit.records import Fit, Work
from ownlab.text import listing, text

__all__ = [
    "SHARES",
    "ReachedShare",
    "basis_given",
    "basis_measured",
    "basis_of_fit",
    "compares_by_fp32",
    "hours_on",
    "reached_share",
    "speed_for",
]

# The share of the best rate that real steps reached: 25 steps of common models on one H200 SXM (torch 2.11, eager, at most
# three steps each, batches of 2 to 128; 2026-11-15). The best rate is that of instruments/fit/card_fit.py. All but the lowest
# of each kind lie within the range. Bigger batches, torch.compile and CUDA graphs reach more, slow data loading less.
#   transformers 0.03, 0.09, 0.18, 0.18, 0.23, 0.28, 0.28, 0.56, 0.58; convolutions 0.02, 0.04, 0.04, 0.07, 0.10, 0.13, 0.14,
#   0.15, 0.17, 0.26; recurrent 0.08, 0.12 (only two: widened); inference of transformers 0.22, 0.37.
# Lambda's ResNet-50 (FP16, 2022 to 2025) agrees for arithmetic: 8 % of the peak on an H200, 16 % on a V100.
SHARES: dict[Workload, Range] = {
    "vision": Range(0.04, 0.26),
    "transformer": Range(0.09, 0.58),
    "recurrent": Range(0.05, 0.2),
    "decoding": Range(0.2, 0.9),  # upper end: a copy reached 4.3 of the H200's 4.8 TB/s
}
_SHARE_OF_ANY = Range(0.04, 0.58)
# The shares were measured on this card, so its least time is the basis.
_MEASURED_ON = "H200 SXM"
_SECONDS_PER_HOUR = 3600
_FP32_ONLY = Shares(tasks=(), tensor=0.0, fp32=1.0, near=0.0, far=0.0)
_LONGEST = 1e6  # hours; a century
_SHORTEST = 1 / _SECONDS_PER_HOUR
# The training benchmarks of `ownlab bench`, and how far another model of the kind may be off: an assumption, since the 25
# steps above differ by more.
_BENCHMARKS: dict[Workload, str] = {"vision": "resnet50 training", "transformer": "gpt2 training"}
_MODEL_FACTOR = 2.0
_MODELS: dict[Workload | None, str] = {
    None: text("models of all kinds"),
    "vision": text("vision models"),
    "transformer": text("transformer models"),
    "recurrent": text("recurrent models"),
    "decoding": text("inference"),
}


class ReachedShare(NamedTuple):
    """The share of the best rate that a benchmark reached, and on which card."""

    card: str
    share: Range
    model: str
    report: str


def basis_given(card: Card, hours: float) -> Basis:
    """The user states how long the job takes on one card."""
    if not _SHORTEST <= hours <= _LONGEST:
        raise UsageError(
            text("--hours {hours:g} is not a valid duration.", hours=hours),
            hint=text("Write how long the job takes on a card: --hours 20 --on T4"),
        )
    why = text("the job takes {hours:g} hours on the {card}, as given.", hours=hours, card=card.name)
    return Basis("told", card.name, Range(hours, hours), why)


def basis_measured(card: Card, seconds: float, steps: int) -> Basis:
    """A step was timed on one card."""
    if seconds <= 0 or not math.isfinite(seconds):
        raise UsageError(
            text("--step-seconds {seconds:g} is not a valid duration.", seconds=seconds),
            hint=text("Write for example: --step-seconds 0.12 --on T4 --steps 100000"),
        )
    hours = _check_length(steps * seconds / _SECONDS_PER_HOUR)
    why = text(
        "{steps:,} steps take {seconds:g} s each on the {card}, as measured.",
        steps=steps,
        seconds=seconds,
        card=card.name,
    )
    return Basis("measured", card.name, Range(hours, hours), why, steps)


def reached_share(name: str, workload: Workload) -> ReachedShare:
    """Return what the same kind of work reached on a card that `ownlab bench` measured."""
    report = find_report(name)
    training = _BENCHMARKS.get(workload)
    if training is None:
        raise UsageError(
            text("`ownlab bench` has no training benchmark for {workload} work.", workload=WORKLOAD_NAMES[workload]),
            hint=text("Use --workload {workloads}.", workloads=listing(_BENCHMARKS, "{items} or {last}")),
        )
    shares = [
        result.share_of_peak
        for result in report.results
        if result.name.startswith(training) and result.share_of_peak is not None
    ]
    card = next((card.catalogue for card in report.machine.cards if card.catalogue), None)
    if not shares or card is None:
        raise InputError(
            text("{report} has no share of the peak for {benchmark}.", report=name, benchmark=training),
            hint=text("Run `ownlab bench --only training` on a card of the catalog."),
        )
    share = Range(min(shares) / _MODEL_FACTOR, min(1.0, max(shares) * _MODEL_FACTOR))
    return ReachedShare(card, share, training.removesuffix(" training"), name)


def basis_of_fit(fit: Fit, steps: int, workload: Workload | None, reached: ReachedShare | None = None) -> Basis:
    """Estimate from the work of a step and the share of the best rate that such work reaches.

    `reached`: the user's own benchmark; without it the shares that ownlab measured. Those hold for the card on which they
    were measured, so the estimate always begins there, whichever cards the report lists.
    """
    least = {name: seconds * steps / _SECONDS_PER_HOUR for name, seconds in _least_seconds(fit).items()}
    card = reached.card if reached is not None and reached.card in least else _MEASURED_ON
    if card not in least:
        raise UsageError(
            text("The report gives no least time of a step for any of its cards."),
            hint=text("A new report has it for all cards: ownlab fit … --json > fit.json"),
        )
    share = reached.share if reached is not None else _SHARE_OF_ANY if workload is None else SHARES[workload]
    floor = _check_length(least[card])
    values = {"steps": steps, "low": share.low, "high": share.high, "card": card}
    if reached is not None:
        why = text(
            "{steps:,} steps at {low:.0%} to {high:.0%} of the best rate of the {card}: {model} on the {own_card} in {report}, "
            "within a factor of {factor:g}.",
            **values,
            model=reached.model,
            own_card=reached.card,
            report=reached.report,
            factor=_MODEL_FACTOR,
        )
    else:
        why = text(
            "{steps:,} steps at {low:.0%} to {high:.0%} of the best rate of the {card}: {models} reached this on an H200, in "
            "eager torch with batches of 2 to 128.",
            **values,
            models=_MODELS[workload],
        )
    return Basis("floor", card, Range(floor / share.high, floor / share.low), why, steps, least)


def _least_seconds(fit: Fit) -> dict[str, float]:
    """Return the least time of a step on every card of the catalog whose rates are known."""
    work = fit.work or _work_of_old_report(fit)
    if work is None:
        return {}
    floors = {card.name: compute_floor(card, work, fit.request) for card in load_cards()}
    return {name: floor.seconds for name, floor in floors.items() if floor is not None and floor.seconds > 0}


def _work_of_old_report(fit: Fit) -> Work | None:
    """Derive the work of a step from the least times of the cards that a report of an older version lists.

    The least time is that of the arithmetic and of the bytes that move meanwhile, or that of all bytes (card_fit.py). Each
    card bounds both numbers of bytes from above, the second only where memory bounds its time.
    """
    cards = {card.name: card for card in load_cards()}
    serial, moving, convolves = math.inf, math.inf, False
    for listed in fit.cards:
        card = cards.get(listed.name)
        if card is None or not listed.floor_seconds or card.bandwidth_gb_s is None:
            continue
        # Convolutions in fp32 run in TF32, so a time below that of fp32 tells that the step has some.
        alone = [
            compute_floor(card, Work(fit.flops.total, 0, 0, convolves=each), fit.request) for each in (False, True)
        ]
        possible = [floor for floor in alone if floor is not None and floor.seconds <= listed.floor_seconds * 1.0001]
        if not possible:
            continue
        convolves = convolves or len(possible) < len(alone)
        serial = min(serial, (listed.floor_seconds - possible[0].seconds) * card.bandwidth_gb_s * 1e9)
        if listed.bound_by == "memory":
            moving = min(moving, listed.floor_seconds * card.bandwidth_gb_s * 1e9)
    if math.isinf(serial):
        return None
    overlapped = 0 if math.isinf(moving) else max(0, round(moving - serial))
    return Work(fit.flops.total, max(0, round(serial)), overlapped, convolves)


def _check_length(hours: float) -> float:
    if hours > _LONGEST:
        raise UsageError(
            text("The job would take {hours:,.0f} hours, more than a century.", hours=hours),
            hint=text("Check --steps."),
        )
    return hours


def compares_by_fp32(question: Question) -> bool:
    """Return whether cards are compared by their fp32 rates.

    The ladder is made for fp16 work, and matrix products in fp32 use no tensor cores. Convolutions do: cuDNN computes them
    in TF32 unless that is disabled.
    """
    return question.precision == "fp32" and question.workload in ("transformer", "recurrent")


def speed_for(card: Card, question: Question) -> Speed | Unstated:
    """Return the speed of a card at this work: by the ladder, or in fp32 by its fp32 rate."""
    if not compares_by_fp32(question):
        return speed_of(card, question.workload)
    computed = computed_log_speed(card, _FP32_ONLY)
    if isinstance(computed, Unstated):
        return computed
    # No fp32 work was measured on several cards: the comparison is as uncertain as the ladder is for a card whose
    # family nobody measured.
    spread = math.exp(load_throughput().workloads[question.workload].far / math.sqrt(2))
    speed = math.exp(computed)
    return Speed(
        card.name, speed, speed / spread, speed * spread, "computed", "", text("computed from its fp32 rate only")
    )


def hours_on(card: Card, basis: Basis, basis_card: Card, question: Question) -> Range | None:
    """Return how long the job takes on a card; None where one of the two cards has no speed."""
    if card.name in basis.card_hours:
        return basis.card_hours[card.name]
    if card.name == basis.card:
        return basis.hours
    here, there = speed_for(basis_card, question), speed_for(card, question)
    if not isinstance(here, Speed) or not isinstance(there, Speed):
        return None
    least = basis.least_hours.get(card.name, 0.0)
    return _widened(basis.hours.times(here.relative / there.relative), _width(here), _width(there), least=least)


def _widened(hours: Range, *widths: float, least: float) -> Range:
    """Widen a range by independent errors. They are factors, so the squares of their logarithms add up."""
    width = math.hypot(math.log(hours.high / hours.low) / 2, *widths)
    low = max(hours.middle / math.exp(width), least)
    return Range(low, max(low, hours.middle * math.exp(width)))


def _width(speed: Speed) -> float:
    return math.log(speed.high / speed.low) / 2
