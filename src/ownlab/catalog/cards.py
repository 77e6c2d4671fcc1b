"""cards.toml as it is written, and its checks: the package's own, and a newer one that a person brought.

A figure is `[value, "source"]`, where the source is a key of the table `sources`; or a text that says why there is none.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import Struct

from ownlab.catalog.data_files import read_data, tomllib
from ownlab.config.paths import state_folder
from ownlab.errors import InputError, RecordError, UsageError
from ownlab.units import GIB, format_bytes, parse_bytes

__all__ = [
    "FIGURES",
    "FIGURE_NAMES",
    "NO_UNITS",
    "Card",
    "CardFile",
    "CardRow",
    "Figure",
    "FigureName",
    "Source",
    "Unstated",
    "choose_cards",
    "figures_in",
    "find_card",
    "load_cards",
    "load_sources",
    "newest_files",
    "own_file",
    "read_cards",
    "shipped_file",
    "words_of",
]


# The reason that is a fact: others say that a figure was not found, this one that there is none.
NO_UNITS = "no units for it"

Written: TypeAlias = tuple[float, str] | str


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that was read."""

    title: str
    address: str
    read: str  # the day, 2026-11-15


class CardRow(Struct, frozen=True, forbid_unknown_fields=True):
    """One card, as it is written."""

    name: str
    vendor: str
    architecture: str
    memory_gb: Written
    memory_gib: Written
    bandwidth_gb_s: Written
    fp64_tflops: Written
    fp32_tflops: Written
    tf32_tflops: Written
    fp16_tflops: Written
    bf16_tflops: Written
    fp8_tflops: Written
    int8_tops: Written
    power_w: Written
    launch_usd: Written
    capability: str = ""
    year: int | None = None
    devices: int = 1
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class CardFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    as_of: str
    sources: dict[str, Source]
    cards: tuple[CardRow, ...]


FIGURE_NAMES: tuple[str, ...] = tuple(name for name, kind in get_type_hints(CardRow).items() if kind == Written)


def own_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `ownlab gpus update` puts what a person brought."""
    return state_folder(environ, make=False) / "catalog" / "cards.toml"


def shipped_file() -> CardFile:
    """The package's own. It does not fail: tests see to that."""
    return read_cards(read_data("cards.toml"))


def newest_files() -> tuple[CardFile, ...]:
    """The files that count, the newer one last."""
    shipped, path = shipped_file(), own_file()
    hint = "ownlab gpus update --reset goes back to what came with ownlab."
    try:
        brought = read_cards(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return (shipped,)
    except OSError as exc:
        raise InputError(f"{path} cannot be read: {exc.strerror}", hint=hint) from exc
    except (UnicodeDecodeError, RecordError) as exc:
        raise RecordError(f"{path} cannot be used: {exc}", hint=hint) from exc
    return tuple(sorted((shipped, brought), key=lambda file: file.as_of))


def read_cards(text: str) -> CardFile:
    """The file, by its schema; every source that a figure names is there."""
    try:
        file = msgspec.convert(tomllib.loads(text), CardFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise RecordError(f"this is no catalogue of cards: {exc}") from exc
    except RecursionError:
        raise RecordError("this is no catalogue of cards: lists in lists without end") from None
    for card, figure, (_, source) in figures_in(file):
        if source not in file.sources:
            raise RecordError(f"{card}: {figure} names the source {source!r}, which is not in the table of sources")
    return file


def figures_in(file: CardFile) -> Iterator[tuple[str, str, tuple[float, str]]]:
    """Card, name and value with source of every figure that has a value."""
    for row in file.cards:
        for name in FIGURE_NAMES:
            written = getattr(row, name)
            if isinstance(written, tuple):
                yield row.name, name, written


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
    figures = {name: _card_figure(getattr(row, name), file) for name in FIGURES}
    plain = {name: getattr(row, name) for name in CardRow.__struct_fields__ if name not in FIGURES}
    return msgspec.structs.replace(Card(row.name), **plain, **figures)


def _card_figure(written: tuple[float, str] | str, file: CardFile) -> Figure | Unstated:
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
