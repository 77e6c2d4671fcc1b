"""When a runtime must end: decisions over readings of a clock that never jumps. Reads no clock itself."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.config.limits import Limits
from ownlab.units import format_seconds

__all__ = ["End", "Watch"]


class End(NamedTuple):
    """When it ends as things stand, on the monotonic clock, and why."""

    at: float
    why: str
    may_extend: bool
    idle: bool = False


class Watch:
    """The limits of one runtime. Every time is of the monotonic clock."""

    def __init__(self, limits: Limits, started: float) -> None:
        self._limits = limits
        self._started = started
        self._not_before = started
        self._spent_at: float | None = None

    def end(self, idle_since: float | None) -> End | None:
        """The nearest end. `idle_since` None: it is busy, and no idleness ends it."""
        limits, ends = self._limits, []
        extendable = limits.extend > 0
        if limits.idle is not None and idle_since is not None:
            at = max(idle_since + limits.idle, self._not_before)
            ends.append(End(at, f"after {format_seconds(limits.idle)} idle", extendable, idle=True))
        if limits.session is not None:
            at = max(self._started + limits.session, self._not_before)
            ends.append(End(at, f"sessions end after {format_seconds(limits.session)}", extendable))
        if self._spent_at is not None and limits.card_seconds_per_week is not None:
            hours = format_seconds(limits.card_seconds_per_week)
            ends.append(End(self._spent_at, f"this week's {hours} of card time are spent", False))
        return min(ends, default=None)

    def warns_at(self, end: End) -> float:
        """From then on people are told."""
        return end.at - self._limits.warn

    def extend(self, idle_since: float | None) -> End | None:
        """Move the nearest end; None where there is none, or where it may not be moved."""
        end = self.end(idle_since)
        if end is None or not end.may_extend:
            return None
        self._not_before = end.at + self._limits.extend
        return self.end(idle_since)

    def note_week(self, now: float, card_seconds_used: float, cards: float) -> None:
        """The person's use of cards in this week, all runtimes together; this one uses `cards` of them at a time."""
        quota = self._limits.card_seconds_per_week
        if quota is not None and cards > 0:
            self._spent_at = now + max(0.0, quota - card_seconds_used) / cards
