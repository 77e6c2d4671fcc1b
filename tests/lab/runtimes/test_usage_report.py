"""Usage by week, person and notebook, from a real store."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable

import pytest

from ownlab.config.limits import Limits
from ownlab.lab.runtimes.records import UsageLine
from ownlab.lab.runtimes.usage_report import usage_report
from ownlab.lab.store.rows import CardRequest, RuntimeRow
from ownlab.lab.store.store import Store

HOUR = 3600.0


@pytest.fixture
def used(store: Store, row: Callable[..., RuntimeRow]) -> Store:
    """Two people, three runtimes, all of them today."""
    for name, person, notebook, cards in (
        ("a", "ann", "train.ipynb", 1.0),
        ("b", "ann", "look.ipynb", 0.0),
        ("c", "bob", "train.ipynb", 0.5),
    ):
        lock = store.hold(name)
        label = "Python 3 (1 × X)" if cards else "Python 3 (CPU)"
        store.enqueue(
            row(
                name,
                person=person,
                notebook=notebook,
                label=label,
                want=CardRequest("X", 1) if cards else CardRequest(),
            )
        )
        store.add_usage(name, 2 * HOUR, 2 * HOUR * cards, 4.0 * cards)
        store.release(name)
        os.close(lock)
    return store


def this_week() -> str:
    year, week, _ = datetime.datetime.now(datetime.timezone.utc).isocalendar()
    return f"{year}-W{week:02d}"


def test_each_person_has_a_total_and_their_notebooks(used: Store) -> None:
    week = this_week()
    report = usage_report(used, 2, Limits(card_seconds_per_week=3 * HOUR))
    assert report.weeks == 2
    assert report.lines == (
        UsageLine(week, "ann", None, None, 4.0, 2.0, 4.0, card_hours_left=1.0),
        UsageLine(week, "ann", "train.ipynb", "Python 3 (1 × X)", 2.0, 2.0, 4.0),
        UsageLine(week, "ann", "look.ipynb", "Python 3 (CPU)", 2.0, 0.0, 0.0),
        UsageLine(week, "bob", None, None, 2.0, 1.0, 2.0, card_hours_left=2.0),
        UsageLine(week, "bob", "train.ipynb", "Python 3 (1 × X)", 2.0, 1.0, 2.0),
    )


def test_without_a_quota_nothing_is_left(used: Store) -> None:
    assert {line.card_hours_left for line in usage_report(used, 1).lines} == {None}


def test_a_quota_applies_to_this_week_only(used: Store) -> None:
    in_a_week = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(weeks=1)
    limits = Limits(card_seconds_per_week=HOUR)
    assert usage_report(used, 1, limits, today=in_a_week).lines == ()
    assert {line.card_hours_left for line in usage_report(used, 2, limits, today=in_a_week).lines} == {None}


def test_an_unused_store(store: Store) -> None:
    assert usage_report(store, 4).lines == ()
