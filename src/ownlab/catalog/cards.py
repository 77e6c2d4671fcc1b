"""Cards: what each has and what no kernel on it can exceed; every figure with its source and date, or the reason why none.

`data/cards.toml` is the table. A figure is of one device as programs see it: a K80 or MI250X board shows as two devices,
and has twice of everything. Rates are dense, and tensor rates add up in fp32, which is what frameworks do.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ownlab.catalog.card_files import NO_UNITS, CardFile, CardRow, Source, newest_files
from ownlab.errors import UsageError
from ownlab.units import GIB, format_bytes, parse_bytes

__all__ = [
    "FIGURES",
    "Card",
    "Figure",
    "FigureName",
    "Source",
    "Unstated",
    "choose_cards",
    "find_card",
    "load_cards",
    "load_sources",
    "words_of",
]

FigureName: TypeAlias = Literal[
    "memory_gb",
    "memory_gib",
    "bandwidth_gb_s",
    "fp64_tflops",
    "fp32_tflops",
    "tf32_tflops",
    "fp16_tflops",
    "bf16_tflops",
    "fp8_tflops",
    "int8_tops",
    "power_w",
    "launch_usd",
]
FIGURES: tuple[FigureName, ...] = get_args(FigureName)
# A card whose driver reports less or more memory than this share of its size is another card of the same name.
_SAME_SIZE = (0.85, 1.1)


class Figure(Struct, frozen=True, tag="figure"):
    """A number, where it was read, and when."""

    value: float
    source: str  # a key of load_sources(), or words
    as_of: str


class Unstated(Struct, frozen=True, tag="unstated"):
    """No number: why."""

    reason: str


class Card(Struct, frozen=True):
    """One card."""

    name: str
    vendor: str = ""
    architecture: str = ""
    capability: str = ""  # "9.0"; "" where there is none
    year: int | None = None
    devices: int = 1  # that one board shows as
    memory_gb: Figure | Unstated = Unstated("not said")  # nominal
    memory_gib: Figure | Unstated = Unstated("not said")  # that programs can have, as torch reports it
    bandwidth_gb_s: Figure | Unstated = Unstated("not said")
    fp64_tflops: Figure | Unstated = Unstated("not said")
    fp32_tflops: Figure | Unstated = Unstated("not said")  # fp64 and fp32: not by tensor cores
    tf32_tflops: Figure | Unstated = Unstated("not said")  # from here on: tensor cores, dense, sums in fp32
    fp16_tflops: Figure | Unstated = Unstated("not said")
    bf16_tflops: Figure | Unstated = Unstated("not said")
    fp8_tflops: Figure | Unstated = Unstated("not said")
    int8_tops: Figure | Unstated = Unstated("not said")
    power_w: Figure | Unstated = Unstated("not said")
    launch_usd: Figure | Unstated = Unstated("not said")
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def figure(self, name: FigureName) -> Figure | Unstated:
        """One of its figures."""
        found: Figure | Unstated = getattr(self, name)
        return found

    def value(self, figure: FigureName) -> float | None:
        """The number alone; None where there is none."""
        found = self.figure(figure)
        return found.value if isinstance(found, Figure) else None

    def known(self) -> tuple[FigureName, ...]:
        """The figures that have a value."""
        return tuple(name for name in FIGURES if isinstance(self.figure(name), Figure))

    def lacks(self, figure: FigureName) -> bool:
        """Whether it is known that the card has no units for this; not the same as a rate that nobody states."""
        found = self.figure(figure)
        return isinstance(found, Unstated) and found.reason == NO_UNITS


@lru_cache(maxsize=1)
def load_cards() -> tuple[Card, ...]:
    """All of them: the package's, and what `ownlab gpus update` brought; of two by one name, the newer."""
    cards: dict[str, Card] = {}
    for file in newest_files():
        cards |= {row.name: _card(row, file) for row in file.cards}
    return tuple(cards.values())


@lru_cache(maxsize=1)
def load_sources() -> dict[str, Source]:
    """What was read, by the key that figures name."""
    found: dict[str, Source] = {}
    for file in newest_files():
        found |= file.sources
    return found


def _card(row: CardRow, file: CardFile) -> Card:
    figures = {name: _figure(getattr(row, name), file) for name in FIGURES}
    plain = {name: getattr(row, name) for name in CardRow.__struct_fields__ if name not in FIGURES}
    return msgspec.structs.replace(Card(row.name), **plain, **figures)


def _figure(written: tuple[float, str] | str, file: CardFile) -> Figure | Unstated:
    if isinstance(written, str):
        return Unstated(written)
    value, source = written
    return Figure(value, source, file.sources[source].read)


def choose_cards(asked: str, *, sizes: bool = True) -> tuple[Card, ...]:
    """ "h200,4090,24GiB" -> the cards that are meant; "a100" are all of its kind. `sizes`: whether 24GiB will do."""
    words = [word.strip() for word in asked.split(",") if word.strip()]
    if not words:
        raise UsageError("no card is named", hint=f"Write names: h200,4090{',24GiB' if sizes else ''}")
    found = [card for word in words for card in (_of_size(word) or _all_named(word))]
    if not sizes and any(not card.vendor for card in found):
        size = next(word for word in words if _of_size(word))
        raise UsageError(
            f"{size} is a size, not a card",
            hint=f"Which cards hold that much: ownlab gpus advise --model-memory {size}",
        )
    return tuple({card.name: card for card in found}.values())


def find_card(driver_name: str, memory_bytes: int | None = None) -> Card | None:
    """The card that a driver calls so; None where none is meant for sure: a laptop's, a part of one, an unknown one."""
    wanted = set(words_of(driver_name))
    found = [card for card in load_cards() if any(set(words_of(name)) == wanted for name in (card.name, *card.aliases))]
    if memory_bytes is not None:
        found = [card for card in found if _is_of_size(card, memory_bytes)]
    return found[0] if len(found) == 1 else None


def _is_of_size(card: Card, memory_bytes: int) -> bool:
    nominal = card.value("memory_gb")
    low, high = _SAME_SIZE
    return nominal is None or low <= memory_bytes / (nominal * GIB) <= high


def _all_named(word: str) -> list[Card]:
    """Cards that are called so, also without RTX or GTX; else all that have these words in the name."""
    wanted, cards = words_of(word), load_cards()
    exact = [card for card in cards if any(_model(name) == _model(word) for name in (card.name, *card.aliases))]
    some = [card for card in cards if wanted and set(wanted) <= set(words_of(card.name))]
    if (exact or some) and not re.fullmatch(r"\d{1,3}", word):  # 80 may be a size, and its unit was forgotten
        return exact or some
    names = {card.name.lower(): card.name for card in cards}
    close = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(names[each] for each in close)}? " if close else ""
    raise UsageError(f"no card is known by the name {word!r}", hint=f"{hint}All names: ownlab gpus")


def words_of(name: str) -> list[str]:
    """ "RTX-4090" -> rtx, 4090; "A100 80GB" -> a100, 80."""
    plain = re.sub(r"\b(nvidia|geforce|tesla|amd|instinct)\b", " ", name.lower().replace("_", " "))
    plain = re.sub(r"(\d) ?gb\b", r"\1", plain)
    plain = re.sub(r"\b(rtx|gtx)(\d)", r"\1 \2", plain)
    plain = re.sub(r"(\d{4})(ti|super)\b", r"\1 \2", plain)
    return re.findall(r"[a-z0-9]+", plain)


def _model(name: str) -> list[str]:
    return [word for word in words_of(name) if word not in ("rtx", "gtx")]


def _of_size(word: str) -> list[Card]:
    if not re.fullmatch(r"[\d.]+\s*([gm]i?b?|ti?b)", word, re.IGNORECASE):  # "1080 Ti" is a card
        return []
    try:
        size = parse_bytes(word)
    except ValueError as exc:
        raise UsageError(f"{word!r} is no size of a card: {exc}") from exc
    if size < GIB:
        raise UsageError(f"no card for such work has only {format_bytes(size)}")
    size_gib = Figure(size / GIB, "as it was asked for", "")
    return [Card(name=f"any with {format_bytes(size)}", memory_gib=size_gib)]
