"""The ladder: cards ranked by speed, by speed per price, or by speed per watt."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from ownlab.catalog.card_speeds import REFERENCE, Speed, Workload, load_throughput, price_of, speed_of
from ownlab.catalog.cards import Card, Figure, Source, Unstated, load_sources
from ownlab.catalog.published_work import scaling_of
from ownlab.text import text

__all__ = [
    "ORDERS",
    "WORKLOAD_NAMES",
    "WORKLOAD_TITLES",
    "CardList",
    "Ladder",
    "LeftOut",
    "Order",
    "Rung",
    "list_cards",
    "rank",
]

Order: TypeAlias = Literal["speed", "price", "watt"]
ORDERS: tuple[Order, ...] = ("speed", "price", "watt")
WORKLOAD_TITLES: dict[Workload, str] = {
    "vision": text("Training of convolutional networks"),
    "transformer": text("Training of transformers"),
    "recurrent": text("Training of recurrent networks"),
    "decoding": text("Decoding of language models, one request"),
}

WORKLOAD_NAMES: dict[Workload, str] = {
    "vision": text("vision"),
    "transformer": text("transformer"),
    "recurrent": text("recurrent"),
    "decoding": text("decoding"),
}


class CardList(Struct, frozen=True):
    """`ownlab gpus --json`."""

    cards: tuple[Card, ...]
    sources: dict[str, Source]  # those that the figures name


class Rung(Struct, frozen=True):
    """One card on the ladder."""

    card: str
    own: bool  # this machine has one
    speed: Speed
    score: float  # relative speed, relative speed per 1000 USD, or per 100 W
    memory_gb: Figure | Unstated
    price_usd: Figure | Unstated  # list price, or what Lambda asked
    power_w: Figure | Unstated
    least: float = 0.0  # the sort key: the score that the card reaches at least, which is what is known of it
    most: float = 0.0


class LeftOut(Struct, frozen=True):
    """A card that cannot be ranked, and why."""

    card: str
    reason: str


class Ladder(Struct, frozen=True):
    """`ownlab gpus ladder --json`."""

    workload: Workload
    by: Order
    reference: str  # the card whose relative speed is 1
    own: tuple[str, ...]  # cards of this machine, on the ladder or not
    own_unknown: tuple[str, ...]  # cards of this machine that are not in the catalog, by their driver names
    rungs: tuple[Rung, ...]  # the best first
    left_out: tuple[LeftOut, ...]
    sources: dict[str, Source]
    count: int = 1  # cards of one machine; price and power are those of all


def list_cards(cards: tuple[Card, ...]) -> CardList:
    """Return cards with the sources of their figures."""
    figures = [card.figure(name) for card in cards for name in card.known()]
    used = {figure.source for figure in figures if isinstance(figure, Figure)}
    return CardList(cards, {key: source for key, source in load_sources().items() if key in used})


def rank(
    cards: tuple[Card, ...],
    workload: Workload,
    by: Order,
    own: tuple[str, ...] = (),
    own_unknown: tuple[str, ...] = (),
    count: int = 1,
) -> Ladder:
    """Rank these cards. `own`: the names of this machine's cards, `own_unknown`: those that the catalog does not have.

    `count`: so many of each in one machine; only cards for which such a result was published.
    """
    results = [_rung(card, workload, by, card.name in own, count) for card in cards]
    rungs = [result for result in results if isinstance(result, Rung)]
    left_out = tuple(result for result in results if isinstance(result, LeftOut))
    best_first = tuple(
        sorted(rungs, key=lambda rung: (-round(rung.least, 6), rung.speed.kind != "measured", -rung.score))
    )
    return Ladder(workload, by, REFERENCE, own, own_unknown, best_first, left_out, load_throughput().sources, count)


def _rung(card: Card, workload: Workload, by: Order, own: bool, count: int) -> Rung | LeftOut:
    speed, price = speed_of(card, workload), price_of(card)
    if isinstance(speed, Unstated):
        return LeftOut(card.name, speed.reason)
    divisor = {"speed": Figure(1, "", ""), "price": price, "watt": card.power_w}[by]
    if isinstance(divisor, Unstated):
        return LeftOut(card.name, divisor.reason)
    scaling = scaling_of(card.name, count, workload)
    if scaling is None or not scaling.published:
        return LeftOut(card.name, text("no result for {count} of these cards was published", count=count))
    parts = 1 if by == "speed" else count  # of the price, and of the power
    scale = {"speed": 1, "price": 1000, "watt": 100}[by] / divisor.value * scaling.low / parts
    score, least, most = (value * scale for value in (speed.relative, speed.low, speed.high))
    return Rung(card.name, own, speed, score, card.memory_gb, price, card.power_w, least, most)
