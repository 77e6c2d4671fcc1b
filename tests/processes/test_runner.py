"""Programs that end, fail, hang, or are not there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ownlab.errors import DeadlineError
from ownlab.processes import runner


def script(folder: Path, text: str) -> str:
    path = folder / "tool"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    ran = runner.run([script(tmp_path, "echo out; echo err >&2; exit 3")], deadline=10)
    assert (ran.returncode, ran.stdout, ran.stderr, ran.output) == (3, "out\n", "err\n", "out\nerr")


def test_nothing_is_sent(tmp_path: Path) -> None:
    assert runner.run(["cat"], deadline=10).stdout == ""


def test_a_program_that_prints_for_ever_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DeadlineError, match="printed more than 64 MiB"):
        runner.run(["yes"], deadline=60)


def test_a_grandchild_that_keeps_the_pipe_open_is_not_waited_for_longer_than_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(DeadlineError):
        runner.run([script(tmp_path, "sleep 600 & echo done")], deadline=0.5)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    tool = script(tmp_path, f"sleep 600 & echo $$ $! > {pids}; wait")
    with pytest.raises(DeadlineError, match=r"did not answer in 0.5 s"):
        runner.run([tool], deadline=0.5)
    for pid in pids.read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().split()[2] in "ZX"


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(runner.ToolMissing, match="no-such-tool is not installed"):
        runner.run(["no-such-tool"], deadline=1)


def test_a_file_that_cannot_be_executed_is_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF not really")
    broken.chmod(0o755)
    with pytest.raises(runner.ToolMissing, match="cannot be started"):
        runner.run([str(broken)], deadline=1)


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    ran = runner.run([sys.executable, "-c", "import os; os.write(1, b'\\xff\\xfe ok')"], deadline=10)
    assert ran.stdout.endswith(" ok")


@pytest.mark.parametrize(
    ("code", "words"), [(0, "ended with exit code 0"), (-11, "died of SIGSEGV"), (-99, "died of signal 99")]
)
def test_exit_codes_and_signals_are_described(code: int, words: str) -> None:
    assert runner.describe_exit(code) == words


def test_no_child_is_left_in_the_list() -> None:
    runner.run(["true"], deadline=10)
    assert not runner._alive


def test_at_our_end_no_child_is_started_any_more() -> None:
    """A thread may go on for a moment after the children were ended."""
    script = (
        "import os\nfrom ownlab.errors import DeadlineError\nfrom ownlab.processes import runner\nrunner._end_all()\n"
        "try:\n    runner.run(['sleep', '60'], deadline=60)\n"
        "except DeadlineError as exc:\n    print(exc.message, runner._alive)\n"
    )
    ran = runner.run([sys.executable, "-c", script], deadline=30)
    assert ran.stdout == "sleep was not started: the program is ending set()\n"
