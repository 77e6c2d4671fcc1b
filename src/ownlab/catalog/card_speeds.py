"""The relative speed of cards by kind of work: measured where a measurement was published, computed otherwise.

Computed: the time of a step on the reference card (V100 SXM2) is split into three shares. A card shortens them as its tensor
rate, its fp32 rate and its bandwidth are higher. The shares were fitted to the measured rows (data/throughput.toml). The
formula transfers a measured speed to a card from the nearest measured card of its family; where none of the family was
measured, from all cards at once. tests/catalog/test_card_speeds.py leaves each card out in turn and prints the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import Struct

from ownlab.catalog.cards import Card, Figure, Unstated, load_cards
from ownlab.catalog.throughput_table import (
    WORKLOADS,
    MeasuredSet,
    Shares,
    Throughput,
    Workload,
    load_throughput,
)
from ownlab.text import facts, listing, template, text

__all__ = [
    "REFERENCE",
    "WORKLOADS",
    "MeasuredSet",
    "Shares",
    "Speed",
    "Throughput",
    "Workload",
    "computed_log_speed",
    "exceeds",
    "family",
    "load_throughput",
    "measured_log_speed",
    "nearest_measured",
    "price_of",
    "ranked_speeds",
    "speed_of",
]

REFERENCE = "V100 SXM2 16GB"
# Lambda measured the H100 SXM5 on about forty machines; their results differ by this share.
_MACHINE_SPREAD = 0.06
_PAIR = 2
# A card that has this much more of every rate than another was never measured to be slower.
_MORE = 1.05
_TWIN = 0.98


class Speed(Struct, frozen=True):
    """The speed of a card relative to the reference, and its uncertainty."""

    card: str
    relative: float  # V100 SXM2 16GB = 1
    low: float
    high: float
    kind: Literal["measured", "computed"]
    source: str  # a key of load_throughput().sources
    why: str


class _MeasuredCard(NamedTuple):
    """A measured card: logarithms of its speed by the formula and by the measurement."""

    card: Card
    computed: float
    measured: float
    set: MeasuredSet


def speed_of(card: Card, workload: Workload) -> Speed | Unstated:
    """Return the relative speed of a card at this kind of work."""
    measured_cards = _measured_cards(workload)
    own = next((measured for measured in measured_cards if measured.card.name == card.name), None)
    if own is not None:
        return _measured_speed(own, workload)
    published = _speed_of_slices(card, workload) or _compared_speed(card, workload, measured_cards)
    if published is not None:
        return published
    if card.vendor == "AMD" and workload == "decoding":
        return Unstated(
            text(
                "no AMD card was measured, and the formula for decoding does not hold for AMD: its fp32 share is latency"
            )
        )
    computed = computed_log_speed(card, load_throughput().workloads[workload])
    if isinstance(computed, Unstated):
        return computed
    speed = _computed_speed(card, computed, workload, measured_cards)
    return _between_measured(card, _below_better_siblings(card, computed, speed, workload), measured_cards)


def _speed_of_slices(card: Card, workload: Workload) -> Speed | None:
    """Return the speed of one chip by published runs of whole slices; None where there is none.

    The best slice gives the speed, the worst the lower end of the range.
    """
    for table in load_throughput().slices:
        runs = table.runs.get(card.name)
        if runs is None or table.workload != workload:
            continue
        cards, hours = table.reference
        speeds = [cards * hours / (chips * its_hours) for chips, its_hours in runs]
        why = text(
            "{task}, in slices of {chips} chips against {cards} V100; other software than the other measurements",
            task=table.task,
            chips=listing([str(chips) for chips, _ in runs], "{items} and {last}"),
            cards=cards,
        )
        low, high = min(speeds) * (1 - _MACHINE_SPREAD), max(speeds) * (1 + _MACHINE_SPREAD)
        return Speed(card.name, max(speeds), low, high, "measured", table.source, why)
    return None


def _compared_speed(card: Card, workload: Workload, measured_cards: tuple[_MeasuredCard, ...]) -> Speed | None:
    """Return the speed of a card that was published beside a measured card; None where there is none."""
    for table in load_throughput().compared:
        base = next((each for each in measured_cards if each.card.name == table.card), None)
        if card.name not in table.speeds or table.workload != workload or base is None:
            continue
        least, most = table.speeds[card.name]
        measured = math.exp(base.measured)
        why = text(
            "computed from the measured {card}, beside which it was published ({task}); other software than the other "
            "measurements",
            card=table.card,
            task=table.task,
        )
        low, high = measured * least * (1 - _MACHINE_SPREAD), measured * most * (1 + _MACHINE_SPREAD)
        return Speed(card.name, measured * math.sqrt(least * most), low, high, "computed", table.source, why)
    return None


def ranked_speeds(workload: Workload, cards: tuple[Card, ...] | None = None) -> tuple[Speed, ...]:
    """Return the speeds, fastest first, without the cards whose speed is unknown."""
    speeds = [speed_of(card, workload) for card in (load_cards() if cards is None else cards)]
    return tuple(sorted((speed for speed in speeds if isinstance(speed, Speed)), key=lambda speed: -speed.relative))


def price_of(card: Card) -> Figure | Unstated:
    """Return the list price, or what Lambda asked."""
    asked = load_throughput().prices.get(card.name)
    if isinstance(card.launch_usd, Figure) or asked is None:
        return card.launch_usd
    price, source = asked
    return Figure(price, source, load_throughput().sources[source].read)


def computed_log_speed(card: Card, shares: Shares) -> float | Unstated:
    """Return the logarithm of the speed relative to the reference, by the formula."""
    reference = _by_name()[REFERENCE]
    if card.vendor == "Google":
        return Unstated(text("no TPU was measured with these cards, and the formula was fitted to NVIDIA cards"))
    time = 0.0
    for share, rate in (
        (shares.tensor, _tensor),
        (shares.fp32, _fp32),
        (1 - shares.tensor - shares.fp32, _bandwidth),
    ):
        own, base = rate(card), rate(reference)
        if isinstance(own, Unstated):
            return own
        if isinstance(base, Unstated):
            return Unstated(text("the reference {card} has no speed: {reason}", card=REFERENCE, reason=base.reason))
        time += share * base / own
    return -math.log(time)


def family(card: Card) -> tuple[str, str]:
    """Return what cards of one family share. B200 and RTX 5090 are both Blackwell, but different chips."""
    return card.architecture, card.capability.partition(".")[0]


def measured_log_speed(measured: MeasuredSet, card: str, tasks: tuple[str, ...]) -> float | None:
    """Return the mean logarithm of a card's throughput in these tasks; None where one of them is missing."""
    row = measured.rows.get(card)
    if row is None or not set(tasks) <= set(measured.columns):
        return None
    return sum(math.log(row[measured.columns.index(task)]) for task in tasks) / len(tasks)


def nearest_measured(card: Card, computed: float, others: Sequence[tuple[Card, float]]) -> int | None:
    """Return the index of the measured card whose speed is transferred to this one; None where none is of its family.

    A card of the same compute capability is preferred; then the distance in speed and in the ratio of arithmetic to
    bandwidth counts. By speed alone an RTX 3090 Ti would be computed from an RTX A5500, which has twice the tensor rate per
    byte.
    """
    siblings = [index for index, (other, _) in enumerate(others) if family(other) == family(card)]

    def distance(index: int) -> tuple[bool, float]:
        other, speed = others[index]
        return card.capability != other.capability, math.hypot(computed - speed, _imbalance(card, other))

    return min(siblings, key=distance, default=None)


def _tensor(card: Card) -> float | Unstated:
    """Return the tensor rate; cards without tensor cores multiply on their fp32 units."""
    if card.lacks("fp16_tflops"):
        return _fp32(card)
    if isinstance(card.fp16_tflops, Unstated):
        return Unstated(text("its fp16 rate is unknown: {reason}", reason=card.fp16_tflops.reason))
    return card.fp16_tflops.value * _achieved(card)


def _fp32(card: Card) -> float | Unstated:
    if isinstance(card.fp32_tflops, Unstated):
        return Unstated(text("its fp32 rate is unknown: {reason}", reason=card.fp32_tflops.reason))
    return card.fp32_tflops.value * _achieved(card)


def _achieved(card: Card) -> float:
    """Return the share of its rates that matrix products reach, relative to NVIDIA cards."""
    return load_throughput().achieved.get(card.vendor, (1.0, ""))[0]


def _bandwidth(card: Card) -> float | Unstated:
    if isinstance(card.bandwidth_gb_s, Unstated):
        return Unstated(text("its bandwidth is unknown: {reason}", reason=card.bandwidth_gb_s.reason))
    return card.bandwidth_gb_s.value


@lru_cache(maxsize=1)
def _by_name() -> dict[str, Card]:
    return {card.name: card for card in load_cards()}


@lru_cache(maxsize=8)
def _measured_cards(workload: Workload) -> tuple[_MeasuredCard, ...]:
    """Return every measured card once, from the newest set that has it; speeds are relative to the reference."""
    table = load_throughput()
    shares = table.workloads[workload]
    cards: dict[str, _MeasuredCard] = {}
    for measured in table.sets:
        rows = [
            (card, value, computed)
            for name in measured.rows
            if (value := measured_log_speed(measured, name, shares.tasks)) is not None
            and (card := _by_name().get(name)) is not None
            and isinstance(computed := computed_log_speed(card, shares), float)
        ]
        if not rows:
            continue
        # Where the set does not include the reference, its speed comes from the formula: the mean over all rows.
        zero = sum(value - computed for _, value, computed in rows) / len(rows)
        if measured.reference is not None:
            zero = measured_log_speed(measured, measured.reference, shares.tasks) or zero
        for card, value, computed in rows:
            cards.setdefault(card.name, _MeasuredCard(card, computed, value - zero, measured))
    return tuple(cards.values())


def _measured_speed(own: _MeasuredCard, workload: Workload) -> Speed:
    relative = math.exp(own.measured)
    reason = (
        template("{set}: {tasks} ({software})")
        if own.set.reference
        else template(
            "{set}: {tasks} ({software}); no V100 was measured with it, so its speed relative to a V100 is computed"
        )
    )
    why = reason.fill(
        set=own.set.name,
        tasks=listing(load_throughput().workloads[workload].tasks, "{items}, {last}"),
        software=own.set.software,
    )
    return Speed(
        own.card.name,
        relative,
        relative * (1 - _MACHINE_SPREAD),
        relative * (1 + _MACHINE_SPREAD),
        "measured",
        own.set.source,
        why,
    )


def _computed_speed(
    card: Card, computed: float, workload: Workload, measured_cards: tuple[_MeasuredCard, ...]
) -> Speed:
    shares = load_throughput().workloads[workload]
    index = nearest_measured(card, computed, [(measured.card, measured.computed) for measured in measured_cards])
    if index is None:
        used = measured_cards
        # `far` is the error for an unmeasured family of a measured maker; of another maker even that was not tested.
        tested = card.vendor in {measured.card.vendor for measured in measured_cards}
        spread = shares.far if tested else max(each.far for each in load_throughput().workloads.values())
        why = text(
            "computed from its rates: no {architecture} card like it was measured", architecture=card.architecture
        )
    else:
        nearest = measured_cards[index]
        used = (nearest,)
        if abs(_imbalance(card, nearest.card)) > math.log(2):
            spread = shares.far
            why = text(
                "computed from the measured {card}, although its balance of arithmetic and bandwidth differs",
                card=nearest.card.name,
            )
        else:
            spread = _spread(nearest, measured_cards, shares)
            why = text("computed from the measured {card}", card=nearest.card.name)
    caveat = _caveat(card, has_siblings=index is not None)
    relative = math.exp(computed + sum(measured.measured - measured.computed for measured in used) / len(used))
    return Speed(
        card.name,
        relative,
        relative * math.exp(-spread),
        relative * math.exp(spread),
        "computed",
        used[0].set.source,
        facts(why, caveat, separator="; ") if caveat else why,
    )


def _below_better_siblings(card: Card, computed: float, speed: Speed, workload: Workload) -> Speed:
    """Lower a speed that exceeds the one of a card with the same architecture and more of everything.

    Two such cards may be computed from different measured ones: L40 and L40S, from an RTX 4090 and an RTX 6000 Ada.
    """
    measured_cards, shares = _measured_cards(workload), load_throughput().workloads[workload]
    measured = {each.card.name: each for each in measured_cards}
    if any(_is_twin(card, each.card) for each in measured_cards):
        return speed  # an H800 is as fast as the H100, even if a GH200 was measured to be slower
    for other in load_cards():
        if other.capability != card.capability or not exceeds(other, card, 1.0):
            continue
        its_computed = computed_log_speed(other, shares)
        if isinstance(its_computed, Unstated):
            continue
        if other.name in measured:
            better = _measured_speed(measured[other.name], workload)
            why: str = text("computed from the measured {card}, which has more of everything", card=other.name)
        else:
            better = _computed_speed(other, its_computed, workload, measured_cards)
            why = better.why
        if better.relative < speed.relative:
            factor = better.relative * math.exp(min(0.0, computed - its_computed)) / speed.relative
            speed = _scaled(speed, factor, why=why)
    return speed


def _between_measured(card: Card, speed: Speed, measured_cards: tuple[_MeasuredCard, ...]) -> Speed:
    """Narrow a range by measured cards that have less, and by those that have more, of every rate."""
    low, high = speed.low, speed.high
    for each in measured_cards:
        measured = math.exp(each.measured)
        if exceeds(card, each.card):
            low = max(low, measured)
        elif exceeds(each.card, card):
            high = min(high, measured)
    if low >= high:  # two measurements that contradict each other
        return speed
    # A speed outside of the range that is now known lies at its end, with a little room for both ends.
    relative = min(max(speed.relative, low * (high / low) ** 0.1), high / (high / low) ** 0.1)
    return Speed(speed.card, relative, low, high, speed.kind, speed.source, speed.why)


def _scaled(speed: Speed, factor: float, *, why: str) -> Speed:
    relative, low, high = (value * factor for value in (speed.relative, speed.low, speed.high))
    return Speed(speed.card, relative, low, high, speed.kind, speed.source, why)


def exceeds(card: Card, other: Card, margin: float = _MORE) -> bool:
    """Return whether an NVIDIA card has more of every rate than another: then it is at least as fast.

    With a margin of 5 % this holds for all pairs of measured cards, at each kind of work (tests/catalog/test_card_speeds.py).
    """
    if not card.vendor == other.vendor == "NVIDIA" or card.name == other.name:
        return False
    for rate in (_tensor, _fp32, _bandwidth):
        here, there = rate(card), rate(other)
        if isinstance(here, Unstated) or isinstance(there, Unstated) or here < there * margin:
            return False
    return True


def _is_twin(card: Card, other: Card) -> bool:
    """Return whether two cards have the same rates, within 2 %."""
    return exceeds(card, other, _TWIN) and exceeds(other, card, _TWIN)


def _spread(nearest: _MeasuredCard, measured_cards: tuple[_MeasuredCard, ...], shares: Shares) -> float:
    """The error that four of five cards stay within; where only two of a family were measured, at least their difference."""
    errors = [
        measured.measured - measured.computed
        for measured in measured_cards
        if family(measured.card) == family(nearest.card)
    ]
    return max(shares.near, max(errors) - min(errors)) if len(errors) == _PAIR else shares.near


def _imbalance(card: Card, other: Card) -> float:
    """The logarithm of the factor by which a card has more arithmetic per byte than another. Both have the rates."""
    rates = [(_tensor(each), _bandwidth(each)) for each in (card, other)]
    (here, moved), (there, also) = [(a, b) for a, b in rates if isinstance(a, float) and isinstance(b, float)]
    return math.log((here / moved) / (there / also))


def _caveat(card: Card, *, has_siblings: bool) -> str:
    """Return what is known about errors of the formula for such cards."""
    if card.vendor == "AMD":
        return text("AMD cards reach two thirds of the share of their rates that NVIDIA cards reach, which is included")
    if card.architecture == "Ada":
        return text("Ada cards have large caches, so the formula may be a quarter too low or too high")
    if card.architecture == "Blackwell" and not has_siblings:
        return text("new chips may be slower: the B200 reached half to three quarters of what the formula predicts")
    return ""
