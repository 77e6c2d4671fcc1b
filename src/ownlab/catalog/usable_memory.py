"""The memory of a card that programs can use: as somebody's torch reported it, or inferred from cards like it.

Drivers keep a part for themselves, and cards with GDDR memory that check their bits (ECC) keep a sixteenth more, so the
nominal size is not what programs get. Where nobody reported it, it is inferred from reported cards of the same line
(GeForce, workstation, data centre) and size, else from their share of the nominal size. Both give a range.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from ownlab.catalog.cards import Card, load_cards
from ownlab.text import listing, text
from ownlab.units import GIB

__all__ = ["UsableMemory", "usable_memory"]

_Line: TypeAlias = Literal["consumer", "workstation", "datacentre"]
_MAX_NAMED = 3  # cards that the reason names


class UsableMemory(Struct, frozen=True):
    """A range: its ends are equal where the memory was reported or was given."""

    low_bytes: int
    high_bytes: int
    inferred: bool
    why: str  # from which cards it was inferred; "": it was reported

    def holds(self, needed_bytes: int) -> bool | None:
        """Return whether this many bytes fit; None: not sure."""
        if needed_bytes <= self.low_bytes:
            return True
        return False if needed_bytes > self.high_bytes else None


def usable_memory(card: Card) -> UsableMemory | None:
    """Return the usable memory of a card; None where even its nominal size is unknown."""
    reported, nominal = card.value("memory_gib"), card.value("memory_gb")
    if reported is not None:
        size = round(reported * GIB)
        return UsableMemory(size, size, inferred=False, why="")
    return None if nominal is None else _inferred(card.vendor, _line(card.name), nominal)


@lru_cache(maxsize=128)
def _inferred(vendor: str, line: _Line, nominal: float) -> UsableMemory:
    """Infer it from cards of the same maker, line and size; else from the shares of the line, else of all cards."""
    known = [card for card in load_cards() if card.value("memory_gib") and card.value("memory_gb")]
    kin = [card for card in known if card.vendor == vendor and _line(card.name) == line]
    same = [card for card in kin if card.value("memory_gb") == nominal]
    if same:
        sizes = [round((card.value("memory_gib") or 0) * GIB) for card in same]
        why = text("inferred from {cards}, which have the same memory", cards=_names(same))
        return UsableMemory(min(sizes), max(sizes), inferred=True, why=why)
    shares = [(card.value("memory_gib") or 0) / (card.value("memory_gb") or 1) for card in kin or known]
    why = text(
        "inferred: of other cards, programs can use {low:.0%} to {high:.0%} of the nominal size",
        low=min(shares),
        high=max(shares),
    )
    low, high = (round(nominal * share * GIB) for share in (min(shares), max(shares)))
    return UsableMemory(low, high, inferred=True, why=why)


def _names(cards: list[Card]) -> str:
    names = [card.name for card in cards]
    if len(names) <= _MAX_NAMED:
        return listing(names, "{items} and {last}")
    return text("{names} and others", names=listing(names[:_MAX_NAMED], "{items}, {last}"))


def _line(name: str) -> _Line:
    """Return the line of a card: GeForce cards have no ECC, data-centre cards always, workstation cards as one likes."""
    if re.match(r"(Quadro|RTX A\d|RTX PRO|RTX \d000 Ada)", name):
        return "workstation"
    return "consumer" if re.match(r"(GTX|RTX|Titan)", name) else "datacentre"
