"""Cards: the specifications of each, every figure with its source and date, or the reason why there is none.

`data/cards.toml` is the table that ships with ownlab; `ownlab gpus update` can add a newer one (`card_update.py`). In it a
figure is `[value, "source"]`, where the source is a key of the table `sources`, or a string that says why there is none.

A figure describes one device as programs see it: a K80 or MI250X board shows as two devices and has twice of everything.
Rates are dense, and tensor rates accumulate in fp32, as frameworks do.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from ownlab.catalog.data_files import read_data
from ownlab.config.paths import state_folder
from ownlab.errors import InputError, RecordError, UsageError
from ownlab.input_files import parse_toml, read_text
from ownlab.text import in_english, listing, sentences, text, text_of_table
from ownlab.units import GIB, format_bytes, parse_bytes

__all__ = [
    "FIGURES",
    "NO_UNITS",
    "Card",
    "CardRow",
    "CardTable",
    "Figure",
    "FigureName",
    "Source",
    "Unstated",
    "choose_cards",
    "current_tables",
    "figures_in",
    "find_card",
    "load_cards",
    "load_sources",
    "name_words",
    "parse_table",
    "shipped_table",
    "updated_table_path",
]

# A reason that is a fact: the card has no such units. Other reasons say that no source was found.
NO_UNITS = "no units for it"

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
    "nvlink_gb_s",
    "power_w",
    "launch_usd",
]
FIGURES: tuple[FigureName, ...] = get_args(FigureName)
# A card whose driver reports a memory size outside this share of the nominal one is another card of the same name.
_SAME_SIZE = (0.85, 1.1)


class Figure(Struct, frozen=True, tag="figure"):
    """A number, where it was read, and when."""

    value: float
    source: str  # a key of load_sources(), or a description
    as_of: str


class Unstated(Struct, frozen=True, tag="unstated"):
    """The reason why there is no number."""

    reason: str


_UNKNOWN = Unstated("not known")


class Card(Struct, frozen=True):
    """One card."""

    name: str
    vendor: str = ""
    architecture: str = ""
    capability: str = ""  # compute capability, "9.0"; "" where there is none
    year: int | None = None
    devices: int = 1  # as which one board shows
    memory_gb: Figure | Unstated = _UNKNOWN  # nominal
    memory_gib: Figure | Unstated = _UNKNOWN  # usable by programs, as torch reports it
    bandwidth_gb_s: Figure | Unstated = _UNKNOWN
    fp64_tflops: Figure | Unstated = _UNKNOWN
    fp32_tflops: Figure | Unstated = _UNKNOWN  # fp64 and fp32: without tensor cores
    tf32_tflops: Figure | Unstated = _UNKNOWN  # from here on: tensor cores, dense, accumulated in fp32
    fp16_tflops: Figure | Unstated = _UNKNOWN
    bf16_tflops: Figure | Unstated = _UNKNOWN
    fp8_tflops: Figure | Unstated = _UNKNOWN
    int8_tops: Figure | Unstated = _UNKNOWN
    nvlink_gb_s: Figure | Unstated = _UNKNOWN  # all links, both directions together
    power_w: Figure | Unstated = _UNKNOWN
    launch_usd: Figure | Unstated = _UNKNOWN
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def figure(self, name: FigureName) -> Figure | Unstated:
        """Return one of its figures."""
        figure: Figure | Unstated = getattr(self, name)
        return figure

    def value(self, name: FigureName) -> float | None:
        """Return the number alone; None where there is none."""
        figure = self.figure(name)
        return figure.value if isinstance(figure, Figure) else None

    def known(self) -> tuple[FigureName, ...]:
        """Return the names of the figures that have a value."""
        return tuple(name for name in FIGURES if isinstance(self.figure(name), Figure))

    def lacks(self, name: FigureName) -> bool:
        """Return whether the card is known to have no units for this, which differs from an unknown rate."""
        figure = self.figure(name)
        return isinstance(figure, Unstated) and in_english(figure.reason) == NO_UNITS


# --- the table --------------------------------------------------------------------------------------------------------

RawFigure: TypeAlias = tuple[float, str] | str


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """A document from which figures were taken."""

    title: str
    address: str
    read: str  # the date, 2026-11-15


class CardRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One card, as the table has it."""

    name: str
    vendor: str
    architecture: str
    memory_gb: RawFigure
    memory_gib: RawFigure
    bandwidth_gb_s: RawFigure
    fp64_tflops: RawFigure
    fp32_tflops: RawFigure
    tf32_tflops: RawFigure
    fp16_tflops: RawFigure
    bf16_tflops: RawFigure
    fp8_tflops: RawFigure
    int8_tops: RawFigure
    power_w: RawFigure
    launch_usd: RawFigure
    nvlink_gb_s: RawFigure = "not in this table"  # tables of older versions have none
    capability: str = ""
    year: int | None = None
    devices: int = 1
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class CardTable(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole cards.toml."""

    as_of: str
    sources: dict[str, Source]
    cards: tuple[CardRow, ...]


def updated_table_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where `ownlab gpus update` saves a newer table."""
    return state_folder(environ, make=False) / "catalog" / "cards.toml"


def shipped_table() -> CardTable:
    """Return the table that ships with ownlab."""
    return parse_table(read_data("cards.toml"))


def current_tables() -> tuple[CardTable, ...]:
    """Return the tables in use, the newer one last."""
    shipped, path = shipped_table(), updated_table_path()
    hint = text("`ownlab gpus update --reset` restores the figures that came with ownlab.")
    if not path.is_file() and not path.is_symlink() and not path.exists():
        return (shipped,)
    try:
        updated = parse_table(read_text(path, hint=hint))
    except RecordError as exc:
        raise RecordError(text("Cannot use {path}. {cause}", path=path, cause=exc.message), hint=hint) from exc
    return tuple(sorted((shipped, updated), key=lambda table: table.as_of))


def parse_table(source: str) -> CardTable:
    """Parse a cards.toml and check that every source that a figure names exists."""
    try:
        table = msgspec.convert(parse_toml(source, text("The table")), CardTable)
    except msgspec.ValidationError as exc:
        raise RecordError(text("This is not a table of cards: {cause}.", cause=exc)) from exc
    except InputError as exc:
        raise RecordError(text("This is not a table of cards. {cause}", cause=exc.message)) from exc
    for card, figure, (_, key) in figures_in(table):
        if key not in table.sources:
            raise RecordError(
                text(
                    "{card}: {figure} names the source {key!r}, which is not in the table of sources.",
                    card=card,
                    figure=figure,
                    key=key,
                )
            )
    return table


def figures_in(table: CardTable) -> Iterator[tuple[str, FigureName, tuple[float, str]]]:
    """Yield card, name, and (value, source) of every figure that has a value."""
    for row in table.cards:
        for name in FIGURES:
            figure = getattr(row, name)
            if isinstance(figure, tuple):
                yield row.name, name, figure


@lru_cache(maxsize=1)
def load_cards() -> tuple[Card, ...]:
    """Return all cards: those that ship with ownlab, and those of `ownlab gpus update`; of two by one name, the newer."""
    cards: dict[str, Card] = {}
    for table in current_tables():
        cards |= {row.name: _card(row, table) for row in table.cards}
    return tuple(cards.values())


@lru_cache(maxsize=1)
def load_sources() -> dict[str, Source]:
    """Return the sources by the keys that figures name."""
    sources: dict[str, Source] = {}
    for table in current_tables():
        sources |= table.sources
    return sources


def _card(row: CardRow, table: CardTable) -> Card:
    figures = {name: _figure(getattr(row, name), table) for name in FIGURES}
    others = {name: getattr(row, name) for name in CardRow.__struct_fields__ if name not in FIGURES}
    others["notes"] = tuple(map(text_of_table, row.notes))
    return msgspec.structs.replace(Card(row.name), **others, **figures)


def _figure(raw: RawFigure, table: CardTable) -> Figure | Unstated:
    if isinstance(raw, str):
        return Unstated(text_of_table(raw))
    value, source = raw
    return Figure(value, source, table.sources[source].read)


# --- finding cards by name --------------------------------------------------------------------------------------------


def choose_cards(names: str, *, sizes: bool = True) -> tuple[Card, ...]:
    """ "h200,4090,24GiB" -> these cards; "a100" -> all of its kind. `sizes`: whether a memory size is accepted."""
    words = [word.strip() for word in names.split(",") if word.strip()]
    if not words:
        hint = text("Write names: h200,4090,24GiB") if sizes else text("Write names: h200,4090")
        raise UsageError(text("No card is named."), hint=hint)
    cards = [card for word in words for card in (_card_of_size(word) or _cards_named(word))]
    if not sizes and any(not card.vendor for card in cards):
        size = next(word for word in words if _card_of_size(word))
        raise UsageError(
            text("{size} is a memory size, not a card.", size=size),
            hint=text("To find the cards that are large enough: ownlab gpus advise --model-memory {size}", size=size),
        )
    return tuple({card.name: card for card in cards}.values())


def find_card(driver_name: str, memory_bytes: int | None = None) -> Card | None:
    """Return the card that a driver calls by this name; None for laptop cards, MIG slices, and unknown or ambiguous names."""
    wanted = set(name_words(driver_name))
    cards = [
        card for card in load_cards() if any(set(name_words(name)) == wanted for name in (card.name, *card.aliases))
    ]
    if memory_bytes is not None:
        cards = [card for card in cards if _has_size(card, memory_bytes)]
    return cards[0] if len(cards) == 1 else None


def name_words(name: str) -> list[str]:
    """Split a card's name for comparison: "RTX-4090" -> rtx, 4090; "A100 80GB" -> a100, 80."""
    plain = re.sub(r"\b(nvidia|geforce|tesla|amd|instinct)\b", " ", name.lower().replace("_", " "))
    plain = re.sub(r"(\d) ?gb\b", r"\1", plain)
    plain = re.sub(r"\b(rtx|gtx)(\d)", r"\1 \2", plain)
    plain = re.sub(r"(\d{4})(ti|super)\b", r"\1 \2", plain)
    return re.findall(r"[a-z0-9]+", plain)


def _has_size(card: Card, memory_bytes: int) -> bool:
    nominal = card.value("memory_gb")
    low, high = _SAME_SIZE
    return nominal is None or low <= memory_bytes / (nominal * GIB) <= high


def _cards_named(word: str) -> list[Card]:
    """Return cards of this name, also without RTX or GTX; else all cards whose name has these words."""
    wanted, cards = name_words(word), load_cards()
    exact = [card for card in cards if any(_model(name) == _model(word) for name in (card.name, *card.aliases))]
    partial = [card for card in cards if wanted and all(_has_word(card, part) for part in wanted)]
    if (exact or partial) and not re.fullmatch(r"\d{1,3}", word):  # 80 may be a size without its unit
        return exact or partial
    names = {card.name.lower(): card.name for card in cards}
    close = [names[name] for name in difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.4)]
    suggestion = text("Did you mean {names}?", names=listing(close, "{items} or {last}")) if close else None
    raise UsageError(
        text("Unknown card {name!r}.", name=word),
        hint=sentences(suggestion, text("All names: ownlab gpus")),
    )


def _has_word(card: Card, word: str) -> bool:
    """Whether a card's name has this word; sockets also without their number: "sxm" is SXM2, SXM4 or SXM5."""
    return any(own == word or (word == "sxm" and own.startswith(word)) for own in name_words(card.name))


def _model(name: str) -> list[str]:
    return [word for word in name_words(name) if word not in ("rtx", "gtx")]


def _card_of_size(word: str) -> list[Card]:
    if not re.fullmatch(r"[\d.]+\s*([gm]i?b?|ti?b)", word, re.IGNORECASE):  # "1080 Ti" is a card
        return []
    try:
        size = parse_bytes(word)
    except ValueError as exc:
        raise UsageError(text("{size!r} is not a memory size: {cause}.", size=word, cause=exc)) from exc
    if size < GIB:
        raise UsageError(text("{size} is too small for a card: the least is 1 GiB.", size=format_bytes(size)))
    size_gib = Figure(size / GIB, "as requested", "")
    return [Card(name=text("any with {memory}", memory=format_bytes(size)), memory_gib=size_gib)]
