"""Platforms that rent or lend cards: offers, prices and limits, every figure with its source and the day it is of.

`data/platforms.toml` is the table; it says how it is written.
"""

from __future__ import annotations

import difflib
import re
from datetime import date
from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from ownlab.catalog.cards import Figure, Unstated
from ownlab.catalog.data_files import read_data, tomllib
from ownlab.errors import RecordError, UsageError

__all__ = [
    "LIMITS",
    "NO_LIMIT",
    "OLD_DAYS",
    "Limit",
    "Offer",
    "Origin",
    "Platform",
    "PlatformList",
    "choose_platforms",
    "days_old",
    "find_platform",
    "is_old",
    "list_platforms",
    "load_origins",
    "load_platforms",
    "read_platforms",
]

# The reason that is a fact: others say that a figure was not found, this one that there is no limit.
NO_LIMIT = "no limit"
# Prices moved by up to 40 % within a year (an H100 SXM at RunPod by 21 % from 2026-08 to 2026-11): older than this is old.
OLD_DAYS = 183

Limit: TypeAlias = Literal["session_hours", "weekly_hours", "idle_minutes", "storage_gb"]
LIMITS: tuple[Limit, ...] = ("session_hours", "weekly_hours", "idle_minutes", "storage_gb")
Per: TypeAlias = Literal["hour", "unit-hour", "free"]
_Written: TypeAlias = tuple[float, str] | str


class Origin(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that was read, and the day that it speaks of."""

    title: str
    address: str
    as_of: str
    read: str


class Offer(Struct, frozen=True):
    """A machine with cards, and what it costs."""

    platform: str
    name: str
    card: str  # a name of cards.toml
    count: int  # of cards; all of them are paid
    price: Figure  # of the whole machine; per "unit-hour": units an hour
    currency: str
    per: Per
    region: str
    host_extra: bool  # the card alone is priced: the machine around it costs more
    session_hours: Figure | Unstated
    weekly_hours: Figure | Unstated
    unit_price: Figure | Unstated  # of one unit, where units are paid
    gone: str  # why it can no longer be had; "": it can
    note: str

    @property
    def hourly(self) -> float | None:
        """What an hour costs in `currency`; None where the price of a unit is not known."""
        if self.per == "unit-hour":
            return self.price.value * self.unit_price.value if isinstance(self.unit_price, Figure) else None
        return self.price.value


class Platform(Struct, frozen=True):
    """Who rents or lends cards, and within which limits."""

    name: str
    address: str
    alive: bool | None  # None: nothing was heard of it for years
    ended: str  # "2021-08"; "" where it has not
    ended_source: str
    session_hours: Figure | Unstated
    weekly_hours: Figure | Unstated
    idle_minutes: Figure | Unstated
    storage_gb: Figure | Unstated
    offers: tuple[Offer, ...]
    notes: tuple[str, ...]
    aliases: tuple[str, ...]

    def limit(self, name: Limit) -> Figure | Unstated:
        """One of its limits."""
        found: Figure | Unstated = getattr(self, name)
        return found


class PlatformList(Struct, frozen=True):
    """`ownlab clouds --json`."""

    platforms: tuple[Platform, ...]
    sources: dict[str, Origin]


# -- as it is written ----------------------------------------------------------------------------------------------------


class _OfferRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    card: str
    price: tuple[float, str]
    count: int = 1
    currency: str = "USD"
    per: Per = "hour"
    region: str = ""
    host_extra: bool = False
    session_hours: _Written | None = None  # None: as the platform's
    weekly_hours: _Written | None = None
    gone: str = ""
    note: str = ""


class _PlatformRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    address: str
    session_hours: _Written
    weekly_hours: _Written
    idle_minutes: _Written
    storage_gb: _Written
    alive: bool | None = None
    ended: tuple[str, str] | None = None
    unit_price: _Written = "nothing is paid in units"
    offers: tuple[_OfferRow, ...] = ()
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, Origin]
    platforms: tuple[_PlatformRow, ...]


def read_platforms(text: str) -> tuple[tuple[Platform, ...], dict[str, Origin]]:
    """The table and what it was read from, by the schema; every source that a figure names is there."""
    try:
        file = msgspec.convert(tomllib.loads(text), _File)
        return tuple(_platform(row, file.sources) for row in file.platforms), file.sources
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise RecordError(f"this is no table of platforms: {exc}") from exc
    except KeyError as exc:
        raise RecordError(f"a figure names the source {exc}, which is not in the table of sources") from exc


def _platform(row: _PlatformRow, sources: dict[str, Origin]) -> Platform:
    limits = {name: _figure(getattr(row, name), sources) for name in LIMITS}
    ended, ended_source = row.ended or ("", "")
    if ended_source and ended_source not in sources:
        raise KeyError(ended_source)
    return Platform(
        name=row.name,
        address=row.address,
        alive=row.alive,
        ended=ended,
        ended_source=ended_source,
        offers=tuple(_offer(row, offer, limits, sources) for offer in row.offers),
        notes=row.notes,
        aliases=row.aliases,
        **limits,
    )


def _offer(
    platform: _PlatformRow, row: _OfferRow, limits: dict[Limit, Figure | Unstated], sources: dict[str, Origin]
) -> Offer:
    def own(name: Limit, written: _Written | None) -> Figure | Unstated:
        return limits[name] if written is None else _figure(written, sources)

    price = _figure(row.price, sources)
    assert isinstance(price, Figure)
    return Offer(
        platform=platform.name,
        name=row.name,
        card=row.card,
        count=row.count,
        price=price,
        currency=row.currency,
        per=row.per,
        region=row.region,
        host_extra=row.host_extra,
        session_hours=own("session_hours", row.session_hours),
        weekly_hours=own("weekly_hours", row.weekly_hours),
        unit_price=_figure(platform.unit_price, sources),
        gone=row.gone,
        note=row.note,
    )


def _figure(written: _Written, sources: dict[str, Origin]) -> Figure | Unstated:
    if isinstance(written, str):
        return Unstated(written)
    value, source = written
    return Figure(value, source, sources[source].as_of)


# -- questions -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[Platform, ...], dict[str, Origin]]:
    return read_platforms(read_data("platforms.toml"))


def load_platforms() -> tuple[Platform, ...]:
    """All of them: those that live first, as the table has them."""
    return _shipped()[0]


def load_origins() -> dict[str, Origin]:
    """What was read, by the key that figures name."""
    return _shipped()[1]


def list_platforms(platforms: tuple[Platform, ...] | None = None) -> PlatformList:
    """Those that are meant, or all, with what they were read from."""
    return PlatformList(load_platforms() if platforms is None else platforms, load_origins())


def find_platform(name: str) -> Platform:
    """The platform that is meant; a part of its name will do where only one has it."""
    wanted = _plain(name)
    platforms = load_platforms()
    exact = [each for each in platforms if wanted in map(_plain, (each.name, *each.aliases))]
    some = [each for each in platforms if wanted and any(wanted in _plain(word) for word in (each.name, *each.aliases))]
    found = exact or some
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{name!r} may be {' or '.join(each.name for each in found)}", hint="Write more of its name.")
    names = {_plain(word): each.name for each in platforms for word in (each.name, *each.aliases)}
    close = dict.fromkeys(names[each] for each in difflib.get_close_matches(wanted, names, n=3, cutoff=0.5))
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(f"no platform is known by the name {name!r}", hint=f"{hint}All names: ownlab clouds")


def choose_platforms(asked: str) -> tuple[Platform, ...]:
    """ "kaggle,colab" -> both, each once."""
    words = [word for word in asked.split(",") if word.strip()]
    if not words:
        raise UsageError("no platform is named", hint="Write names: --platforms kaggle,colab")
    return tuple({found.name: found for found in map(find_platform, words)}.values())


def days_old(as_of: str, today: date) -> int:
    """How long ago a figure was so."""
    return (today - date.fromisoformat(as_of)).days


def is_old(figure: Figure, today: date) -> bool:
    """Whether a price may have changed since."""
    return days_old(figure.as_of, today) > OLD_DAYS


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())
