"""The stricter value of each limit applies."""

from __future__ import annotations

from ownlab.config.limits import Limits, stricter


def test_without_a_policy_ones_own_limits_hold() -> None:
    own = Limits(idle=60, session=None)
    assert stricter(own, None) == own
    assert stricter(own, {}) == own


def test_the_stricter_of_each_holds() -> None:
    own = Limits(idle=60, session=7200, card_seconds_per_week=None, warn=30, extend=3600)
    policy = {"idle": 600, "session": 3600, "card_seconds_per_week": 100, "warn": 5, "extend": 0, "on_end": None}
    expected = Limits(idle=60, session=3600, card_seconds_per_week=100, warn=30, extend=0)
    assert stricter(own, policy) == expected
