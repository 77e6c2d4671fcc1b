"""Guest code in an interpreter: its answer, its noise, its crash, its absence."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from ownlab.errors import DeadlineError, InterpreterError
from ownlab.guest_client import GuestCrashed, ask, last_line
from ownlab.machine.records import Framework


class Version(Struct):
    version: str


class Failure(Struct):
    error: str


def python(folder: Path, text: str) -> str:
    """An interpreter of our own making: a script that stands where a Python should."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(InterpreterError, match=r"Cannot run /no/python as Python"):
        ask("/no/python", "probe.packages", answer=Version, deadline=5)


def test_an_interpreter_that_dies(tmp_path: Path) -> None:
    with pytest.raises(GuestCrashed, match="died of SIGSEGV") as caught:
        ask(python(tmp_path, "echo trouble >&2; kill -SEGV $$"), "probe.packages", answer=Version, deadline=5)
    assert caught.value.stderr == "trouble\n"


def test_an_interpreter_that_answers_something_else(tmp_path: Path) -> None:
    with pytest.raises(GuestCrashed, match="ended with exit code 0 without a valid answer"):
        ask(python(tmp_path, "echo '{}'"), "probe.packages", answer=Version, deadline=5)


def test_an_interpreter_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match=r"did not answer in 0.3 s"):
        ask(python(tmp_path, "sleep 600"), "probe.packages", answer=Version, deadline=0.3)


def test_an_interpreter_that_prints_for_ever_is_not_reported_as_silent(tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match=r"probe\.packages in .*: python printed more than 64 MiB"):
        ask(python(tmp_path, "exec yes"), "probe.packages", answer=Version, deadline=60)


def test_a_module_that_does_not_exist_shows_its_error() -> None:
    with pytest.raises(GuestCrashed, match=r"No module named 'ownlab_guest.nothing'"):
        ask(sys.executable, "nothing", answer=Version, deadline=20)


def test_what_is_printed_does_not_spoil_the_answer(tmp_path: Path) -> None:
    noisy = tmp_path / "sitecustomize.py"
    noisy.write_text("import os\nos.write(2, b'noise')\n")
    answered = ask(sys.executable, "probe.packages", answer=Version, deadline=20, env={"PYTHONPATH": str(tmp_path)})
    assert answered.version.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")


def test_the_last_line_is_the_one_that_speaks() -> None:
    assert last_line("Traceback\n  File\nImportError: no\n\n") == "ImportError: no"
    assert last_line("") == ""


def test_an_answer_that_is_no_json_is_a_failure_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(GuestCrashed, match="without a valid answer: JSON is malformed: invalid utf-16 surrogate"):
        ask(python(tmp_path, """echo '{"version": "\\\\udcff"}'"""), "probe.packages", answer=Version, deadline=5)


def test_names_that_are_no_utf_8_do_not_spoil_the_answer(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no \\udcff')")
    answered = ask(
        sys.executable, "probe.frameworks", ["torch"], answer=Framework, deadline=20, env={"PYTHONPATH": str(tmp_path)}
    )
    assert answered.error == "ImportError: no ?"


def test_a_guest_would_end_without_us(tmp_path: Path) -> None:
    """Whatever it loads finds the alarm set, and the deadline gone from the environment."""
    look = "import os, signal\nraise ImportError(f'{signal.getitimer(0)[0]:.0f} s, {os.getenv(\"OWNLAB_GUEST_SECONDS\")}')\n"
    for name in ("torch", "pynvml"):
        (tmp_path / f"{name}.py").write_text(look)
    env = {"PYTHONPATH": str(tmp_path)}
    for module, arguments in (("probe.frameworks", ["torch"]), ("probe.nvml", [])):
        answered = ask(sys.executable, module, arguments, answer=Failure, deadline=60, env=env)
        assert re.search(r"6\d s, None$", answered.error)
