"""Cards as a prediction asks about them: the memory that programs can have, and rates; the figures are the catalogue's."""

from __future__ import annotations

from msgspec import Struct

from ownlab.catalog import cards as catalog
from ownlab.catalog.cards import Figure, FigureName, Unstated
from ownlab.instruments.fit.records import Device
from ownlab.units import GIB

__all__ = ["DEFAULT_CARDS", "Card", "card_of_device", "choose_cards", "load_cards"]

# What people rent and own, from small to great.
DEFAULT_CARDS = "T4,RTX 4090,L40S,A100 80GB SXM4,H200"
# Of its nominal size a card has at least so much: a T4 91 %, an L40S 93 %, others more (cards.toml).
_SURE = 0.9
# Hidden memory and context were measured on this one.
_CALIBRATED = "H200 SXM"


class Card(Struct, frozen=True):
    """One card. One of which only the size was said has no rates."""

    name: str
    nominal_gb: float = 0
    memory_gib: float | None = None
    memory_source: str = ""
    bandwidth_gb_s: float | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    rates_source: str = ""
    as_of: str = ""

    @classmethod
    def of(cls, card: catalog.Card) -> Card:
        """The card as fit asks about it."""
        memory, rates = card.memory_gib, (card.fp16_tflops, card.bf16_tflops, card.fp32_tflops)
        known = [figure for figure in rates if isinstance(figure, Figure)]
        return cls(
            name=card.name,
            nominal_gb=card.value("memory_gb") or 0,
            memory_gib=card.value("memory_gib"),
            memory_source=_title(memory) if isinstance(memory, Figure) else "",
            bandwidth_gb_s=card.value("bandwidth_gb_s"),
            fp32_tflops=card.value("fp32_tflops"),
            tf32_tflops=_rate(card, "tf32_tflops"),
            fp16_tflops=_rate(card, "fp16_tflops"),
            bf16_tflops=_rate(card, "bf16_tflops"),
            rates_source=_title(known[0]) if known else "",
            as_of=max((figure.as_of for figure in (memory, *known) if isinstance(figure, Figure)), default=""),
        )

    @property
    def memory_bytes(self) -> int:
        """What programs can have; where no report of it was found, less than any card of that size has."""
        return round((self.nominal_gb * _SURE if self.memory_gib is None else self.memory_gib) * GIB)

    @property
    def source(self) -> str:
        """Where its figures come from."""
        memory = self.memory_source or f"{_SURE:.0%} of its nominal size"
        rates = f"; rates: {self.rates_source}" if self.rates_source else ""
        return f"memory: {memory}{rates}"

    @property
    def calibrated(self) -> bool:
        """Whether what tensors do not account for was measured on this card."""
        return self.name == _CALIBRATED


def load_cards() -> tuple[Card, ...]:
    """All whose memory is known."""
    return tuple(Card.of(card) for card in catalog.load_cards() if card.value("memory_gb") is not None)


def choose_cards(asked: str) -> tuple[Card, ...]:
    """ "h200,4090,24GiB" -> the cards that are meant; "a100" are all of its kind."""
    chosen = tuple(Card.of(card) for card in catalog.choose_cards(asked))
    return tuple(card for card in chosen if card.memory_bytes) or chosen


def _rate(card: catalog.Card, name: FigureName) -> float | None:
    """Without units for a type the fp32 units do it; None: nobody states the rate."""
    figure = card.figure(name)
    if isinstance(figure, Unstated):
        return card.value("fp32_tflops") if card.lacks(name) else None
    # A tensor rate below that of the fp32 units (tf32 on GeForce) bounds nothing.
    return max(figure.value, card.value("fp32_tflops") or 0)


def _title(figure: Figure) -> str:
    known = catalog.load_sources().get(figure.source)
    return figure.source if known is None else known.title


def card_of_device(device: Device) -> Card | None:
    """The device in our catalogue; None where it is not there for sure."""
    found = None if device.kind == "cpu" else catalog.find_card(device.name, device.memory_bytes)
    return None if found is None else Card.of(found)
