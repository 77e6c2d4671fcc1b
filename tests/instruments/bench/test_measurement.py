"""The guest that measures, as a child process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.instruments.bench.bench_reports import an_h200, lines

from ownlab.errors import DeadlineError, InterpreterError
from ownlab.instruments.bench.measurement import GuestDied, run_guest
from ownlab.instruments.bench.records import Done, Event, Request

GUEST = Path(__file__).resolve().parents[2] / "fakes" / "bench" / "guest.py"


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scripted guest in place of an interpreter."""
    monkeypatch.setenv("OWNLAB_FAKE_BENCH", str(tmp_path / "script"))
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {GUEST} "$@"\n')
    path.chmod(0o700)
    return str(path)


def test_events_are_passed_on(python: str, tmp_path: Path) -> None:
    events: list[Event] = [*an_h200(), Done()]
    (tmp_path / "script").write_text(lines(events))
    assert list(run_guest(Request(), python)) == events


def test_a_silent_guest_is_stopped(python: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(f'{{"do": "wait", "file": "{tmp_path / "waits"}"}}\n')
    with pytest.raises(DeadlineError, match=r"sent nothing for 0\.3 s"):
        list(run_guest(Request(), python, silence=0.3))


def test_a_guest_beyond_its_budget_is_stopped(python: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(f'{{"do": "wait", "file": "{tmp_path / "waits"}"}}\n')
    with pytest.raises(DeadlineError, match="exceeded its budget"):
        list(run_guest(Request(budget_seconds=0.1), python, late=0.2))


def test_a_guest_that_dies_is_reported(python: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(lines([an_h200()[0]]) + '{"do": "die", "signal": "SIGSEGV", "words": "oh"}\n')
    events = run_guest(Request(), python)
    assert next(events) == an_h200()[0]
    with pytest.raises(GuestDied, match=r"died of SIGSEGV early: RuntimeError: oh"):
        next(events)


def test_a_missing_python_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="Cannot run the Python"):
        list(run_guest(Request(), os.fspath(tmp_path / "nothing")))
