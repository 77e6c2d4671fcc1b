"""Calls that return, fail, or never return."""

from __future__ import annotations

import threading
import time

from ownlab.machine.files import call_all


def test_several_hanging_calls_take_one_deadline() -> None:
    never = threading.Event()

    def hang() -> str:
        never.wait(60)
        return "late"

    def refuse() -> str:
        raise PermissionError(13, "Permission denied")

    start = time.monotonic()
    answers = call_all({"hangs": hang, "hangs too": hang, "refuses": refuse, "answers": lambda: "here"}, deadline=1.0)
    took = time.monotonic() - start
    never.set()
    assert set(answers) == {"refuses", "answers"}
    assert answers["answers"] == "here"
    assert isinstance(answers["refuses"], PermissionError)
    assert 1.0 <= took < 30  # not the 60 s of a call that hangs
