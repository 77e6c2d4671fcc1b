"""The usage report: by week and person, and by notebook."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from ownlab.config.limits import Limits
from ownlab.lab.runtimes.records import Usage, UsageLine
from ownlab.lab.store.locks_only import AnyStore
from ownlab.lab.store.rows import UsageRow

__all__ = ["usage_report"]

_HOUR = 3600.0


def usage_report(
    store: AnyStore, weeks: int = 4, limits: Limits | None = None, *, today: datetime.date | None = None
) -> Usage:
    """Report the last `weeks` weeks (UTC) including this one, newest first: each person's total, then their notebooks.

    With a quota in `limits`, the rest of this week's is included.
    """
    today = today or datetime.datetime.now(datetime.timezone.utc).date()
    monday = today - datetime.timedelta(days=today.weekday(), weeks=max(1, weeks) - 1)
    quota = None if limits is None else limits.card_seconds_per_week
    by_person: dict[tuple[str, str], list[UsageRow]] = {}
    for row in store.usage(monday.isoformat()):
        by_person.setdefault((_week(datetime.date.fromisoformat(row.day)), row.person), []).append(row)
    lines = []
    # Newest week first; within a week, the highest use of cards first.
    for week, person in sorted(by_person, key=lambda key: (key[0], _card_hours(by_person[key])), reverse=True):
        rows = by_person[week, person]
        left = None
        if quota is not None and week == _week(today):
            left = max(0.0, quota / _HOUR - _card_hours(rows))
        lines.append(_line(week, person, None, None, rows, left))
        lines.extend(_notebooks(week, person, rows))
    return Usage(weeks=max(1, weeks), lines=tuple(lines))


def _notebooks(week: str, person: str, rows: Iterable[UsageRow]) -> list[UsageLine]:
    groups: dict[tuple[str, str], list[UsageRow]] = {}
    for row in rows:
        groups.setdefault((row.notebook, row.label), []).append(row)
    lines = [_line(week, person, notebook, label, group, None) for (notebook, label), group in groups.items()]
    return sorted(lines, key=lambda line: (-line.card_hours, -line.hours, line.notebook or "", line.label or ""))


def _line(
    week: str, person: str, notebook: str | None, label: str | None, rows: list[UsageRow], left: float | None
) -> UsageLine:
    return UsageLine(
        week=week,
        person=person,
        notebook=notebook,
        label=label,
        hours=sum(row.seconds for row in rows) / _HOUR,
        card_hours=_card_hours(rows),
        units=sum(row.units for row in rows),
        card_hours_left=left,
    )


def _card_hours(rows: list[UsageRow]) -> float:
    return sum(row.card_seconds for row in rows) / _HOUR


def _week(day: datetime.date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02d}"
