"""The job on the offers of platforms: what it costs, in how many sessions, and over how many days."""

from __future__ import annotations

import math
from datetime import date
from typing import NamedTuple

from ownlab.catalog.cards import Figure, Unstated
from ownlab.catalog.platforms import NO_LIMIT, Offer, Platform, is_old
from ownlab.instruments.advise.records import CardAdvice, Question, Span, Stay

__all__ = ["Schedule", "order_of", "schedule", "stays_on", "why_not"]


def stays_on(
    question: Question, platforms: tuple[Platform, ...], cards: dict[str, CardAdvice], today: date
) -> tuple[Stay, ...]:
    """All offers whose card holds the job, cheapest first."""
    found = [
        _stay(question, offer, cards[offer.card], today)
        for platform in platforms
        for offer in platform.offers
        if platform.alive is not False and not offer.gone and offer.card in cards and not why_not(cards[offer.card])
    ]
    timed = question.basis is not None
    return tuple(sorted(found, key=lambda stay: order_of(stay, cards[stay.card], timed=timed)))


def why_not(card: CardAdvice) -> str:
    """Why the job does not run on a card; "": it may."""
    if card.refused:
        return f"has {card.refused}" if card.refused.startswith("no ") else card.refused
    return {"no": "is too small", "unknown": "has a memory that is not known"}.get(card.fits, "")


def order_of(stay: Stay, card: CardAdvice, *, timed: bool) -> tuple[int, float]:
    """What costs nothing first, the faster the better; then by cost; then what cannot be compared.

    `timed`: how long the job takes was told. Else the cost of the same work stands for its cost.
    """
    relative = None if card.speed is None else card.speed.relative
    if stay.free:
        return 0, -(relative or 0.0)
    if stay.currency == "USD" and stay.cost is not None:
        return 1, stay.cost.middle
    if not timed and stay.currency == "USD" and stay.hourly is not None and relative is not None:
        return 1, stay.hourly / relative
    return 2, stay.hourly or 0.0


def _stay(question: Question, offer: Offer, card: CardAdvice, today: date) -> Stay:
    hours, hourly = card.hours, offer.hourly
    cuts = None if hours is None else _cuts(question, offer, hours)
    sessions, weeks, days = cuts or (None, None, None)
    return Stay(
        platform=offer.platform,
        offer=offer.name,
        card=offer.card,
        count=offer.count,
        fits="tight" if card.fits == "tight" else "yes",
        hourly=hourly,
        currency=offer.currency,
        hours=hours,
        cost=None if hours is None or hourly is None else hours.times(hourly),
        units=hours.times(offer.price.value) if hours is not None and offer.per == "unit-hour" else None,
        sessions=sessions,
        weeks=weeks,
        days=days,
        checkpoints=sessions is not None and sessions.high > 1,
        unsure=_unsure(offer),
        as_of=offer.price.as_of,
        source=offer.price.source,
        old=is_old(offer.price, today) and offer.per != "free",
        region=offer.region,
        note=_note(offer),
    )


def _cuts(question: Question, offer: Offer, hours: Span) -> tuple[Span, Span | None, Span]:
    low, high = (
        schedule(end, offer.session_hours, offer.weekly_hours, question.hours_per_day)
        for end in (hours.low, hours.high)
    )
    weeks = None if low.weeks is None or high.weeks is None else Span(low.weeks, high.weeks)
    return Span(low.sessions, high.sessions), weeks, Span(low.days, high.days)


def _unsure(offer: Offer) -> str:
    named = (("a session", offer.session_hours), ("a week", offer.weekly_hours))
    return "; ".join(f"{what}: {it.reason}" for what, it in named if isinstance(it, Unstated) and it.reason != NO_LIMIT)


def _note(offer: Offer) -> str:
    parts = []
    if offer.count > 1:
        parts.append(f"{offer.count} cards are {'lent' if offer.per == 'free' else 'paid'}, one is used")
    if offer.host_extra:
        parts.append("the machine around the card costs more")
    if offer.note:
        parts.append(offer.note)
    if offer.per == "unit-hour":
        price = f" at ${offer.unit_price.value:.2f}" if isinstance(offer.unit_price, Figure) else ""
        parts.append(f"{offer.price.value:g} units an hour{price} each")
    return "; ".join(parts)


_DAY = 24
_WEEK = 7


class Schedule(NamedTuple):
    """How it is cut."""

    sessions: int
    weeks: int | None  # None: no quota for a week
    days: float  # from the beginning to the end


def schedule(
    hours: float, session: Figure | Unstated, weekly: Figure | Unstated, hours_per_day: float | None
) -> Schedule:
    """What it comes to. What a session loses at its beginning is not known, and not counted."""
    each_day = min(_DAY, hours_per_day or _DAY)
    longest = session.value if isinstance(session, Figure) else math.inf
    if hours_per_day is not None and hours_per_day < _DAY:
        longest = min(longest, each_day)
    sessions = _pieces(hours, longest)
    if not isinstance(weekly, Figure):
        return Schedule(sessions, None, _days(hours, each_day))
    a_week = min(weekly.value, _WEEK * each_day)
    weeks = _pieces(hours, a_week)
    rest = hours - (weeks - 1) * a_week
    return Schedule(sessions, weeks, (weeks - 1) * _WEEK + _days(rest, each_day))


def _days(hours: float, each_day: float) -> float:
    """Whole days for all pieces but the last, which needs no more than its hours."""
    before = _pieces(hours, each_day) - 1
    return before + (hours - before * each_day) / _DAY


def _pieces(hours: float, longest: float) -> int:
    # 36 hours are three sessions of 12, however the 36 were computed.
    return max(1, math.ceil(hours / longest - 1e-9))
