"""`ownlab clouds` in the terminal: all platforms in short, or one in full with its sources. Old prices are dimmed."""

from __future__ import annotations

from datetime import date

from rich.console import Console
from rich.text import Text

from ownlab.catalog.cards import Figure, Unstated
from ownlab.catalog.platforms import (
    LIMITS,
    Limit,
    Offer,
    Platform,
    days_old,
    is_old,
    is_unlimited,
    load_platform_sources,
    load_platforms,
    offer_label,
)
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right, cell_width
from ownlab.text import Template, facts, template, text, translated
from ownlab.units import format_price

__all__ = ["show_platform", "show_platforms"]

_LIMITS: dict[Limit, tuple[str, Template]] = {
    "session_hours": (text("session"), template("{value:g} hours")),
    "weekly_hours": (text("week"), template("{value:g} hours")),
    "idle_minutes": (text("idle"), template("{value:g} minutes")),
    "storage_gb": (text("storage"), template("{value:g} GB")),
}
_COMMA = template(", ")
_LABEL_WIDTH = 11
_WIDE = 60  # columns; in a narrower terminal the offers start at the left
_DAYS_PER_YEAR = 365
_DAYS_PER_MONTH = 30.4


def show_platforms(out: Console, today: date) -> None:
    """Print all platforms, one or two lines each."""
    platforms = load_platforms()
    width = max(Text(each.name).cell_len for each in platforms) + 2
    for platform in platforms:
        name = Text(platform.name, style="bold" if platform.alive else "dim")
        name.append(" " * (width - name.cell_len))
        out.print(Text("  ") + name + _time_limits(platform), no_wrap=True, overflow="ignore", crop=False)
        offers = [offer for offer in platform.offers if not offer.gone]
        if offers:
            labelled(out, "", _offers(offers, today), indent=2 + width if out.width >= _WIDE else 4, width=0)
    out.print()
    labelled(out, "", Text(_summary(platforms, today), style="dim"), width=0)


def show_platform(platform: Platform, out: Console, today: date) -> None:
    """Print one platform: limits, offers with the date of each price, notes, and sources."""
    out.print(Text(platform.name, style="bold") + Text(f"  {platform.address}", style="dim"))
    if platform.alive is not True:
        labelled(out, "", Text(_state(platform), style="red"), width=0)
    if platform.alive is not False:
        for name in LIMITS:
            label, value = _LIMITS[name]
            labelled(out, label, _limit(platform.limit(name), value), width=_LABEL_WIDTH)
        if isinstance(platform.daily_hours, Figure):
            labelled(out, text("day"), _daily(platform), width=_LABEL_WIDTH)
        if isinstance(platform.total_hours, Figure):
            value = template("{value:g} free hours, which are not renewed")
            labelled(out, text("in all"), _limit(platform.total_hours, value), width=_LABEL_WIDTH)
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
        return text("shut down ({date})", date=platform.ended)
    return text("no information for years")


def _time_limits(platform: Platform) -> Text:
    if platform.alive is not True:
        return Text(_state(platform), style="red" if platform.alive is False else "yellow")
    limits: list[str] = []
    if isinstance(platform.session_hours, Figure):
        limits.append(text("{hours:g} h per session", hours=platform.session_hours.value))
    if isinstance(platform.daily_hours, Figure):
        limits.append(text("{hours:g} h per day", hours=platform.daily_hours.value))
    if isinstance(platform.weekly_hours, Figure):
        limits.append(text("{hours:g} h per week", hours=platform.weekly_hours.value))
    if isinstance(platform.total_hours, Figure):
        limits.append(text("{hours:g} free hours in all", hours=platform.total_hours.value))
    if limits:
        return Text(facts(*limits))
    return Text(text("no time limit") if is_unlimited(platform.session_hours) else "")


def _offers(offers: list[Offer], today: date) -> Text:
    """ "T4 free, L4 $0.17, 8 × H200 SXM $63.30": the cheapest offer of each card."""
    best: dict[tuple[str, int], Offer] = {}
    for offer in offers:
        key = offer.card, offer.count
        cheapest = best.get(key)
        if cheapest is None or (offer.hourly or 0.0) < (cheapest.hourly or 0.0):
            best[key] = offer
    line = Text()
    for number, offer in enumerate(best.values()):
        old = _is_dimmed(offer, today)
        line.append(translated(_COMMA) if number else "").append(
            f"{_card(offer)} {_hourly(offer)}{'*' * old}", style="dim" if old else ""
        )
    return line


def _hourly(offer: Offer) -> str:
    if offer.per == "free":
        return text("free")
    return "?" if offer.hourly is None else format_price(offer.hourly, offer.currency)


def _is_dimmed(offer: Offer, today: date) -> bool:
    return bool(offer.gone) or (is_old(offer.price, today) and offer.per != "free")


def _table(platform: Platform, out: Console, today: date) -> None:
    names = max(Text(offer_label(offer.name)).cell_len for offer in platform.offers) + 2
    cards = max(cell_width(_card(offer)) for offer in platform.offers) + 2
    regions = dict.fromkeys(offer.region for offer in platform.offers)
    for offer in platform.offers:
        style = "dim" if _is_dimmed(offer, today) else ""
        price = _hourly(offer) if offer.per == "free" else f"{_hourly(offer)}/h"
        when = "" if offer.per == "free" else offer.price.as_of
        line = Text(
            f"  {align_left(offer_label(offer.name), names)}{align_left(_card(offer), cards)}{align_right(price, 9)}  {when}",
            style=style,
        )
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
        region = offer.region if len(regions) > 1 else ""
        parts = (_host(offer), _plan(offer), _lockout(offer), _age(offer, today), _units(offer), region, offer.note)
        details = [detail for detail in (*parts, _gone(offer)) if detail]
        if details:
            labelled(out, "", Text(facts(*details, separator="; "), style="dim"), indent=4, width=0)
    if len(regions) == 1 and platform.offers[0].region:
        labelled(out, "", Text(text("prices in {region}", region=platform.offers[0].region), style="dim"), width=0)


def _card(offer: Offer) -> str:
    return f"{offer.count} × {offer.card}" if offer.count > 1 else offer.card


def _units(offer: Offer) -> str:
    return text("{units:g} units per hour", units=offer.price.value) if offer.per == "unit-hour" else ""


def _gone(offer: Offer) -> str:
    return text("no longer offered: {reason}", reason=offer.gone) if offer.gone else ""


def _age(offer: Offer, today: date) -> str:
    if offer.per == "free" or not is_old(offer.price, today):
        return ""
    days = days_old(offer.price.as_of, today)
    if days > _DAYS_PER_YEAR:
        return text("{years:.1f} years old", years=days / _DAYS_PER_YEAR)
    return text("{months:.0f} months old", months=days / _DAYS_PER_MONTH)


def _limit(limit: Figure | Unstated, value: Template) -> Text:
    if isinstance(limit, Figure):
        return Text(value.fill(value=limit.value)) + Text(f"  ({limit.source}, {limit.as_of})", style="dim")
    return Text(limit.reason, style="" if is_unlimited(limit) else "dim")


def _daily(platform: Platform) -> Text:
    least, most = platform.daily_hours, platform.daily_hours_most
    if isinstance(least, Figure) and isinstance(most, Figure):
        return Text(text("{low:g} or {high:g} hours: sources disagree", low=least.value, high=most.value))
    return _limit(least, template("{value:g} hours"))


def _host(offer: Offer) -> str:
    if isinstance(offer.cpus, Figure) and isinstance(offer.ram_gib, Figure):
        return text("{cpus:g} processors, {ram:g} GiB of memory", cpus=offer.cpus.value, ram=offer.ram_gib.value)
    return text("{ram:g} GiB of memory", ram=offer.ram_gib.value) if isinstance(offer.ram_gib, Figure) else ""


def _plan(offer: Offer) -> str:
    """The subscription that an offer needs."""
    if not isinstance(offer.plan_usd, Figure):
        return ""
    if isinstance(offer.plan_usd_most, Figure):
        return text(
            "needs the plan {plan}, ${low:g} to ${high:g} per month",
            plan=offer.plan,
            low=offer.plan_usd.value,
            high=offer.plan_usd_most.value,
        )
    return text("needs the plan {plan}, ${price:g} per month", plan=offer.plan, price=offer.plan_usd.value)


def _lockout(offer: Offer) -> str:
    if not isinstance(offer.lockout_hours, Figure):
        return ""
    return text("after a session a card may be refused for {hours:g} hours", hours=offer.lockout_hours.value)


def _sources(platform: Platform, out: Console) -> None:
    figures = [*(platform.limit(name) for name in LIMITS), platform.daily_hours, platform.daily_hours_most]
    figures.append(platform.total_hours)
    for offer in platform.offers:
        figures += [offer.price, offer.session_hours, offer.weekly_hours, offer.unit_price]
        figures += [offer.lockout_hours, offer.plan_usd, offer.plan_usd_most, offer.cpus, offer.ram_gib]
    used = dict.fromkeys([figure.source for figure in figures if isinstance(figure, Figure)])
    if platform.ended_source:
        used[platform.ended_source] = None
    sources = load_platform_sources()
    for key in used:
        source = sources[key]
        line = text("{key}: {title}, {date}", key=key, title=source.title, date=source.as_of)
        labelled(out, "", Text(line, style="dim"), width=0)
        labelled(out, "", Text(source.address, style="dim"), indent=4, width=0, wrapped=False)


def _summary(platforms: tuple[Platform, ...], today: date) -> str:
    offers = [offer for each in platforms for offer in each.offers if not offer.gone and offer.per != "free"]
    old = sum(_is_dimmed(offer, today) for offer in offers)
    gaps = sum(
        isinstance(each.limit(name), Unstated) and not is_unlimited(each.limit(name))
        for each in platforms
        if each.alive is not False
        for name in LIMITS
    )
    return text(
        "Prices are per hour for the whole machine, in dollars or yuan (¥), without tax and storage. {old} of {prices} prices are older "
        "than half a year (*). {gaps} limits are not published or were not found. Details: ownlab clouds NAME. The cost of a "
        "job: ownlab clouds cost.",
        old=old,
        prices=len(offers),
        gaps=gaps,
    )
