"""The guest that measures, as a child process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.instruments.bench.bench_reports import an_h200, lines

from ownlab.errors import DeadlineError, InterpreterError
from ownlab.instruments.bench.measurement import CutOff, ask_events
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


def test_events_come_as_they_were_said(python: str, tmp_path: Path) -> None:
    said: list[Event] = [*an_h200(), Done()]
    (tmp_path / "script").write_text(lines(said))
    assert list(ask_events(Request(), python)) == said


def test_a_guest_that_is_silent_is_ended(python: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(f'{{"do": "wait", "file": "{tmp_path / "waits"}"}}\n')
    with pytest.raises(DeadlineError, match=r"said nothing for 0\.3 s"):
        list(ask_events(Request(), python, silence=0.3))


def test_one_that_never_ends_by_itself_is_ended_too(python: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(f'{{"do": "wait", "file": "{tmp_path / "waits"}"}}\n')
    with pytest.raises(DeadlineError, match="longer than its budget"):
        list(ask_events(Request(budget_seconds=0.1), python, late=0.2))


def test_one_that_ends_too_early_says_how(python: str, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(lines([an_h200()[0]]) + '{"do": "die", "signal": "SIGSEGV", "words": "oh"}\n')
    events = ask_events(Request(), python)
    assert next(events) == an_h200()[0]
    with pytest.raises(CutOff, match=r"died of SIGSEGV before it was done: RuntimeError: oh"):
        next(events)


def test_no_such_python(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="not a Python that can be run"):
        list(ask_events(Request(), os.fspath(tmp_path / "nothing")))
