"""`ownlab clouds` in the terminal: all platforms at a glance, one in full with its sources; what is old is grey."""

from __future__ import annotations

from datetime import date

from rich.console import Console
from rich.text import Text

from ownlab.catalog.cards import Figure, Unstated
from ownlab.catalog.platforms import (
    LIMITS,
    NO_LIMIT,
    Offer,
    Platform,
    days_old,
    is_old,
    load_origins,
    load_platforms,
)
from ownlab.render.console import labelled
from ownlab.units import format_price

__all__ = ["show_platform", "show_platforms"]

_LABELS = {
    "session_hours": ("a session", "hours"),
    "weekly_hours": ("a week", "hours"),
    "idle_minutes": ("idle", "minutes"),
    "storage_gb": ("storage", "GB"),
}
_WIDTH = 11
_WIDE = 60  # columns; in a terminal that has fewer, offers begin at the left
_YEAR = 365
_MONTH = 30.4


def show_platforms(out: Console, today: date) -> None:
    """Print all of them, a line or two each."""
    platforms = load_platforms()
    width = max(Text(each.name).cell_len for each in platforms) + 2
    for platform in platforms:
        name = Text(platform.name, style="bold" if platform.alive else "dim")
        name.append(" " * (width - name.cell_len))
        out.print(Text("  ") + name + _limits(platform), no_wrap=True, overflow="ignore", crop=False)
        offers = [offer for offer in platform.offers if not offer.gone]
        if offers:
            labelled(out, "", _offers(offers, today), indent=2 + width if out.width >= _WIDE else 4, width=0)
    out.print()
    labelled(out, "", Text(_closing(platforms, today), style="dim"), width=0)


def show_platform(platform: Platform, out: Console, today: date) -> None:
    """Print one: limits, offers with the day of each price, notes, sources."""
    out.print(Text(platform.name, style="bold") + Text(f"  {platform.address}", style="dim"))
    if platform.alive is not True:
        labelled(out, "", Text(_state(platform), style="red"), width=0)
    if platform.alive is not False:
        for name in LIMITS:
            label, unit = _LABELS[name]
            labelled(out, label, _limit(platform.limit(name), unit), width=_WIDTH)
    if platform.offers:
        out.print()
        _table(platform, out, today)
    for number, note in enumerate(platform.notes):
        if not number:
            out.print()
        labelled(out, "", note, width=0)
    out.print()
    _sources(platform, out)


def _state(platform: Platform) -> str:
    if platform.alive is False:
        return f"has ended ({platform.ended})"
    return "nothing was heard of it for years"


def _limits(platform: Platform) -> Text:
    if platform.alive is not True:
        return Text(_state(platform), style="red" if platform.alive is False else "yellow")
    found = []
    for name, words in (("session_hours", "{:g} h a session"), ("weekly_hours", "{:g} h a week")):
        limit = platform.session_hours if name == "session_hours" else platform.weekly_hours
        if isinstance(limit, Figure):
            found.append(words.format(limit.value))
    unlimited = isinstance(platform.session_hours, Unstated) and platform.session_hours.reason == NO_LIMIT
    return Text(", ".join(found) if found else "no limit of time" if unlimited else "")


def _offers(offers: list[Offer], today: date) -> Text:
    """ "T4 free, L4 $0.17, 8 × H200 SXM $63.30"; the cheapest of each card."""
    best: dict[tuple[str, int], Offer] = {}
    for offer in offers:
        key = offer.card, offer.count
        kept = best.get(key)
        if kept is None or (offer.hourly or 0.0) < (kept.hourly or 0.0):
            best[key] = offer
    line = Text()
    for number, offer in enumerate(best.values()):
        card = f"{offer.count} × {offer.card}" if offer.count > 1 else offer.card
        old = _grey(offer, today)
        line.append(", " if number else "").append(f"{card} {_hourly(offer)}{'*' * old}", style="dim" if old else "")
    return line


def _hourly(offer: Offer) -> str:
    if offer.per == "free":
        return "free"
    return "?" if offer.hourly is None else format_price(offer.hourly, offer.currency)


def _grey(offer: Offer, today: date) -> bool:
    return bool(offer.gone) or (is_old(offer.price, today) and offer.per != "free")


def _table(platform: Platform, out: Console, today: date) -> None:
    names = max(Text(offer.name).cell_len for offer in platform.offers) + 2
    cards = max(len(_card(offer)) for offer in platform.offers) + 2
    regions = dict.fromkeys(offer.region for offer in platform.offers)
    for offer in platform.offers:
        style = "dim" if _grey(offer, today) else ""
        price = _hourly(offer) if offer.per == "free" else f"{_hourly(offer)}/h"
        when = "" if offer.per == "free" else offer.price.as_of
        line = Text(f"  {offer.name.ljust(names)}{_card(offer).ljust(cards)}{price.rjust(9)}  {when}", style=style)
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
        region = offer.region if len(regions) > 1 else ""
        details = (_age(offer, today), _units(offer), region, offer.note, _gone(offer))
        if any(details):
            labelled(out, "", Text("; ".join(filter(None, details)), style="dim"), indent=4, width=0)
    if len(regions) == 1 and platform.offers[0].region:
        labelled(out, "", Text(f"prices of {platform.offers[0].region}", style="dim"), width=0)


def _card(offer: Offer) -> str:
    return f"{offer.count} × {offer.card}" if offer.count > 1 else offer.card


def _units(offer: Offer) -> str:
    return f"{offer.price.value:g} units an hour" if offer.per == "unit-hour" else ""


def _gone(offer: Offer) -> str:
    return f"not to be had any more: {offer.gone}" if offer.gone else ""


def _age(offer: Offer, today: date) -> str:
    if offer.per == "free" or not is_old(offer.price, today):
        return ""
    days = days_old(offer.price.as_of, today)
    return f"{days / _YEAR:.1f} years old" if days > _YEAR else f"{days / _MONTH:.0f} months old"


def _limit(limit: Figure | Unstated, unit: str) -> Text:
    if isinstance(limit, Figure):
        return Text(f"{limit.value:g} {unit}") + Text(f"  ({limit.source}, {limit.as_of})", style="dim")
    return Text(limit.reason, style="" if limit.reason == NO_LIMIT else "dim")


def _sources(platform: Platform, out: Console) -> None:
    figures = [platform.limit(name) for name in LIMITS]
    for offer in platform.offers:
        figures += [offer.price, offer.session_hours, offer.weekly_hours, offer.unit_price]
    used = dict.fromkeys([figure.source for figure in figures if isinstance(figure, Figure)])
    if platform.ended_source:
        used[platform.ended_source] = None
    origins = load_origins()
    for key in used:
        origin = origins[key]
        labelled(out, "", Text(f"{key}: {origin.title}, of {origin.as_of}", style="dim"), width=0)
        labelled(out, "", Text(origin.address, style="dim"), indent=4, width=0, wrapped=False)


def _closing(platforms: tuple[Platform, ...], today: date) -> str:
    offers = [offer for each in platforms for offer in each.offers if not offer.gone and offer.per != "free"]
    old = sum(_grey(offer, today) for offer in offers)
    gaps = sum(
        isinstance(each.limit(name), Unstated) and each.limit(name) != Unstated(NO_LIMIT)
        for each in platforms
        if each.alive is not False
        for name in LIMITS
    )
    return (
        f"Dollars an hour for the whole machine, lists without tax and storage. {old} of {len(offers)} prices are older than "
        f"half a year (*); {gaps} limits are not published or were not found. One in full: ownlab clouds NAME. What a job "
        "costs: ownlab clouds cost."
    )
