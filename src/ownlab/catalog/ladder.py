"""Cards in the order of speed, of speed for the money, or of speed for the power."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from ownlab.catalog.card_speeds import REFERENCE, Speed, Workload, load_throughput, price_of, speed_of
from ownlab.catalog.cards import Card, Figure, Source, Unstated, load_sources

__all__ = ["ORDERS", "WORK", "CardList", "Ladder", "LeftOut", "Order", "Rung", "list_cards", "rank"]

Order: TypeAlias = Literal["speed", "price", "watt"]
ORDERS: tuple[Order, ...] = ("speed", "price", "watt")


class CardList(Struct, frozen=True):
    """`ownlab gpus --json`."""

    cards: tuple[Card, ...]
    sources: dict[str, Source]  # those that its figures name


class Rung(Struct, frozen=True):
    """One card on the ladder."""

    card: str
    own: bool  # this machine has one
    speed: Speed
    score: float  # what the order is by: relative speed; of it per 1000 USD; per 100 W
    memory_gb: Figure | Unstated
    price_usd: Figure | Unstated  # list price, or what Lambda asked
    power_w: Figure | Unstated


class LeftOut(Struct, frozen=True):
    """A card of which it cannot be said."""

    card: str
    reason: str


class Ladder(Struct, frozen=True):
    """`ownlab gpus ladder --json`."""

    workload: Workload
    by: Order
    reference: str  # whose relative speed is 1
    own: tuple[str, ...]  # cards of this machine, on the ladder or not
    own_unknown: tuple[str, ...]  # and those that are not in the catalogue, as their driver calls them
    rungs: tuple[Rung, ...]  # the best first
    left_out: tuple[LeftOut, ...]
    sources: dict[str, Source]


def list_cards(cards: tuple[Card, ...]) -> CardList:
    """Cards, and what their figures were read from."""
    figures = [card.figure(name) for card in cards for name in card.known()]
    used = {figure.source for figure in figures if isinstance(figure, Figure)}
    return CardList(cards, {key: source for key, source in load_sources().items() if key in used})


def rank(
    cards: tuple[Card, ...], workload: Workload, by: Order, own: tuple[str, ...] = (), own_unknown: tuple[str, ...] = ()
) -> Ladder:
    """The ladder of these cards; `own`: names of those that are here, `own_unknown`: what else is here."""
    all_of_them = [_rung(card, workload, by, card.name in own) for card in cards]
    rungs = [rung for rung in all_of_them if isinstance(rung, Rung)]
    left_out = tuple(each for each in all_of_them if isinstance(each, LeftOut))
    best_first = tuple(sorted(rungs, key=lambda rung: -rung.score))
    return Ladder(workload, by, REFERENCE, own, own_unknown, best_first, left_out, load_throughput().sources)


def _rung(card: Card, workload: Workload, by: Order, own: bool) -> Rung | LeftOut:
    speed, price = speed_of(card, workload), price_of(card)
    if isinstance(speed, Unstated):
        return LeftOut(card.name, speed.reason)
    divisor = {"speed": Figure(1, "", ""), "price": price, "watt": card.power_w}[by]
    if isinstance(divisor, Unstated):
        return LeftOut(card.name, divisor.reason)
    score = speed.relative / divisor.value * {"speed": 1, "price": 1000, "watt": 100}[by]
    return Rung(card.name, own, speed, score, card.memory_gb, price, card.power_w)


WORK: dict[Workload, str] = {
    "vision": "Training of convolutional networks",
    "transformer": "Training of transformers",
    "recurrent": "Training of recurrent networks",
    "decoding": "Decoding of language models, one request",
}
