"""The price comparison of platforms: what the job costs on each offer, in how many sessions, and over how many days."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from ownlab.catalog.cards import Figure, Unstated
from ownlab.catalog.platforms import Offer, Platform, is_old, is_unlimited
from ownlab.instruments.advise.records import CardAdvice, Question, Range, Rental
from ownlab.text import facts, template, text

__all__ = ["Schedule", "compare_platforms", "compared_currency", "cost_rank", "rejection_of", "schedule"]

_HOURS_PER_DAY = 24
_DAYS_PER_WEEK = 7
_DAYS_PER_MONTH = 30  # for which a subscription is paid


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
        and offer.count >= question.count
        and offer.card in cards
        and not rejection_of(cards[offer.card])
        and not _exceeds_total(offer, cards[offer.card].hours)
    ]
    timed = question.basis is not None
    currency = compared_currency(rentals)
    return tuple(
        sorted(rentals, key=lambda rental: cost_rank(rental, cards[rental.card], timed=timed, currency=currency))
    )


def compared_currency(rentals: Iterable[Rental]) -> str:
    """Return the currency in which offers are compared: dollars, or that of all offers where none is in dollars."""
    currencies = {rental.currency for rental in rentals if not rental.free}
    return currencies.pop() if len(currencies) == 1 else "USD"


def _exceeds_total(offer: Offer, hours: Range | None) -> bool:
    """Whether a job may need more free hours than the platform ever gives."""
    return hours is not None and isinstance(offer.total_hours, Figure) and hours.high > offer.total_hours.value


def rejection_of(card: CardAdvice) -> str:
    """Return why the job does not run on a card; "" where it may."""
    if card.refused:
        return card.refused
    if card.fits == "no":
        return text("too small")
    return text("memory size unknown") if card.memory_bytes is None and card.fits == "unknown" else ""


def cost_rank(rental: Rental, card: CardAdvice, *, timed: bool, currency: str) -> tuple[int, float]:
    """Return a sort key: free offers first, the faster the better; then by cost; then those in other currencies; then the rest.

    `timed`: the duration of the job is known. Otherwise the cost of the same work stands for the job's cost.
    """
    relative = None if card.speed is None else card.speed.relative
    if rental.free:
        return 0, -(relative or 0.0)
    if rental.currency == currency and rental.cost is not None:
        return 1, rental.cost.middle
    if not timed and rental.currency == currency and rental.hourly is not None and relative is not None:
        return 1, rental.hourly / relative
    if rental.cost is not None:
        return 2, rental.cost.middle
    return 3, rental.hourly or 0.0


def _rental(question: Question, offer: Offer, card: CardAdvice, today: date) -> Rental:
    hours, hourly = card.hours, offer.hourly
    sessions, weeks, days = (None, None, None) if hours is None else _schedule_range(question, offer, hours)
    months = None if days is None else Range(_pieces(days.low, _DAYS_PER_MONTH), _pieces(days.high, _DAYS_PER_MONTH))
    plan = None if months is None else _plan_cost(offer, months)
    return Rental(
        platform=offer.platform,
        offer=offer.name,
        card=offer.card,
        count=offer.count,
        fits="yes" if card.fits == "yes" else "tight",
        hourly=hourly,
        currency=offer.currency,
        hours=hours,
        cost=None if hours is None or hourly is None else _cost(offer, hours.times(hourly), plan, months),
        units=hours.times(offer.price.value) if hours is not None and offer.per == "unit-hour" else None,
        sessions=sessions,
        weeks=weeks,
        days=days,
        checkpoints=sessions is not None and sessions.high > 1,
        unsure=_unpublished_limits(offer, hours),
        as_of=offer.price.as_of,
        source=offer.price.source,
        old=is_old(offer.price, today) and offer.per != "free",
        region=offer.region,
        note=_note(offer, question.count),
        plan=offer.plan,
        plan_cost=plan,
    )


def _plan_cost(offer: Offer, months: Range) -> Range | None:
    """Return what the subscription costs that an offer needs; None: it needs none."""
    if not isinstance(offer.plan_usd, Figure):
        return None
    most = offer.plan_usd_most if isinstance(offer.plan_usd_most, Figure) else offer.plan_usd
    return Range(offer.plan_usd.value * months.low, most.value * months.high)


def _cost(offer: Offer, usage: Range, plan: Range | None, months: Range | None) -> Range:
    """Add the subscription; the units that it includes are not paid again."""
    if plan is None or months is None:
        return usage
    unit = offer.unit_price.value if isinstance(offer.unit_price, Figure) else 0.0
    included = offer.plan_units * unit
    low, high = (
        max(0.0, end - included * count)
        for end, count in zip((usage.low, usage.high), (months.low, months.high), strict=True)
    )
    return Range(plan.low + low, plan.high + high)


def _schedule_range(question: Question, offer: Offer, hours: Range) -> tuple[Range, Range | None, Range]:
    # Where sources disagree about a daily limit, the shortest schedule has the most of it, the longest the least. A lock-out
    # may or may not follow a session.
    least = _value(offer.daily_hours)
    most = _value(offer.daily_hours_most) or least
    low = schedule(hours.low, offer.session_hours, offer.weekly_hours, question.hours_per_day, daily_quota=most)
    high = schedule(
        hours.high,
        offer.session_hours,
        offer.weekly_hours,
        question.hours_per_day,
        daily_quota=least,
        lockout=_value(offer.lockout_hours) or 0.0,
    )
    weeks = None if low.weeks is None or high.weeks is None else Range(low.weeks, high.weeks)
    return Range(low.sessions, high.sessions), weeks, Range(low.days, high.days)


def _value(limit: Figure | Unstated) -> float | None:
    return limit.value if isinstance(limit, Figure) else None


def _unpublished_limits(offer: Offer, hours: Range | None) -> str:
    limits = (
        (template("hours per session: {reason}"), offer.session_hours),
        (template("hours per week: {reason}"), offer.weekly_hours),
    )
    reasons = [
        message.fill(reason=limit.reason)
        for message, limit in limits
        if isinstance(limit, Unstated) and not is_unlimited(limit)
    ]
    total = _value(offer.total_hours)
    if total is not None and hours is None:
        reasons.append(text("the {total:g} free hours, which are not renewed, may not be enough", total=total))
    return facts(*reasons, separator="; ") if reasons else ""


def _note(offer: Offer, used: int) -> str:
    notes: list[str] = []
    if offer.count > used > 1:
        notes.append(text("{count} cards are paid or provided, {used} are used", count=offer.count, used=used))
    elif offer.count == used:
        pass
    elif offer.count > 1 and offer.per == "free":
        notes.append(text("{count} cards are provided, one is used", count=offer.count))
    elif offer.count > 1:
        notes.append(text("{count} cards are paid, one is used", count=offer.count))
    if offer.host_extra:
        notes.append(text("the host costs extra"))
    if offer.note:
        notes.append(offer.note)
    if offer.per == "unit-hour" and isinstance(offer.unit_price, Figure):
        notes.append(
            text("{units:g} units per hour at ${price:.2f} each", units=offer.price.value, price=offer.unit_price.value)
        )
    elif offer.per == "unit-hour":
        notes.append(text("{units:g} units per hour", units=offer.price.value))
    return facts(*notes, separator="; ") if notes else ""


# --- sessions, weeks and days -----------------------------------------------------------------------------------------


class Schedule(NamedTuple):
    """How the limits of a platform and of its user cut a job."""

    sessions: int
    weeks: int | None  # None: no weekly quota
    days: float  # from start to end


def schedule(
    hours: float,
    session: Figure | Unstated,
    weekly: Figure | Unstated,
    hours_per_day: float | None,
    *,
    daily_quota: float | None = None,
    lockout: float = 0.0,
) -> Schedule:
    """Cut a job into sessions, days and weeks. The time that a new session takes to set up is unknown and not counted.

    `daily_quota`: hours that the platform gives each day. `lockout`: hours for which it refuses a card after a session.
    """
    daily = min(_HOURS_PER_DAY, hours_per_day or _HOURS_PER_DAY, daily_quota or _HOURS_PER_DAY)
    longest = session.value if isinstance(session, Figure) else math.inf
    if daily < _HOURS_PER_DAY:
        longest = min(longest, daily)
    sessions = _pieces(hours, longest)
    if not isinstance(weekly, Figure):
        refused = (hours + (sessions - 1) * lockout) / _HOURS_PER_DAY
        return Schedule(sessions, None, max(_days(hours, daily), refused))
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
