"""Cards as predictions need them: the memory that programs can use, and rates. The figures are those of the catalog."""

from __future__ import annotations

from msgspec import Struct

from ownlab.catalog import cards as catalog
from ownlab.catalog.cards import Figure, FigureName, Unstated
from ownlab.catalog.usable_memory import usable_memory
from ownlab.instruments.fit.records import Device
from ownlab.text import text
from ownlab.units import GIB

__all__ = ["DEFAULT_CARDS", "CardSpecs", "card_of_device", "choose_cards", "load_cards", "usable_of_size"]

# Cards that people rent and own, from small to large.
DEFAULT_CARDS = "T4,RTX 4090,L40S,A100 80GB SXM4,H200"
_TYPES: tuple[FigureName, ...] = ("tf32_tflops", "fp16_tflops", "bf16_tflops", "fp8_tflops")
# Workspaces and context were measured on this card.
_CALIBRATED = "H200 SXM"


class CardSpecs(Struct, frozen=True):
    """One card. A card that was named by its size alone has no rates."""

    name: str
    nominal_gb: float = 0
    memory_gib: float | None = None
    memory_source: str = ""
    inferred_low_bytes: int = 0  # where no report was found: inferred from cards like it
    inferred_high_bytes: int = 0
    inferred_why: str = ""
    bandwidth_gb_s: float | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    fp16_tflops: float | None = None
    bf16_tflops: float | None = None
    lacking: tuple[FigureName, ...] = ()  # the types for which it has no units
    rates_source: str = ""
    as_of: str = ""

    @classmethod
    def of(cls, card: catalog.Card) -> CardSpecs:
        """Convert a card of the catalog."""
        memory, rates = card.memory_gib, (card.fp16_tflops, card.bf16_tflops, card.fp32_tflops)
        known = [figure for figure in rates if isinstance(figure, Figure)]
        usable = usable_memory(card)
        inferred = usable if usable is not None and usable.inferred else None
        return cls(
            name=card.name,
            nominal_gb=card.value("memory_gb") or 0,
            memory_gib=card.value("memory_gib"),
            memory_source=_title(memory) if isinstance(memory, Figure) else "",
            inferred_low_bytes=0 if inferred is None else inferred.low_bytes,
            inferred_high_bytes=0 if inferred is None else inferred.high_bytes,
            inferred_why="" if inferred is None else inferred.why,
            bandwidth_gb_s=card.value("bandwidth_gb_s"),
            fp32_tflops=card.value("fp32_tflops"),
            tf32_tflops=_rate(card, "tf32_tflops"),
            fp16_tflops=_rate(card, "fp16_tflops"),
            bf16_tflops=_rate(card, "bf16_tflops"),
            lacking=tuple(name for name in _TYPES if card.lacks(name)),
            rates_source=_title(known[0]) if known else "",
            as_of=max((figure.as_of for figure in (memory, *known) if isinstance(figure, Figure)), default=""),
        )

    @property
    def memory_bytes(self) -> int:
        """The memory that programs can use for certain; without a report of it, the least of cards like it."""
        return self.inferred_low_bytes if self.memory_gib is None else round(self.memory_gib * GIB)

    @property
    def memory_high_bytes(self) -> int:
        """The most that programs may be able to use; more than `memory_bytes` only where it was inferred."""
        return self.inferred_high_bytes if self.memory_gib is None else self.memory_bytes

    @property
    def source(self) -> str:
        """The sources of the figures."""
        memory = self.memory_source or self.inferred_why
        if self.rates_source:
            return text("memory: {memory}; rates: {rates}", memory=memory, rates=self.rates_source)
        return text("memory: {memory}", memory=memory)

    @property
    def calibrated(self) -> bool:
        """Whether workspaces and context were measured on this card."""
        return self.name == _CALIBRATED


def load_cards() -> tuple[CardSpecs, ...]:
    """Return all cards whose memory is known."""
    return tuple(CardSpecs.of(card) for card in catalog.load_cards() if card.value("memory_gb") is not None)


def choose_cards(written: str) -> tuple[CardSpecs, ...]:
    """Find the cards of a list such as "h200,4090,24GiB"; "a100" means all its variants."""
    chosen = tuple(CardSpecs.of(card) for card in catalog.choose_cards(written))
    return tuple(card for card in chosen if card.memory_bytes) or chosen


def usable_of_size(nominal_gb: float) -> tuple[float, float] | None:
    """Return the least and the most GiB that programs can use of cards that are sold with this many GB; None: none is known."""
    known = [card.memory_gib for card in load_cards() if card.nominal_gb == nominal_gb and card.memory_gib is not None]
    return (min(known), max(known)) if known else None


def _rate(card: catalog.Card, name: FigureName) -> float | None:
    """Return a rate. Types without tensor units run on the fp32 units; None: no source states the rate."""
    figure = card.figure(name)
    if isinstance(figure, Unstated):
        return card.value("fp32_tflops") if card.lacks(name) else None
    # A tensor rate below that of the fp32 units (tf32 on GeForce) is not a limit.
    return max(figure.value, card.value("fp32_tflops") or 0)


def _title(figure: Figure) -> str:
    known = catalog.load_sources().get(figure.source)
    return figure.source if known is None else known.title


def card_of_device(device: Device) -> CardSpecs | None:
    """Return the card of the catalog for a device; None if there is no certain match."""
    card = None if device.kind == "cpu" else catalog.find_card(device.name, device.memory_bytes)
    return None if card is None else CardSpecs.of(card)
