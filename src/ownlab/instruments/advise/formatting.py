"""Ranges as text: one number where both ends read the same, else "3 to 19 h"."""

from __future__ import annotations

from ownlab.instruments.advise.records import Range
from ownlab.text import Template, template, text
from ownlab.units import CURRENCY_SIGNS, format_price, format_seconds

__all__ = ["format_days", "format_hours", "format_money", "format_sessions", "format_units", "format_weeks"]

_DAYS_FROM = 1.5  # shorter times are given in hours


def format_money(cost: Range, currency: str = "USD") -> str:
    """ "$4 to $25"."""
    if cost.high == 0:
        return text("nothing")
    if cost.low == cost.high:
        return format_price(cost.high, currency)
    sign = CURRENCY_SIGNS.get(currency, f"{currency} ")
    low, high = (f"{sign}{_rounded(end, cost):,.10g}" for end in (cost.low, cost.high))
    return low if low == high else text("{low} to {high}", low=low, high=high)


def format_hours(hours: Range) -> str:
    """ "40 h", "3 to 19 h", "20 min to 2 h"."""
    low, high = (_time(end, hours) for end in (hours.low, hours.high))
    if low == high:
        return low
    if low.endswith(" h") and high.endswith(" h"):
        low = low.removesuffix(" h")
    return text("{low} to {high}", low=low, high=high)


def format_days(days: Range) -> str:
    """The time from start to end: "8 days", "9 to 14 h", "5 h to 6.2 days"."""
    if days.high < _DAYS_FROM:
        return format_hours(days.times(24))
    low, high = (f"{end:.1f}".removesuffix(".0") if end < 10 else f"{end:.0f}" for end in (days.low, days.high))
    if days.low < _DAYS_FROM:
        low = _time(days.low * 24, days)
    return text("{days} days", days=high) if low == high else text("{low} to {high} days", low=low, high=high)


def format_sessions(count: Range) -> str:
    """ "1 session", "2 to 5 sessions"."""
    return _count(count, template("1 session"), template("{high} sessions"), template("{low} to {high} sessions"))


def format_weeks(count: Range) -> str:
    """ "1 week", "2 to 5 weeks"."""
    return _count(count, template("1 week"), template("{high} weeks"), template("{low} to {high} weeks"))


def format_units(count: Range) -> str:
    """ "1 unit", "2 to 5 units"."""
    return _count(count, template("1 unit"), template("{high} units"), template("{low} to {high} units"))


def _count(count: Range, one: Template, many: Template, between: Template) -> str:
    low, high = round(count.low), round(count.high)
    return (between if low != high else one if high == 1 else many).fill(low=low, high=high)


def _time(hours: float, precision_of: Range) -> str:
    if hours < 1:
        return format_seconds(_rounded(hours * 3600, precision_of))
    return f"{_rounded(hours, precision_of):,.10g} h"


def _rounded(number: float, precision_of: Range) -> float:
    """Round to what can be known: two digits of an estimate, three of an exact value."""
    digits = 3 if precision_of.low == precision_of.high else 2
    return float(f"{number:.{digits}g}") if number < 10**digits or digits == 2 else float(round(number))
