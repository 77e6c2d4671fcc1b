"""How the time of the training thread is divided: phases within phases."""

from __future__ import annotations

import time

import pytest

from ownlab_guest.why.recorder import PHASES, Recorder


@pytest.mark.parametrize(
    ("outer", "inner", "counted"),
    [
        ("log", "sync", "log"),  # printing a tensor waits for it
        ("log", "copy", "log"),
        ("save", "sync", "save"),
        ("save", "log", "save"),
        ("backward", "sync", "sync"),
        ("log", "gc", "gc"),  # wherever it happens
    ],
)
def test_what_is_a_part_of_logging_and_saving(outer: str, inner: str, counted: str) -> None:
    recorder = Recorder(10)
    waiting = recorder.timed(PHASES.index(inner), "inner", lambda: time.sleep(0.02))
    recorder.timed(PHASES.index(outer), "outer", waiting)()
    sums = dict(zip(PHASES, recorder.unfinished(), strict=True))
    assert sums[counted] >= 20_000_000
    assert all(ns < 20_000_000 for name, ns in sums.items() if name not in (counted, "between"))
    assert {what for _, what, _, _ in recorder.calls} == ({"outer"} if counted == outer else {"outer", "inner"})
