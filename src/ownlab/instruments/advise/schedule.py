"""A job of so many hours, cut into sessions, days and weeks as a platform and its user allow."""

from __future__ import annotations

import math
from typing import NamedTuple

from ownlab.catalog.cards import Figure, Unstated

__all__ = ["Schedule", "schedule"]

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
