"""When a runtime must end: decisions over readings of a clock that never jumps. Reads no clock itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from ownlab.config.limits import Limits
from ownlab.errors import StoreError
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.store.store import Store
from ownlab.lab.supervisor.card_probe import Probe
from ownlab.lab.supervisor.message_inspector import Overheard
from ownlab.lab.supervisor.process_tree import cpu_seconds
from ownlab.lab.supervisor.state_writer import Book, cards_held, say
from ownlab.units import format_seconds

__all__ = ["Activity", "End", "Vigil", "Watch"]


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


# Of one core, over the time since the last look: an idle kernel alone takes less than a tenth of this.
_WORKS = 0.05
# Seconds. The operating system counts CPU time in steps of 0.01 s, which would be all of a shorter time.
_SHORTEST = 0.2


class Activity:
    """Compares what a process tree has worked between two looks."""

    def __init__(self, now: float, cpu_seconds: float) -> None:
        self._at = now
        self._cpu_seconds = cpu_seconds

    def works(self, now: float, cpu_seconds: float) -> bool:
        """Whether more than 5 % of a core was used since the last look. A process that ended takes its sum with it."""
        used, passed = cpu_seconds - self._cpu_seconds, now - self._at
        if passed < _SHORTEST:
            return False
        self._at, self._cpu_seconds = now, cpu_seconds
        return used > _WORKS * passed


# Seconds.
_BEAT = 60.0  # between two entries of use
_SETTLED = 1.0  # after the end of a cell its processes are looked at first, not after each of many short ones


class Vigil:
    """From the first start of a kernel to the runtime's end."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        book: Book,
        probe: Probe,
        leased: frozenset[str],
        ours: Callable[[], Collection[int]],
    ) -> None:
        """`ours`: the supervisor's own processes, whose work is none of the kernel's."""
        now = time.monotonic()
        self._ours = ours
        self._plan, self._store, self._book, self._probe, self._leased = plan, store, book, probe, leased
        self._watch = Watch(plan.limits, now)
        self._activity: Activity | None = None  # None: it was busy since the last look
        self._worked_at = now  # when idle processes were last seen to work
        self._asked: int | None = None
        self._look_every = min(_BEAT, (plan.limits.idle or _BEAT) / 4)
        self._look_at = now
        self._beat_at = now
        self._told: End | None = None
        book.meter(now, begin=True)

    def end(self, overheard: Overheard) -> End | None:
        """When it ends as things stand."""
        return self._watch.end(None if overheard.busy else max(overheard.idle_since, self._worked_at))

    def warned(self, end: End, now: float) -> bool:
        return now >= self._watch.warns_at(end)

    def extend(self, overheard: Overheard) -> End | None:
        """Move the end; None where there is none that may be moved."""
        return self._watch.extend(None if overheard.busy else max(overheard.idle_since, self._worked_at))

    def due(self, overheard: Overheard) -> float:
        """When `check` is to be called next."""
        times = [self._beat_at]
        if self._looks(overheard):
            times.append(self._look_at)
        if (end := self.end(overheard)) and self._asked is None:
            times.append(end.at)
        return min(times)

    def check(self, overheard: Overheard, now: float) -> End | None:
        """The end, where it has come."""
        if now >= self._beat_at:
            self._beat(now)
        if overheard.busy:
            self._activity = None
            self._look_at = now + min(_SETTLED, self._look_every)
        elif self._looks(overheard) and now >= self._look_at:
            self._look(now)
        end = self.end(overheard)
        self._tell(end)
        if end is None or now < end.at:
            self._asked = None
            return None
        return end if not end.idle or self._is_still(now) else None

    def _looks(self, overheard: Overheard) -> bool:
        return self._plan.limits.idle is not None and not overheard.busy

    def _look(self, now: float) -> bool:
        self._look_at = now + self._look_every
        worked = cpu_seconds(os.getpid(), without=self._ours())
        if self._activity is None:  # what a cell has worked is no work of an idle kernel
            self._activity = Activity(now, worked)
        elif self._activity.works(now, worked):
            self._worked_at = now
            return True
        return False

    def _is_still(self, now: float) -> bool:
        """The last look, also at the cards where there is somebody to ask."""
        if self._look(now):
            return False
        if not self._leased:
            return True
        if self._asked is None:
            self._asked = self._probe.answers
            self._probe.ask(dict(os.environ))
        if self._probe.due() is not None:
            return False  # its answer is awaited
        if self._probe.answers > self._asked and self._probe.working & self._leased:
            self._worked_at = now
            return False
        return True

    def _beat(self, now: float) -> None:
        self._beat_at = now + _BEAT
        self._book.meter(now)
        if self._plan.limits.card_seconds_per_week is not None:
            try:
                used = self._store.card_seconds_this_week(os.getuid())
            except StoreError as exc:
                say(f"this week's use cannot be read: {exc.message}")
            else:
                self._watch.note_week(now, used, cards_held(self._plan))

    def _tell(self, end: End | None) -> None:
        """Everyone sees in the store when it ends; on the clock on the wall, which is only for show."""
        if end != self._told:
            self._told = end
            at = None if end is None else time.time() + end.at - time.monotonic()
            self._book.row(ends_at=at, ends_why=end.why if end else "", may_extend=bool(end and end.may_extend))
