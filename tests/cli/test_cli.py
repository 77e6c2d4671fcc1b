"""The command line from outside: real processes, real pipes, real terminals."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jsonschema
import msgspec
import pytest

from ownlab.cli.main import COMMANDS
from ownlab.machine.machine_file import decode_machine, load_machine
from ownlab.render.documents import DOCUMENTS, document_type, schema_of

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
H200 = str(ROOT / "tests" / "machines" / "h200.json")
Ownlab = Callable[..., "subprocess.CompletedProcess[str]"]


def on_a_terminal(arguments: Sequence[str], columns: int, env: dict[str, str] | None = None) -> str:
    """Return what a user sees in a terminal of this width."""
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


def test_help_lists_every_command_in_its_section(ownlab: Ownlab) -> None:
    shown = ownlab("--help").stdout
    for name, entry in COMMANDS.items():
        assert entry.section in shown
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


@pytest.mark.parametrize(
    ("name", "command"), [("stop", "runtimes stop"), ("advise", "gpus advise"), ("create", "env create")]
)
def test_a_command_of_a_group_is_found_without_its_group(name: str, command: str, ownlab: Ownlab) -> None:
    assert f"Did you mean: ownlab {command}?" in ownlab(name).stderr


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


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("completion", ("completion", "bash")),
        ("error", ("machine", "--machine", "/no/such/machine.json")),
        ("explain", ("doctor", "--explain", "xid")),
        ("explain-all", ("doctor", "--explain", "all")),
    ],
)
def test_small_documents_follow_their_schema_too(name: str, arguments: tuple[str, ...], ownlab: Ownlab) -> None:
    document = json.loads(ownlab(*arguments, "--json").stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / f"{name}.json").read_text()))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_generated_schemas_are_those_of_the_records(name: str) -> None:
    path = SCHEMAS / f"{name}.json"
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(schema_of(document_type(name)))
    assert path.read_bytes() == schema_of(document_type(name))


def test_a_pipe_that_closes_early_is_no_error() -> None:
    line = f"{sys.executable} -m ownlab machine --machine {H200} | head -n 1"
    ran = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("Machine (live)")
    assert ran.stderr == ""


def test_a_pipe_gets_no_colour_and_whole_lines(ownlab: Ownlab) -> None:
    ran = ownlab("doctor", "--machine", H200)
    assert "\x1b" not in ran.stdout
    assert "GPU work will run: 1 × NVIDIA H200" in ran.stdout.splitlines()[0]


def test_a_terminal_gets_colour_unless_it_is_disabled() -> None:
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
    assert "The file is truncated" in ran.stderr
    assert "ownlab machine --save" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_error_is_a_document_too(tmp_path: Path, ownlab: Ownlab) -> None:
    ran = ownlab("machine", "--json", "--machine", str(tmp_path / "none.json"))
    assert json.loads(ran.stdout)["error"]["kind"] == "InputError"
    assert json.loads(ran.stdout)["error"]["exit_code"] == ran.returncode == 3


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["doctor", "--nope"], "No such option '--nope'.", "See: ownlab doctor --help"),
        (["runtimes", "extend"], "Missing argument 'RUNTIME'.", "See: ownlab runtimes extend --help"),
        (["docter"], "Unknown command 'docter'. Did you mean: ownlab doctor?", "See: ownlab --help"),
        (["data", "pakc"], "Unknown command 'pakc'. Did you mean: ownlab data pack?", "See: ownlab data --help"),
    ],
)
def test_wrong_arguments_give_the_document_of_errors_too(
    arguments: list[str], message: str, hint: str, ownlab: Ownlab
) -> None:
    ran = ownlab(*arguments, "--json")
    error = json.loads(ran.stdout)["error"]
    assert error == {"kind": "UsageError", "message": message, "meaning": "", "hint": hint, "exit_code": 2}
    assert ran.returncode == 2
    assert message in ran.stderr
    assert ownlab(*arguments).stdout == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, ownlab: Ownlab) -> None:
    assert "_OWNLAB_COMPLETE" in ownlab("completion", shell).stdout


def test_a_shell_completes_our_commands(ownlab: Ownlab) -> None:
    ran = ownlab(env={"_OWNLAB_COMPLETE": "bash_complete", "COMP_WORDS": "ownlab doc", "COMP_CWORD": "1"})
    assert ran.stdout.splitlines() == ["plain,doctor"]


# --- streams, signals, bytes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("name", ["doctor", "machine"])
def test_a_terminal_that_knows_few_characters_gets_the_rest(name: str, encoding: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ownlab", name, "--machine", str(ROOT / "tests" / "machines" / "rtx5090d.json")],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        check=False,
    )
    assert b"Traceback" not in ran.stderr
    assert b"RTX 5090" in ran.stdout


def test_json_is_utf_8_on_every_terminal(ownlab: Ownlab) -> None:
    plain = ownlab("doctor", "--machine", H200, "--json")
    assert ownlab("doctor", "--machine", H200, "--json", env={"PYTHONIOENCODING": "ascii"}).stdout == plain.stdout
    assert "×" in plain.stdout


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("arguments", ["doctor", "machine --json", "doctor --nope", ""])
def test_closed_streams_change_no_exit_code(arguments: str, closed: str) -> None:
    machine = "" if arguments in ("", "doctor --nope") else f"--machine {H200}"
    line = f"{sys.executable} -X dev -m ownlab {arguments} {machine}"
    ran = subprocess.run(["sh", "-c", f"{line} {closed}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in ran.stderr
    assert ran.returncode == (2 if "--nope" in arguments else 0)


def test_bytes_that_are_no_text_can_be_shown_and_saved(tmp_path: Path) -> None:
    (tmp_path / "python-\udcff").symlink_to(sys.executable)
    environment: dict[bytes, bytes] = {
        **os.environb,
        b"LD_LIBRARY_PATH": b"/no\xff",
        b"CUDA_HOME": b"/no\xff",
        b"OWNLAB_PYTHON": os.fsencode(tmp_path / "python-\udcff"),
    }
    saved = tmp_path / "m.json"
    command = [sys.executable, "-m", "ownlab", "machine", "--json", "--save", str(saved)]
    ran = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert b"Traceback" not in ran.stderr
    assert ran.returncode == 0
    document = json.loads(ran.stdout)
    assert document["toolkits"]["cuda_home"]["value"] == "/no?"
    assert document == json.loads(saved.read_text())


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_children_end_with_us(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """A Python that hangs holds one end of a named pipe: the other end is closed when it and its child have ended."""
    pipe, python = tmp_path / "pipe", tmp_path / "python"
    os.mkfifo(pipe)
    python.write_text(f"#!/bin/sh\nexec 9>{pipe}\necho started >&9\nsleep 100\n")
    python.chmod(0o755)
    ours = subprocess.Popen(
        [sys.executable, "-m", "ownlab", "doctor", "--python", str(python)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with pipe.open() as other_end:
        assert other_end.readline() == "started\n"
        ours.send_signal(number)
        assert ours.wait() == code
        assert set(other_end.read().split()) <= {"started"}  # until all are gone; there is more than one probe


def test_a_device_can_be_saved_to(ownlab: Ownlab) -> None:
    ran = ownlab("machine", "--machine", H200, "--save", "/dev/stdout")
    assert ran.returncode == 0
    assert decode_machine(ran.stdout, "stdout") == load_machine(H200)


def test_a_python_that_cannot_be_run_has_its_exit_code_here_too(ownlab: Ownlab) -> None:
    ran = ownlab("machine", "--python", "/no/such/python")
    assert ran.returncode == 4
    assert "/no/such/python" in ran.stdout
