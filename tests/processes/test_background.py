"""Calls beside us: their results, their failures, and those that never end."""

from __future__ import annotations

import threading

import pytest

from ownlab.errors import DeadlineError
from ownlab.processes.background import BackgroundCall


def test_what_was_returned_and_what_was_raised() -> None:
    assert BackgroundCall(lambda: 3).result(within=10) == 3
    with pytest.raises(ZeroDivisionError):
        BackgroundCall(lambda: 1 // 0).result()


def test_one_that_hangs_is_given_up_and_may_end_later() -> None:
    end = threading.Event()
    call = BackgroundCall(lambda: end.wait(60))
    with pytest.raises(DeadlineError, match=r"no answer in 0.05 s"):
        call.result(within=0.05)
    end.set()
    assert call.result(within=10) is True
