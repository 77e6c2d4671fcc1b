"""Cloud platforms: their offers, prices and limits, every figure with its source and date.

`data/platforms.toml` is the table; its header explains the format.
"""

from __future__ import annotations

import difflib
import re
from datetime import date
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ownlab.catalog.card_speeds import load_throughput
from ownlab.catalog.cards import Card, Figure, Unstated, name_words
from ownlab.catalog.data_files import read_data, tomllib
from ownlab.errors import RecordError, UsageError
from ownlab.text import in_english, listing, sentences, template, text, text_of_table

__all__ = [
    "LIMITS",
    "NO_LIMIT",
    "OLD_DAYS",
    "Limit",
    "Offer",
    "Platform",
    "PlatformList",
    "PlatformSource",
    "choose_platforms",
    "days_old",
    "find_platform",
    "is_old",
    "is_unlimited",
    "list_platforms",
    "load_platform_sources",
    "load_platforms",
    "offer_label",
    "parse_platforms",
    "usual_card",
]

# A reason that is a fact: there is no limit. Other reasons say that no source was found.
NO_LIMIT = "no limit"
# Prices moved by up to 40 % within a year (an H100 SXM at RunPod by 21 % from 2026-08 to 2026-11): prices older than this count as old.
OLD_DAYS = 183

Limit: TypeAlias = Literal["session_hours", "weekly_hours", "idle_minutes", "storage_gb"]
LIMITS: tuple[Limit, ...] = ("session_hours", "weekly_hours", "idle_minutes", "storage_gb")
Per: TypeAlias = Literal["hour", "unit-hour", "free"]
_RawFigure: TypeAlias = tuple[float, str] | str


class PlatformSource(Struct, frozen=True, forbid_unknown_fields=True):
    """A document from which figures were taken, and the date that it describes."""

    title: str
    address: str
    as_of: str
    read: str


_NONE = Unstated(NO_LIMIT)
_NOT_FOUND = Unstated("not published, or not found")


# Names of offers that are words; all others are names of machines and of plans.
_NAMES_IN_WORDS = {
    str(name): name
    for name in (
        template("community"),
        template("free"),
        template("market"),
        template("market, median"),
        template("pay as you go"),
        template("Pro+ units"),
        template("Pro+ units (G4)"),
        template("Pro+ units, high RAM"),
        template("secure"),
        template("units"),
        template("units (G4)"),
        template("units, high RAM"),
    )
}


class Offer(Struct, frozen=True):
    """A machine with cards, and what it costs."""

    platform: str
    name: str
    card: str  # a name of cards.toml
    count: int  # number of cards; all of them are paid
    price: Figure  # of the whole machine; with per = "unit-hour": units per hour
    currency: str
    per: Per
    region: str
    host_extra: bool  # the price is for the card only; the host costs extra
    session_hours: Figure | Unstated
    weekly_hours: Figure | Unstated
    unit_price: Figure | Unstated  # of one compute unit
    gone: str  # why the offer no longer exists; "": it does
    note: str
    daily_hours: Figure | Unstated = _NONE
    daily_hours_most: Figure | Unstated = _NONE  # where sources disagree
    total_hours: Figure | Unstated = _NONE  # of free use in all, which are not renewed
    lockout_hours: Figure | Unstated = _NONE  # how long a card may be refused after a session
    plan: str = ""  # a subscription that the offer needs
    plan_usd: Figure | Unstated = _NONE  # per month
    plan_usd_most: Figure | Unstated = _NONE  # where it is not published which plan is needed
    plan_units: float = 0  # compute units that the plan includes each month
    cpus: Figure | Unstated = _NOT_FOUND
    ram_gib: Figure | Unstated = _NOT_FOUND

    @property
    def hourly(self) -> float | None:
        """The price per hour in `currency`; None where the price of a unit is unknown."""
        if self.per == "unit-hour":
            return self.price.value * self.unit_price.value if isinstance(self.unit_price, Figure) else None
        return self.price.value


class Platform(Struct, frozen=True):
    """A platform that rents or provides cards, and its limits."""

    name: str
    address: str
    alive: bool | None  # None: no information for years
    ended: str  # "2021-08"; "" where it has not shut down
    ended_source: str
    session_hours: Figure | Unstated
    weekly_hours: Figure | Unstated
    idle_minutes: Figure | Unstated
    storage_gb: Figure | Unstated
    offers: tuple[Offer, ...]
    notes: tuple[str, ...]
    aliases: tuple[str, ...]
    daily_hours: Figure | Unstated = _NONE  # at least
    daily_hours_most: Figure | Unstated = _NONE  # where sources disagree
    total_hours: Figure | Unstated = _NONE  # of free use in all, which are not renewed

    def limit(self, name: Limit) -> Figure | Unstated:
        """Return one of its limits."""
        limit: Figure | Unstated = getattr(self, name)
        return limit


class PlatformList(Struct, frozen=True):
    """`ownlab clouds --json`."""

    platforms: tuple[Platform, ...]
    sources: dict[str, PlatformSource]


# -- the table ----------------------------------------------------------------------------------------------------------


class _OfferRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    card: str
    price: tuple[float, str]
    count: int = 1
    currency: str = "USD"
    per: Per = "hour"
    region: str = ""
    host_extra: bool = False
    session_hours: _RawFigure | None = None  # None: the platform's
    weekly_hours: _RawFigure | None = None
    gone: str = ""
    note: str = ""
    lockout_hours: _RawFigure = NO_LIMIT
    plan: tuple[str, float, str] | None = None
    plan_most: _RawFigure = NO_LIMIT
    plan_units: float = 0
    host: tuple[float, float, str] | None = None  # processors (0: not published), GiB


class _PlatformRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    address: str
    session_hours: _RawFigure
    weekly_hours: _RawFigure
    idle_minutes: _RawFigure
    storage_gb: _RawFigure
    alive: bool | None = None
    ended: tuple[str, str] | None = None
    daily_hours: _RawFigure = NO_LIMIT
    daily_hours_most: _RawFigure = NO_LIMIT
    total_hours: _RawFigure = NO_LIMIT
    unit_price: _RawFigure = "no compute units are sold"
    offers: tuple[_OfferRow, ...] = ()
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    as_of: str
    sources: dict[str, PlatformSource]
    platforms: tuple[_PlatformRow, ...]


def parse_platforms(source: str) -> tuple[tuple[Platform, ...], dict[str, PlatformSource]]:
    """Parse a platforms.toml and check that every source that a figure names exists."""
    try:
        table = msgspec.convert(tomllib.loads(source), _Table)
        return tuple(_platform(row, table.sources) for row in table.platforms), table.sources
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise RecordError(text("This is not a table of platforms: {cause}.", cause=exc)) from exc
    except KeyError as exc:
        raise RecordError(
            text("A figure names the source {key}, which is not in the table of sources.", key=exc)
        ) from exc


def _platform(row: _PlatformRow, sources: dict[str, PlatformSource]) -> Platform:
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
        notes=tuple(map(text_of_table, row.notes)),
        aliases=row.aliases,
        daily_hours=_figure(row.daily_hours, sources),
        daily_hours_most=_figure(row.daily_hours_most, sources),
        total_hours=_figure(row.total_hours, sources),
        **limits,
    )


def _offer(
    platform: _PlatformRow, row: _OfferRow, limits: dict[Limit, Figure | Unstated], sources: dict[str, PlatformSource]
) -> Offer:
    def own_or_platform(name: Limit, raw: _RawFigure | None) -> Figure | Unstated:
        return limits[name] if raw is None else _figure(raw, sources)

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
        session_hours=own_or_platform("session_hours", row.session_hours),
        weekly_hours=own_or_platform("weekly_hours", row.weekly_hours),
        unit_price=_figure(platform.unit_price, sources),
        gone=text_of_table(row.gone),
        note=text_of_table(row.note),
        daily_hours=_figure(platform.daily_hours, sources),
        daily_hours_most=_figure(platform.daily_hours_most, sources),
        total_hours=_figure(platform.total_hours, sources) if row.per == "free" else _NONE,
        lockout_hours=_figure(row.lockout_hours, sources),
        plan_units=row.plan_units,
        **_plan_and_host(row, sources),
    )


def offer_label(name: str) -> str:
    """Return the name of an offer as it is shown: translated, if it is made of words."""
    words = _NAMES_IN_WORDS.get(name)
    return words.fill() if words is not None else name


def is_unlimited(limit: Figure | Unstated) -> bool:
    """Whether there is no limit, as a fact."""
    return isinstance(limit, Unstated) and in_english(limit.reason) == NO_LIMIT


def _plan_and_host(row: _OfferRow, sources: dict[str, PlatformSource]) -> dict[str, Any]:
    fields: dict[str, Any] = {"plan_usd_most": _figure(row.plan_most, sources)}
    if row.plan is not None:
        name, price, source = row.plan
        fields |= {"plan": name, "plan_usd": _figure((price, source), sources)}
    if row.host is not None:
        cpus, ram, source = row.host
        fields |= {"cpus": _figure((cpus, source), sources)} if cpus else {}
        fields |= {"ram_gib": _figure((ram, source), sources)}
    return fields


def _figure(raw: _RawFigure, sources: dict[str, PlatformSource]) -> Figure | Unstated:
    if isinstance(raw, str):
        return Unstated(text_of_table(raw))
    value, source = raw
    return Figure(value, source, sources[source].as_of)


# -- queries ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[Platform, ...], dict[str, PlatformSource]]:
    return parse_platforms(read_data("platforms.toml"))


def load_platforms() -> tuple[Platform, ...]:
    """Return all platforms in the order of the table: those that exist first."""
    return _shipped()[0]


def load_platform_sources() -> dict[str, PlatformSource]:
    """Return the sources by the keys that figures name."""
    return _shipped()[1]


def list_platforms(platforms: tuple[Platform, ...] | None = None) -> PlatformList:
    """Return these platforms, or all, with the sources of their figures."""
    return PlatformList(load_platforms() if platforms is None else platforms, load_platform_sources())


def find_platform(name: str) -> Platform:
    """Find a platform by its name or alias, or by a part of it that only one platform has."""
    wanted = _normalised(name)
    platforms = load_platforms()
    exact = [each for each in platforms if wanted in map(_normalised, (each.name, *each.aliases))]
    partial = [
        each for each in platforms if wanted and any(wanted in _normalised(word) for word in (each.name, *each.aliases))
    ]
    matches = exact or partial
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = listing([each.name for each in matches], "{items} or {last}")
        raise UsageError(
            text("The platform {name!r} is ambiguous: it may be {names}.", name=name, names=names),
            hint=text("Write more of the name."),
        )
    known = {_normalised(word): each.name for each in platforms for word in (each.name, *each.aliases)}
    close = dict.fromkeys(known[word] for word in difflib.get_close_matches(wanted, known, n=3, cutoff=0.5))
    suggestion = text("Did you mean {names}?", names=listing(close, "{items} or {last}")) if close else None
    raise UsageError(
        text("Unknown platform {name!r}.", name=name), hint=sentences(suggestion, text("All names: ownlab clouds"))
    )


def choose_platforms(names: str) -> tuple[Platform, ...]:
    """ "kaggle,colab" -> both platforms, each once."""
    words = [word for word in names.split(",") if word.strip()]
    if not words:
        raise UsageError(text("No platform is named."), hint=text("Write names: --platforms kaggle,colab"))
    return tuple({platform.name: platform for platform in map(find_platform, words)}.values())


_FORMS = {"sxm", "sxm2", "sxm4", "sxm5", "pcie", "nvl", "server"}


def usual_card(cards: tuple[Card, ...], name: str) -> Card | None:
    """Return the one that people mean by this name: most platforms offer it, or somebody measured it.

    None where the name may mean different models, and not just sizes and forms of one.
    """
    named = [card for card in cards if _model_words(card.name) == _model_words(name)] or list(cards)
    if len({_model_words(card.name) for card in named}) > 1:
        return None
    offers = [offer.card for platform in load_platforms() for offer in platform.offers]
    measured = {card for rows in load_throughput().sets for card in rows.rows}
    return max(
        named, key=lambda card: (offers.count(card.name), card.name in measured, -named.index(card)), default=None
    )


def _model_words(name: str) -> tuple[str, ...]:
    """ "A100 80GB PCIe" -> a100; "RTX 3080 Ti" -> 3080, ti."""
    words = name_words(name)
    series = {"rtx", "gtx"} if any(re.fullmatch(r"\d{4}", word) for word in words) else set()
    return tuple(word for word in words if word not in _FORMS | series and not re.fullmatch(r"\d{1,3}", word)) or tuple(
        words
    )


def days_old(as_of: str, today: date) -> int:
    """Return the age of a figure in days."""
    return (today - date.fromisoformat(as_of)).days


def is_old(figure: Figure, today: date) -> bool:
    """Return whether a price is too old to rely on."""
    return days_old(figure.as_of, today) > OLD_DAYS


def _normalised(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())
