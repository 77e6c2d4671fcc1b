"""The command line from outside: real processes, real pipes, real terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import msgspec
import pytest

from ownlab.cli.main import COMMANDS
from ownlab.machine.recorded import load_machine
from ownlab.show.document import RECORDS, schema_of

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
H200 = str(ROOT / "tests" / "machines" / "h200.json")
Ownlab = Callable[..., "subprocess.CompletedProcess[str]"]


def on_a_terminal(arguments: Sequence[str], columns: int, env: dict[str, str] | None = None) -> str:
    """What a person sees in a terminal of this width."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ownlab", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **(env or {})},
    )
    os.close(child)
    seen = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the other end is closed: Linux says so with EIO
            break
        if not part:
            break
        seen += part
    os.close(parent)
    process.wait()
    return seen.decode().replace("\r\n", "\n")


def test_help_lists_every_command_under_its_question(ownlab: Ownlab) -> None:
    shown = ownlab("--help").stdout
    for name, entry in COMMANDS.items():
        assert entry.question in shown
        assert re.search(rf"^  {name} +{re.escape(entry.summary)}$", shown, re.MULTILINE)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(name: str, ownlab: Ownlab) -> None:
    ran = ownlab(name, "--help")
    assert ran.returncode == 0
    assert "--json" in ran.stdout


def test_without_arguments_there_is_help(ownlab: Ownlab) -> None:
    ran = ownlab()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "doctor" in ran.stdout


def test_a_misspelt_command_is_answered_with_the_nearest(ownlab: Ownlab) -> None:
    ran = ownlab("docter")
    assert ran.returncode == 2
    assert "Did you mean: ownlab doctor?" in ran.stderr


@pytest.mark.parametrize("arguments", [("doctor", "--nope"), ("machine", "extra"), ("completion", "tcsh")])
def test_wrong_use_is_exit_code_2(arguments: tuple[str, ...], ownlab: Ownlab) -> None:
    assert ownlab(*arguments).returncode == 2


def test_results_go_to_stdout_and_nothing_else_does(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--machine", H200, "--json")
    assert json.loads(ran.stdout)["verdict"]["gpu_work"] == "yes"
    assert ran.stderr == ""


@pytest.mark.parametrize("name", ["doctor", "machine"])
def test_documents_follow_their_schema(name: str, ownlab: Ownlab) -> None:
    document = json.loads(ownlab(name, "--machine", H200, "--json").stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{name}.json").read_text()))


@pytest.mark.parametrize("name", RECORDS)
def test_generated_schemas_are_those_of_the_records(name: str) -> None:
    path = SCHEMAS / f"{name}.json"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(schema_of(RECORDS[name]))
    assert path.read_bytes() == schema_of(RECORDS[name])


def test_a_pipe_that_closes_early_is_no_error() -> None:
    line = f"{sys.executable} -m ownlab machine --machine {H200} | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("Machine, live")
    assert ran.stderr == ""


def test_a_pipe_gets_no_colour_and_whole_lines(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--machine", H200)
    assert "\x1b" not in ran.stdout
    assert "GPU work will run: 1 × NVIDIA H200" in ran.stdout.splitlines()[0]


def test_a_terminal_gets_colour_unless_told_not_to() -> None:
    colour = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7])m")  # bold and dim are no colours
    assert colour.search(on_a_terminal(["doctor", "--machine", H200], 80))
    assert not colour.search(on_a_terminal(["doctor", "--machine", H200], 80, {"NO_COLOR": "1"}))


@pytest.mark.parametrize("columns", [30, 60, 80, 132])
@pytest.mark.parametrize("name", ["doctor", "machine"])
def test_no_line_is_wider_than_the_terminal(name: str, columns: int) -> None:
    shown = re.sub(r"\x1b\[[\d;]*m", "", on_a_terminal([name, "--machine", H200], columns))
    words = re.compile(rf"\S{{{columns - 26},}}")  # a path or UUID that is longer than a line cannot be kept in one
    assert [line for line in shown.splitlines() if len(line) > columns and not words.search(line)] == []


def test_a_saved_machine_stands_in_for_the_real_one(tmp_path: Path, ownlab: Ownlab) -> None:
    copy = tmp_path / "copy.json"
    ran = ownlab("machine", "--machine", H200, "--save", str(copy))
    assert ran.returncode == 0
    assert "Saved to" in ran.stderr
    assert load_machine(copy) == load_machine(H200)
    named = ownlab("machine", "--json", env={"OWNLAB_MACHINE": str(copy)})
    assert msgspec.json.decode(named.stdout) == json.loads(copy.read_text())


def test_an_error_says_what_it_means_and_what_to_do(tmp_path: Path, ownlab: Ownlab) -> None:
    (tmp_path / "m.json").write_text("{")
    ran = ownlab("machine", "--machine", str(tmp_path / "m.json"))
    assert ran.returncode == 3
    assert "is not a saved machine" in ran.stderr
    assert "The file was cut" in ran.stderr
    assert "ownlab machine --save" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_error_is_a_document_too(tmp_path: Path, ownlab: Ownlab) -> None:
    ran = ownlab("machine", "--json", "--machine", str(tmp_path / "none.json"))
    assert json.loads(ran.stdout)["error"]["kind"] == "InputError"
    assert json.loads(ran.stdout)["error"]["exit_code"] == ran.returncode == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, ownlab: Ownlab) -> None:
    assert "_OWNLAB_COMPLETE" in ownlab("completion", shell).stdout


def test_a_shell_completes_our_commands(ownlab: Ownlab) -> None:
    ran = ownlab(env={"_OWNLAB_COMPLETE": "bash_complete", "COMP_WORDS": "ownlab do", "COMP_CWORD": "1"})
    assert ran.stdout.splitlines() == ["plain,doctor"]
