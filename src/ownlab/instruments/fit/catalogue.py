"""Cards by name: cards.toml, and sizes such as 24GiB for cards that are not in it."""

from __future__ import annotations

import difflib
import re
import sys
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import Struct

from ownlab.errors import UsageError
from ownlab.units import GIB, format_bytes, parse_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_CARDS", "Card", "choose_cards", "load_cards"]

# What people rent and own, from small to great.
DEFAULT_CARDS = "T4,RTX 4090,L40S,A100 80GB SXM4,H200"
# Of its nominal size a card has at least so much: a T4 91 %, an L40S 93 %, others more (cards.toml).
_SURE = 0.9
# Hidden memory and context were measured on this one.
_CALIBRATED = "H200 SXM"


class Card(Struct, frozen=True, forbid_unknown_fields=True):
    """One card, as cards.toml has it. A card of which only the size was said has no figures."""

    name: str
    nominal_gb: float = 0
    capability: str = ""
    memory_gib: float | None = None
    memory_source: str = ""
    bandwidth_gb_s: float | None = None
    fp32_tflops: float | None = None
    tensor_tflops: float | None = None
    tensor_source: str = ""
    as_of: str = ""

    @property
    def memory_bytes(self) -> int:
        """What programs can have; where no report of it was found, less than any card of that size has."""
        return round((self.nominal_gb * _SURE if self.memory_gib is None else self.memory_gib) * GIB)

    @property
    def source(self) -> str:
        """Where its figures come from."""
        memory = self.memory_source or f"{_SURE:.0%} of its nominal size"
        rates = f"; rates: {self.tensor_source}" if self.tensor_source else ""
        return f"memory: {memory}{rates}"

    @property
    def calibrated(self) -> bool:
        """Whether what tensors do not account for was measured on this card."""
        return self.name == _CALIBRATED


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    cards: tuple[Card, ...]


@lru_cache(maxsize=1)
def load_cards() -> tuple[Card, ...]:
    """All of them. A file that does not fit is a bug of ours, and raises."""
    text = Path(__file__).with_name("cards.toml").read_text("utf-8")
    file = msgspec.convert(tomllib.loads(text), _File)
    return tuple(msgspec.structs.replace(card, as_of=file.as_of) for card in file.cards)


def choose_cards(asked: str) -> tuple[Card, ...]:
    """ "h200,4090,24GiB" -> the cards that are meant; "a100" are all of its kind."""
    words = [word.strip() for word in asked.split(",") if word.strip()]
    if not words:
        raise UsageError("--cards names no card", hint="Write names and sizes: --cards h200,4090,24GiB")
    found = [card for word in words for card in (_of_size(word) or _all_named(word))]
    return tuple(dict.fromkeys(found))


def _all_named(word: str) -> list[Card]:
    """Cards all of whose words are in the name; one whose name is just that stands for itself."""
    wanted, cards = _words(word), load_cards()
    exact = [card for card in cards if _words(card.name) == wanted]
    some = [card for card in cards if wanted and set(wanted) <= set(_words(card.name))]
    if (exact or some) and not re.fullmatch(r"\d{1,3}", word):  # 80 may be a size, and its unit was forgotten
        return exact or some
    names = {card.name.lower(): card.name for card in cards}
    close = difflib.get_close_matches(word.lower(), names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(names[each] for each in close)}? " if close else ""
    raise UsageError(f"no card is known by the name {word!r}", hint=f"{hint}A size does as well: --cards 24GiB")


def _words(name: str) -> list[str]:
    """ "RTX-4090" -> rtx, 4090; "A100 80GB" -> a100, 80."""
    plain = re.sub(r"\b(nvidia|geforce|tesla|amd|instinct)\b", " ", name.lower().replace("_", " "))
    plain = re.sub(r"(\d)gb\b", r"\1", plain)
    plain = re.sub(r"\b(rtx|gtx)(\d)", r"\1 \2", plain)
    return re.findall(r"[a-z0-9]+", plain)


def _of_size(word: str) -> list[Card]:
    if not re.fullmatch(r"[\d.]+\s*[gmt]i?b?", word, re.IGNORECASE):
        return []
    try:
        size = parse_bytes(word)
    except ValueError as exc:
        raise UsageError(f"--cards: {exc}") from exc
    if size < GIB:
        raise UsageError(f"no card for such work has only {format_bytes(size)}")
    return [Card(name=f"any with {format_bytes(size)}", memory_gib=size / GIB, memory_source="--cards")]
