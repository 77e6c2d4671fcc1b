"""When a runtime must end, computed from given times."""

from __future__ import annotations

import pytest

from ownlab.config.limits import Limits
from ownlab.lab.supervisor.limit_monitor import CpuActivity, Deadlines


def test_without_limits_nothing_ends() -> None:
    assert Deadlines(Limits(), 0.0).nearest(idle_since=0.0) is None


def test_idle_time_counts_from_the_last_activity_and_never_while_busy() -> None:
    deadlines = Deadlines(Limits(idle=5400), 1000.0)

    end = deadlines.nearest(idle_since=2000.0)
    assert end is not None
    assert (end.at, end.why, end.may_extend, end.idle) == (7400.0, "after 1 h 30 min idle", True, True)
    assert deadlines.nearest(idle_since=None) is None


def test_a_card_is_released_only_if_it_is_idle_and_nobody_looks() -> None:
    deadlines = Deadlines(Limits(unattended=600), 1000.0)

    assert deadlines.nearest(idle_since=1000.0) is None  # a page is open
    assert deadlines.nearest(idle_since=None, unattended_since=1000.0) is None  # it works
    for idle, left in ((2000.0, 2500.0), (2500.0, 2000.0)):
        end = deadlines.nearest(idle_since=idle, unattended_since=left)
        assert end is not None
        assert (end.at, end.why, end.idle) == (3100.0, "after 10 min idle with no page open", True)


def test_a_session_ends_busy_or_not() -> None:
    deadlines = Deadlines(Limits(session=12 * 3600), 1000.0)

    end = deadlines.nearest(idle_since=None)
    assert end is not None
    assert (end.at, end.why) == (1000.0 + 12 * 3600, "sessions end after 12 h")
    assert deadlines.warning_time(end) == end.at - 600


def test_the_nearest_deadline_counts_and_an_extension_postpones_it() -> None:
    deadlines = Deadlines(Limits(idle=100, session=1000, extend=300), 0.0)

    assert deadlines.extend(idle_since=50.0)
    end = deadlines.nearest(idle_since=50.0)
    assert end is not None
    assert end.at == 450.0
    end = deadlines.nearest(idle_since=600.0)  # it worked again: the usual time from then on
    assert end is not None
    assert end.at == 700.0
    assert deadlines.extend(idle_since=None)
    end = deadlines.nearest(idle_since=None)
    assert end is not None
    assert end.at == 1300.0


@pytest.mark.parametrize("limits", [Limits(), Limits(session=1000, extend=0)])
def test_without_permission_there_is_no_extension(limits: Limits) -> None:
    assert Deadlines(limits, 0.0).extend(idle_since=None) is None


def test_an_exhausted_quota_ends_it_and_cannot_be_extended() -> None:
    deadlines = Deadlines(Limits(card_seconds_per_week=3600), 0.0)

    deadlines.note_weekly_usage(now=10.0, card_seconds_used=3000.0, cards=0.5)
    end = deadlines.nearest(idle_since=None)
    assert end is not None
    assert (end.at, end.why) == (10.0 + 1200.0, "this week's 1 h of card time are used up")
    assert deadlines.extend(idle_since=None) is None
    deadlines.note_weekly_usage(now=20.0, card_seconds_used=9000.0, cards=0.5)
    assert deadlines.nearest(idle_since=None) == end._replace(at=20.0)


def test_the_end_of_a_job_leaves_time_to_save() -> None:
    deadlines = Deadlines(Limits(session=1000, on_end=30.0, extend=300), 0.0)
    deadlines.set_job_end(500.0)
    end = deadlines.nearest(idle_since=None)
    assert end is not None
    assert (end.at, end.may_extend) == (470.0, False)
    assert "Slurm job" in end.why
    deadlines.set_job_end(501.0)  # it came later through the network
    assert deadlines.nearest(idle_since=None) == end
    deadlines.set_job_end(800.0)  # an administrator gave it more time
    assert deadlines.nearest(idle_since=None) == end._replace(at=770.0)
    deadlines.set_job_end(None)
    end = deadlines.nearest(idle_since=None)
    assert end is not None
    assert (end.at, end.may_extend) == (1000.0, True)


def test_a_cpu_runtime_uses_no_quota() -> None:
    deadlines = Deadlines(Limits(card_seconds_per_week=3600), 0.0)
    deadlines.note_weekly_usage(now=10.0, card_seconds_used=3600.0, cards=0.0)
    assert deadlines.nearest(idle_since=None) is None


def test_activity_is_more_than_a_twentieth_of_a_core() -> None:
    activity = CpuActivity(now=0.0, cpu_seconds=100.0)

    assert not activity.is_active(now=60.0, cpu_seconds=102.0)
    assert activity.is_active(now=120.0, cpu_seconds=106.0)
    assert not activity.is_active(now=180.0, cpu_seconds=90.0)  # a process has ended, and its sum with it
    assert not activity.is_active(now=180.1, cpu_seconds=90.01)  # one tick of the clock is not work
    assert activity.is_active(now=181.0, cpu_seconds=90.5)
