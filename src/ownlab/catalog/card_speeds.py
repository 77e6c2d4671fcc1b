"""The ladder: how fast cards are beside each other, by kind of work; measured where somebody did, computed else.

Computed: the time of a step on the reference card (V100 SXM2) is split into three shares, which a card shortens as its
tensor rate, its fp32 rate and its bandwidth are greater. Shares were fitted to the measured rows (data/throughput.toml).
The formula carries a measured speed to a card from the nearest one of its make; where none of that was measured, from
all cards at once. tests/catalog/test_ladder.py leaves each card out in turn, and prints how far off it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ownlab.catalog.cards import Card, Figure, Source, Unstated, load_cards
from ownlab.catalog.data_files import read_data, tomllib

__all__ = [
    "REFERENCE",
    "WORKLOADS",
    "MeasuredSet",
    "Shares",
    "Speed",
    "Throughput",
    "Workload",
    "family",
    "formula",
    "ladder",
    "load_throughput",
    "measured_in",
    "nearest",
    "price_of",
    "speed_of",
]

Workload: TypeAlias = Literal["vision", "transformer", "recurrent", "decoding"]
WORKLOADS: tuple[Workload, ...] = get_args(Workload)
REFERENCE = "V100 SXM2 16GB"
# Lambda measured the H100 SXM5 on some forty machines: they differ by so much.
_MACHINES_DIFFER = 0.06
_TWO = 2
# Rows by which the formula misses, and why: said beside what is computed for such cards.
_ADA = "caches of Ada cards are large: the formula may be a fourth too low or too high for them"
_NEW = "new chips may be slower: the B200 reached half to three quarters of what the formula says"


class Speed(Struct, frozen=True):
    """How fast a card is beside the reference, and how sure that is."""

    card: str
    relative: float  # V100 SXM2 16GB = 1
    low: float
    high: float
    kind: Literal["measured", "computed"]
    source: str  # a key of load_throughput().sources
    why: str


class Shares(Struct, frozen=True, forbid_unknown_fields=True):
    """What the time on the reference card goes into; the rest is bandwidth."""

    tasks: tuple[str, ...]
    tensor: float
    fp32: float
    near: float
    far: float


class MeasuredSet(Struct, frozen=True, forbid_unknown_fields=True):
    """Figures that were measured with one method and software of one time."""

    name: str
    source: str
    software: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[float, ...]]
    reference: str | None = None


class Throughput(Struct, frozen=True, forbid_unknown_fields=True):
    """data/throughput.toml."""

    as_of: str
    sources: dict[str, Source]
    workloads: dict[Workload, Shares]
    achieved: dict[str, tuple[float, str]]
    sets: tuple[MeasuredSet, ...]  # the newest first
    prices: dict[str, tuple[float, str]]


class _Anchor(NamedTuple):
    """A measured card, as the formula and the measurement have it: logarithms."""

    card: Card
    computed: float
    measured: float
    set: MeasuredSet


@lru_cache(maxsize=1)
def load_throughput() -> Throughput:
    """What was measured. A file that does not fit is a bug of ours, and raises."""
    text = read_data("throughput.toml")
    return msgspec.convert(tomllib.loads(text), Throughput)


def speed_of(card: Card, workload: Workload) -> Speed | Unstated:
    """How fast it is at such work."""
    anchors = _anchors(workload)
    own = next((anchor for anchor in anchors if anchor.card.name == card.name), None)
    if own is not None:
        return _measured(own, workload)
    if card.vendor == "AMD" and workload == "decoding":
        return Unstated("no AMD card was measured: in decoding fp32 rates stand for latency, which AMD's do not tell")
    computed = formula(card, load_throughput().workloads[workload])
    if isinstance(computed, Unstated):
        return computed
    return _computed(card, computed, workload, anchors)


def ladder(workload: Workload, cards: tuple[Card, ...] | None = None) -> tuple[Speed, ...]:
    """Fastest first; cards of which nothing can be said are left out."""
    found = [speed_of(card, workload) for card in (load_cards() if cards is None else cards)]
    return tuple(sorted((each for each in found if isinstance(each, Speed)), key=lambda speed: -speed.relative))


def price_of(card: Card) -> Figure | Unstated:
    """Its list price, or what Lambda asked for one."""
    asked = load_throughput().prices.get(card.name)
    if isinstance(card.launch_usd, Figure) or asked is None:
        return card.launch_usd
    price, source = asked
    return Figure(price, source, load_throughput().sources[source].read)


def formula(card: Card, shares: Shares) -> float | Unstated:
    """The logarithm of its speed beside the reference."""
    reference = _by_name()[REFERENCE]
    if card.vendor == "Google":
        return Unstated("no TPU was measured beside these cards, and the formula was fitted to NVIDIA's")
    time = 0.0
    for share, rate in (
        (shares.tensor, _tensor),
        (shares.fp32, _fp32),
        (1 - shares.tensor - shares.fp32, _bandwidth),
    ):
        have, base = rate(card), rate(reference)
        if isinstance(have, Unstated):
            return have
        if isinstance(base, Unstated):
            return Unstated(f"nothing can be set beside the {REFERENCE}: {base.reason}")
        time += share * base / have
    return -math.log(time)


def family(card: Card) -> tuple[str, str]:
    """Cards of one make: B200 and RTX 5090 are both Blackwell, and different chips."""
    return card.architecture, card.capability.partition(".")[0]


def measured_in(measured: MeasuredSet, card: str, tasks: tuple[str, ...]) -> float | None:
    """The mean logarithm of what a card did in these tasks; None where it did not do all of them."""
    row = measured.rows.get(card)
    if row is None or not set(tasks) <= set(measured.columns):
        return None
    return sum(math.log(row[measured.columns.index(task)]) for task in tasks) / len(tasks)


def nearest(card: Card, computed: float, others: Sequence[tuple[Card, float]]) -> int | None:
    """The place of the measured card from which a speed is carried to this one; None where none is of its make.

    One of the same capability if there is one; then by speed, and by the balance of arithmetic and bandwidth: by speed alone
    an RTX 3090 Ti would be computed from an RTX A5500, which has twice the tensor rate for each byte.
    """
    siblings = [place for place, (other, _) in enumerate(others) if family(other) == family(card)]

    def distance(place: int) -> tuple[bool, float]:
        other, speed = others[place]
        return card.capability != other.capability, math.hypot(computed - speed, _imbalance(card, other))

    return min(siblings, key=distance, default=None)


def _tensor(card: Card) -> float | Unstated:
    """Cards without tensor cores multiply on their fp32 units."""
    if card.lacks("fp16_tflops"):
        return _fp32(card)
    if isinstance(card.fp16_tflops, Unstated):
        return Unstated(f"its fp16 rate is not known: {card.fp16_tflops.reason}")
    return card.fp16_tflops.value * _achieved(card)


def _fp32(card: Card) -> float | Unstated:
    if isinstance(card.fp32_tflops, Unstated):
        return Unstated(f"its fp32 rate is not known: {card.fp32_tflops.reason}")
    return card.fp32_tflops.value * _achieved(card)


def _achieved(card: Card) -> float:
    """What products reach of its rates, where that is less than NVIDIA's share."""
    return load_throughput().achieved.get(card.vendor, (1.0, ""))[0]


def _bandwidth(card: Card) -> float | Unstated:
    if isinstance(card.bandwidth_gb_s, Unstated):
        return Unstated(f"its bandwidth is not known: {card.bandwidth_gb_s.reason}")
    return card.bandwidth_gb_s.value


@lru_cache(maxsize=1)
def _by_name() -> dict[str, Card]:
    return {card.name: card for card in load_cards()}


@lru_cache(maxsize=8)
def _anchors(workload: Workload) -> tuple[_Anchor, ...]:
    """Every measured card once, by the newest set that has it; measured speeds beside the reference."""
    table = load_throughput()
    shares = table.workloads[workload]
    found: dict[str, _Anchor] = {}
    for measured in table.sets:
        rows = [
            (card, value, computed)
            for name in measured.rows
            if (value := measured_in(measured, name, shares.tasks)) is not None
            and (card := _by_name().get(name)) is not None
            and isinstance(computed := formula(card, shares), float)
        ]
        if not rows:
            continue
        # Without a reference in the set, it is the formula's: the mean over all rows.
        zero = sum(value - computed for _, value, computed in rows) / len(rows)
        if measured.reference is not None:
            zero = measured_in(measured, measured.reference, shares.tasks) or zero
        for card, value, computed in rows:
            found.setdefault(card.name, _Anchor(card, computed, value - zero, measured))
    return tuple(found.values())


def _measured(own: _Anchor, workload: Workload) -> Speed:
    relative = math.exp(own.measured)
    tasks = ", ".join(load_throughput().workloads[workload].tasks)
    against = "" if own.set.reference else "; no V100 was measured beside it: its speed there is the formula's"
    return Speed(
        own.card.name,
        relative,
        relative * (1 - _MACHINES_DIFFER),
        relative * (1 + _MACHINES_DIFFER),
        "measured",
        own.set.source,
        f"{own.set.name}: {tasks} ({own.set.software}){against}",
    )


def _computed(card: Card, computed: float, workload: Workload, anchors: tuple[_Anchor, ...]) -> Speed:
    shares = load_throughput().workloads[workload]
    place = nearest(card, computed, [(anchor.card, anchor.computed) for anchor in anchors])
    used = anchors if place is None else (anchors[place],)
    if place is None:
        spread, why = shares.far, f"no {card.architecture} card of its kind was measured: from the rates alone"
    else:
        spread, why = (
            _spread(anchors[place], anchors, shares),
            f"from the {anchors[place].card.name}, which was measured",
        )
        if abs(_imbalance(card, anchors[place].card)) > math.log(2):
            spread, why = shares.far, f"{why}, though its balance of arithmetic and bandwidth is another"
    known = _known_miss(card, place is not None)
    relative = math.exp(computed + sum(anchor.measured - anchor.computed for anchor in used) / len(used))
    return Speed(
        card.name,
        relative,
        relative * math.exp(-spread),
        relative * math.exp(spread),
        "computed",
        used[0].set.source,
        f"{why}; {known}" if known else why,
    )


def _spread(used: _Anchor, anchors: tuple[_Anchor, ...], shares: Shares) -> float:
    """As far as four of five lay off; where two of a make alone were measured, no less than these two contradict each other."""
    make = [anchor.measured - anchor.computed for anchor in anchors if family(anchor.card) == family(used.card)]
    return max(shares.near, max(make) - min(make)) if len(make) == _TWO else shares.near


def _imbalance(card: Card, other: Card) -> float:
    """By which factor (a logarithm) one has more arithmetic for each byte that it moves. Both have the rates."""
    rates = [(_tensor(each), _bandwidth(each)) for each in (card, other)]
    (here, moved), (there, also) = [(a, b) for a, b in rates if isinstance(a, float) and isinstance(b, float)]
    return math.log((here / moved) / (there / also))


def _known_miss(card: Card, has_siblings: bool) -> str:
    if card.vendor == "AMD":
        return "of AMD's rates products reach two thirds of the share that they reach of NVIDIA's, which is counted in"
    if card.architecture == "Ada":
        return _ADA
    return _NEW if card.architecture == "Blackwell" and not has_siblings else ""
