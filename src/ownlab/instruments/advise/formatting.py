"""Spans in words: one figure where both ends read the same, else both."""

from __future__ import annotations

from ownlab.instruments.advise.records import Span, Stay
from ownlab.units import CURRENCY_SIGNS, format_price, format_seconds

__all__ = ["count_words", "days_words", "hours_words", "money_words", "where_words"]

_DAYS_FROM = 1.5


def money_words(cost: Span, currency: str = "USD") -> str:
    """ "$4 to $25"."""
    if cost.high == 0:
        return "nothing"
    if cost.low == cost.high:
        return format_price(cost.high, currency)
    sign = CURRENCY_SIGNS.get(currency, f"{currency} ")
    low, high = (_rounded(end, cost) for end in (cost.low, cost.high))
    return f"{sign}{low:,.10g}" if low == high else f"{sign}{low:,.10g} to {sign}{high:,.10g}"


def hours_words(hours: Span) -> str:
    """ "40 h", "3 to 19 h", "20 min to 2 h"."""
    low, high = (_time(end, hours) for end in (hours.low, hours.high))
    if low == high:
        return low
    return f"{low.removesuffix(' h')} to {high}" if low.endswith(" h") and high.endswith(" h") else f"{low} to {high}"


def days_words(days: Span) -> str:
    """From the beginning to the end: "8 days", "9 to 14 h", "5 h to 6.2 days"."""
    if days.high < _DAYS_FROM:
        return hours_words(days.times(24))
    low, high = (f"{end:.1f}".removesuffix(".0") if end < 10 else f"{end:.0f}" for end in (days.low, days.high))
    if days.low < _DAYS_FROM:
        low = _time(days.low * 24, Span(days.low, days.high))
    return f"{high} days" if low == high else f"{low} to {high} days"


def count_words(count: Span, one: str) -> str:
    """ "1 session", "2 to 5 sessions"."""
    low, high = round(count.low), round(count.high)
    plural = one if high == 1 else f"{one}s"
    return f"{high} {plural}" if low == high else f"{low} to {high} {plural}"


def where_words(stay: Stay) -> str:
    """ "RunPod secure"."""
    return f"{stay.platform} {stay.offer}"


def _time(hours: float, span: Span) -> str:
    if hours < 1:
        return format_seconds(_rounded(hours * 3600, span))
    return f"{_rounded(hours, span):,.10g} h"


def _rounded(number: float, span: Span) -> float:
    """To what can be known: two figures of an estimate, three of what was told."""
    figures = 3 if span.low == span.high else 2
    return float(f"{number:.{figures}g}") if number < 10**figures or figures == 2 else float(round(number))
