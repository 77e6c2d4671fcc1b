"""Enforces a runtime's limits: idle time, session length, and the weekly quota of card time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from ownlab.config.limits import Limits
from ownlab.errors import StoreError
from ownlab.lab.runtimes.end_reasons import IDLE, JOB_LIMIT, QUOTA, SESSION, UNATTENDED
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.supervisor.card_probe import CardProbe
from ownlab.lab.supervisor.message_inspector import MessageInspector
from ownlab.lab.supervisor.process_tree import cpu_seconds
from ownlab.lab.supervisor.registration import Registration
from ownlab.lab.supervisor.state_writer import StateWriter, cards_held, log
from ownlab.units import format_seconds

__all__ = ["CpuActivity", "Deadline", "Deadlines", "LimitMonitor"]


class Deadline(NamedTuple):
    """When a limit ends the runtime, on the monotonic clock, and why."""

    at: float
    why: str
    may_extend: bool
    idle: bool = False


# Seconds.
_SAME_END = 3.0


class Deadlines:
    """The deadlines of one runtime, computed from given times of the monotonic clock; it reads no clock itself."""

    def __init__(self, limits: Limits, started: float) -> None:
        self._limits = limits
        self._started = started
        self._not_before = started
        self._quota_ends_at: float | None = None
        self._job_ends_at: float | None = None

    def nearest(self, idle_since: float | None, unattended_since: float | None = None) -> Deadline | None:
        """Return the nearest deadline. `idle_since` is None while the kernel is busy: then idle time does not count.

        `unattended_since`: when the last page was closed; None while one is open, and for a runtime without a card.
        """
        limits, ends = self._limits, []
        extendable = limits.extend > 0
        if limits.idle is not None and idle_since is not None:
            at = max(idle_since + limits.idle, self._not_before)
            why = IDLE.fill(duration=format_seconds(limits.idle))
            ends.append(Deadline(at, why, extendable, idle=True))
        if limits.unattended is not None and idle_since is not None and unattended_since is not None:
            at = max(max(idle_since, unattended_since) + limits.unattended, self._not_before)
            why = UNATTENDED.fill(duration=format_seconds(limits.unattended))
            ends.append(Deadline(at, why, extendable, idle=True))
        if limits.session is not None:
            at = max(self._started + limits.session, self._not_before)
            why = SESSION.fill(duration=format_seconds(limits.session))
            ends.append(Deadline(at, why, extendable))
        if self._quota_ends_at is not None and limits.card_seconds_per_week is not None:
            hours = format_seconds(limits.card_seconds_per_week)
            why = QUOTA.fill(duration=hours)
            ends.append(Deadline(self._quota_ends_at, why, False))
        if self._job_ends_at is not None:
            # Before the cluster does, which may leave on_end less time than it is to have.
            why = JOB_LIMIT.fill()
            ends.append(Deadline(self._job_ends_at - limits.on_end, why, False))
        return min(ends, default=None)

    def set_job_end(self, at: float | None) -> None:
        """Set when the cluster ends the job of this runtime. It is told again and again: small differences are delays."""
        if at is None or self._job_ends_at is None or abs(at - self._job_ends_at) > _SAME_END:
            self._job_ends_at = at

    def warning_time(self, end: Deadline) -> float:
        """When to start warning people."""
        return end.at - self._limits.warn

    def extend(self, idle_since: float | None, unattended_since: float | None = None) -> Deadline | None:
        """Postpone the nearest deadline. None if there is none, or if it cannot be postponed."""
        end = self.nearest(idle_since, unattended_since)
        if end is None or not end.may_extend:
            return None
        self._not_before = end.at + self._limits.extend
        return self.nearest(idle_since, unattended_since)

    def note_weekly_usage(self, now: float, card_seconds_used: float, cards: float) -> None:
        """Note the card time that the user has used this week. This runtime uses `cards` at a time."""
        quota = self._limits.card_seconds_per_week
        if quota is not None and cards > 0:
            self._quota_ends_at = now + max(0.0, quota - card_seconds_used) / cards


# Fraction of one core since the last check: an idle kernel uses less than a tenth of this.
_ACTIVE = 0.05
# Seconds. CPU time is counted in steps of 0.01 s, which is too coarse for shorter intervals.
_MIN_INTERVAL = 0.2


class CpuActivity:
    """Compares the CPU time of a process tree between two checks."""

    def __init__(self, now: float, cpu_seconds: float) -> None:
        self._at = now
        self._cpu_seconds = cpu_seconds

    def is_active(self, now: float, cpu_seconds: float) -> bool:
        """Whether it used more than 5 % of a core since the last check. A process that exits takes its CPU time with it."""
        used, passed = cpu_seconds - self._cpu_seconds, now - self._at
        if passed < _MIN_INTERVAL:
            return False
        self._at, self._cpu_seconds = now, cpu_seconds
        return used > _ACTIVE * passed


# Seconds.
_USAGE_INTERVAL = 60.0  # between two usage entries
_PAGES_INTERVAL = 5.0  # between two looks at whether a page is open
_SETTLED = 1.0  # from the end of a cell to the first check of its processes, so that short cells cost nothing


class LimitMonitor:
    """Watches the limits from the first start of a kernel to the end of the runtime."""

    def __init__(
        self,
        plan: Plan,
        registration: Registration,
        writer: StateWriter,
        probe: CardProbe,
        leased: frozenset[str],
        own_processes: Callable[[], Collection[int]],
        has_pages: Callable[[], bool] = lambda: True,
    ) -> None:
        """`own_processes`: the supervisor's own child processes, which do not count as the kernel's activity.

        `has_pages`: whether a page shows the notebook.
        """
        now = time.monotonic()
        self._has_pages = has_pages
        # Only a runtime with a card is released for want of a page.
        self._watches_pages = plan.limits.unattended is not None and bool(leased)
        self._unattended_since: float | None = None
        self._warned: Deadline | None = None
        self._own_processes = own_processes
        self._plan, self._registration, self._state_writer = plan, registration, writer
        self._probe, self._leased = probe, leased
        self._deadlines = Deadlines(plan.limits, now)
        self._activity: CpuActivity | None = None  # None: the kernel was busy since the last check
        self._worked_at = now  # when background processes were last active
        self._probe_answers: int | None = None
        self._check_interval = min(_USAGE_INTERVAL, (plan.limits.idle or _USAGE_INTERVAL) / 4)
        if self._watches_pages:
            self._check_interval = min(self._check_interval, _PAGES_INTERVAL, (plan.limits.unattended or 0.0) / 4)
        self._check_at = now
        self._usage_at = now
        self._published: Deadline | None = None
        writer.record_usage(now, begin=True)

    def deadline(self, inspector: MessageInspector) -> Deadline | None:
        """The current deadline."""
        return self._deadlines.nearest(self._idle_since(inspector), self._unattended_since)

    def is_warning(self, end: Deadline, now: float) -> bool:
        return now >= self._deadlines.warning_time(end)

    def set_job_end(self, at: float | None) -> None:
        """Set when the cluster ends the job of this runtime, on the monotonic clock; None: it has no time limit."""
        self._deadlines.set_job_end(at)

    def extend(self, inspector: MessageInspector) -> Deadline | None:
        """Postpone the deadline. None if there is none, or if it cannot be postponed."""
        return self._deadlines.extend(self._idle_since(inspector), self._unattended_since)

    def take_warning(self, inspector: MessageInspector, now: float) -> Deadline | None:
        """Return a deadline of which people have to be warned now; each one once."""
        end = self.deadline(inspector)
        if end is None or not self.is_warning(end, now):
            self._warned = None
            return None
        if self._warned is not None and self._warned.why == end.why:
            return None
        self._warned = end
        return end

    def _idle_since(self, inspector: MessageInspector) -> float | None:
        return None if inspector.busy else max(inspector.idle_since, self._worked_at)

    def due(self, inspector: MessageInspector) -> float:
        """When `check` must be called next."""
        times = [self._usage_at]
        if self._checks_activity(inspector):
            times.append(self._check_at)
        if (end := self.deadline(inspector)) and self._probe_answers is None:
            times.append(end.at)
        if end and self._warned is None:
            times.append(self._deadlines.warning_time(end))
        return min(times)

    def check(self, inspector: MessageInspector, now: float) -> Deadline | None:
        """Return the deadline if it has passed."""
        if now >= self._usage_at:
            self._record_usage(now)
        if self._watches_pages:
            self._unattended_since = None if self._has_pages() else self._unattended_since or now
        if inspector.busy:
            self._activity = None
            self._check_at = now + min(_SETTLED, self._check_interval)
        elif self._checks_activity(inspector) and now >= self._check_at:
            self._check_activity(now)
        end = self.deadline(inspector)
        self._publish_deadline(end)
        if end is None or now < end.at:
            self._probe_answers = None
            return None
        return end if not end.idle or self._is_inactive(now) else None

    def _checks_activity(self, inspector: MessageInspector) -> bool:
        return (self._plan.limits.idle is not None or self._watches_pages) and not inspector.busy

    def _check_activity(self, now: float) -> bool:
        self._check_at = now + self._check_interval
        worked = cpu_seconds(os.getpid(), without=self._own_processes())
        if self._activity is None:  # the CPU time of a cell is not background activity
            self._activity = CpuActivity(now, worked)
        elif self._activity.is_active(now, worked):
            self._worked_at = now
            return True
        return False

    def _is_inactive(self, now: float) -> bool:
        """The last check before an idle runtime ends: processes, and cards if it leases any."""
        if self._check_activity(now):
            return False
        if not self._leased:
            return True
        if self._probe_answers is None:
            self._probe_answers = self._probe.answers
            self._probe.start(dict(os.environ))
        if self._probe.due() is not None:
            return False  # the probe has not answered yet
        if self._probe.answers > self._probe_answers and self._probe.working & self._leased:
            self._worked_at = now
            return False
        return True

    def _record_usage(self, now: float) -> None:
        self._usage_at = now + _USAGE_INTERVAL
        self._state_writer.record_usage(now)
        if self._plan.limits.card_seconds_per_week is not None:
            try:
                used = self._registration.card_seconds_this_week()
            except StoreError as exc:
                log(f"this week's usage cannot be read: {exc.message}")
            else:
                self._deadlines.note_weekly_usage(now, used, cards_held(self._plan))

    def _publish_deadline(self, end: Deadline | None) -> None:
        """Show the deadline in the store, as wall-clock time; decisions use the monotonic clock."""
        if end != self._published:
            self._published = end
            at = None if end is None else time.time() + end.at - time.monotonic()
            self._state_writer.update_row(
                ends_at=at, ends_why=end.why if end else "", may_extend=bool(end and end.may_extend)
            )
