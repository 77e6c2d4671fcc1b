"""The price comparison of platforms: what the job costs on each offer, in how many sessions, and over how many days."""

from __future__ import annotations

import math
from datetime import date
from typing import NamedTuple

from ownlab.catalog.cards import Figure, Unstated
from ownlab.catalog.platforms import NO_LIMIT, Offer, Platform, is_old
from ownlab.instruments.advise.records import CardAdvice, Question, Range, Rental
from ownlab.text import listing, text

__all__ = ["Schedule", "compare_platforms", "cost_rank", "rejection_of", "schedule"]

_HOURS_PER_DAY = 24
_DAYS_PER_WEEK = 7


def compare_platforms(
    question: Question, platforms: tuple[Platform, ...], cards: dict[str, CardAdvice], today: date
) -> tuple[Rental, ...]:
    """Return all offers whose card holds the job, cheapest first."""
    rentals = [
        _rental(question, offer, cards[offer.card], today)
        for platform in platforms
        for offer in platform.offers
        if platform.alive is not False
        and not offer.gone
        and offer.card in cards
        and not rejection_of(cards[offer.card])
    ]
    timed = question.basis is not None
    return tuple(sorted(rentals, key=lambda rental: cost_rank(rental, cards[rental.card], timed=timed)))


def rejection_of(card: CardAdvice) -> str:
    """Return why the job does not run on a card; "" where it may."""
    if card.refused:
        return card.refused
    if card.fits == "no":
        return text("too small")
    return text("memory size unknown") if card.fits == "unknown" else ""


def cost_rank(rental: Rental, card: CardAdvice, *, timed: bool) -> tuple[int, float]:
    """Return a sort key: free offers first, the faster the better; then by cost; then those that cannot be compared.

    `timed`: the duration of the job is known. Otherwise the cost of the same work stands for the job's cost.
    """
    relative = None if card.speed is None else card.speed.relative
    if rental.free:
        return 0, -(relative or 0.0)
    if rental.currency == "USD" and rental.cost is not None:
        return 1, rental.cost.middle
    if not timed and rental.currency == "USD" and rental.hourly is not None and relative is not None:
        return 1, rental.hourly / relative
    return 2, rental.hourly or 0.0


def _rental(question: Question, offer: Offer, card: CardAdvice, today: date) -> Rental:
    hours, hourly = card.hours, offer.hourly
    sessions, weeks, days = (None, None, None) if hours is None else _schedule_range(question, offer, hours)
    return Rental(
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
        unsure=_unpublished_limits(offer),
        as_of=offer.price.as_of,
        source=offer.price.source,
        old=is_old(offer.price, today) and offer.per != "free",
        region=offer.region,
        note=_note(offer),
    )


def _schedule_range(question: Question, offer: Offer, hours: Range) -> tuple[Range, Range | None, Range]:
    low, high = (
        schedule(end, offer.session_hours, offer.weekly_hours, question.hours_per_day)
        for end in (hours.low, hours.high)
    )
    weeks = None if low.weeks is None or high.weeks is None else Range(low.weeks, high.weeks)
    return Range(low.sessions, high.sessions), weeks, Range(low.days, high.days)


def _unpublished_limits(offer: Offer) -> str:
    limits = (
        ("hours per session: {reason}", offer.session_hours),
        ("hours per week: {reason}", offer.weekly_hours),
    )
    reasons = [
        text(template, reason=limit.reason)
        for template, limit in limits
        if isinstance(limit, Unstated) and limit.reason != NO_LIMIT
    ]
    return listing(reasons, "{items}; {last}") if reasons else ""


def _note(offer: Offer) -> str:
    notes: list[str] = []
    if offer.count > 1 and offer.per == "free":
        notes.append(text("{count} cards are provided, one is used", count=offer.count))
    elif offer.count > 1:
        notes.append(text("{count} cards are paid, one is used", count=offer.count))
    if offer.host_extra:
        notes.append(text("the host costs extra"))
    if offer.note:
        notes.append(offer.note)
    if offer.per == "unit-hour" and isinstance(offer.unit_price, Figure):
        template = "{units:g} units per hour at ${price:.2f} each"
        notes.append(text(template, units=offer.price.value, price=offer.unit_price.value))
    elif offer.per == "unit-hour":
        notes.append(text("{units:g} units per hour", units=offer.price.value))
    return listing(notes, "{items}; {last}") if notes else ""


# --- sessions, weeks and days -----------------------------------------------------------------------------------------


class Schedule(NamedTuple):
    """How the limits of a platform and of its user cut a job."""

    sessions: int
    weeks: int | None  # None: no weekly quota
    days: float  # from start to end


def schedule(
    hours: float, session: Figure | Unstated, weekly: Figure | Unstated, hours_per_day: float | None
) -> Schedule:
    """Cut a job into sessions, days and weeks. The time that a new session takes to set up is unknown and not counted."""
    daily = min(_HOURS_PER_DAY, hours_per_day or _HOURS_PER_DAY)
    longest = session.value if isinstance(session, Figure) else math.inf
    if hours_per_day is not None and hours_per_day < _HOURS_PER_DAY:
        longest = min(longest, daily)
    sessions = _pieces(hours, longest)
    if not isinstance(weekly, Figure):
        return Schedule(sessions, None, _days(hours, daily))
    per_week = min(weekly.value, _DAYS_PER_WEEK * daily)
    weeks = _pieces(hours, per_week)
    rest = hours - (weeks - 1) * per_week
    return Schedule(sessions, weeks, (weeks - 1) * _DAYS_PER_WEEK + _days(rest, daily))


def _days(hours: float, daily: float) -> float:
    """Count whole days for all pieces but the last, which needs only its own hours."""
    before = _pieces(hours, daily) - 1
    return before + (hours - before * daily) / _HOURS_PER_DAY


def _pieces(hours: float, longest: float) -> int:
    # 36 hours are three sessions of 12, whatever rounding error the 36 has.
    return max(1, math.ceil(hours / longest - 1e-9))
