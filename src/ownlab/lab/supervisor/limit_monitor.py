"""Watches a runtime's limits: reads the clocks, looks at the process tree, and says when the end has come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection

from ownlab.errors import StoreError
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.store.store import Store
from ownlab.lab.supervisor.activity import Activity
from ownlab.lab.supervisor.card_probe import Probe
from ownlab.lab.supervisor.limits import End, Watch
from ownlab.lab.supervisor.message_inspector import Overheard
from ownlab.lab.supervisor.process_tree import cpu_seconds
from ownlab.lab.supervisor.state_writer import Book, cards_held, say

__all__ = ["Vigil"]

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
