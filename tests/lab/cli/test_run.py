"""`ownlab run` as a process: parameters, exit codes, signals, the background, and resuming after a failure."""

from __future__ import annotations

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.runs.conftest import code, printed

from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.lab.cli.run import command
from ownlab.lab.runs.preparation import Step
from ownlab.lab.runs.records import CellError, CellReport, Outcome, RunReport
from ownlab.lab.terminal.run import TerminalReporter, describe_end, describe_start, format_elapsed

if TYPE_CHECKING:
    from tests.command_line import Ownlab, World

Valid = Callable[[str, str], Any]

# Short sleeps: Python does not check for signals between its last instruction and the start of a long sleep.
SLEEPS = "import time\nprint('at work', flush=True)\nwhile True: time.sleep(0.01)"
FORM = '#@title Settings\nepochs = 3 #@param {type:"integer"}\nmode = "fast" #@param ["fast", "a=b"]'


def write(folder: Path, name: str, *cells: str | dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    made = [code(cell) if isinstance(cell, str) else cell for cell in cells]
    content = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": made}
    (folder / name).write_text(json.dumps(content))
    return folder / name


def runtimes(world: World) -> list[str]:
    """Return the folders of running runtimes."""
    folder = world.root / "home" / "runtimes"
    return os.listdir(folder) if folder.exists() else []


def at_work(world: World, count: int = 1) -> bool:
    """Return whether this many runs have printed that they are at work."""
    logs = (world.root / "home" / "journals").glob("*/*.log")
    return sum(b'"at work' in path.read_bytes() for path in logs) >= count


def test_a_run_with_parameters(world: World, valid: Valid, tmp_path: Path) -> None:
    path = write(world.folder, "训练 模型.ipynb", FORM, "print(epochs, mode)")
    (tmp_path / "values.json").write_text('{"epochs": 7, "mode": "fast"}')
    (tmp_path / "stdin").write_text("for somebody else")
    arguments = ["run", str(path), "--parameters", str(tmp_path / "values.json"), "-p", "mode=a=b", "--json"]
    with (tmp_path / "stdin").open() as stdin:
        ran = subprocess.run(
            [sys.executable, "-m", "ownlab", *arguments],
            stdin=stdin, capture_output=True, text=True, env=world.env, cwd="/", timeout=300, check=False,
        )  # fmt: skip
        assert os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 0
    assert ran.returncode == 0, ran.stderr
    report = valid(ran.stdout, "run")
    assert (report["status"], report["output"]) == ("done", str(path.with_name("训练 模型-run.ipynb")))
    assert printed(report["output"]) == ["", "7 a=b\n"]
    assert [line.split("]")[0] for line in ran.stderr.splitlines()] == ["[1/2", "[2/2"]
    assert runtimes(world) == []


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("-p", "epoch=3"), UsageError, "Did you mean epochs?"),
        (("-p", "epochs=many"), UsageError, "epochs must be"),
        (("-p", "epochs"), UsageError, "NAME=VALUE"),
        (("-p", "=3"), UsageError, "NAME=VALUE"),
        (("--parameters", "/not/there.json"), InputError, "does not exist"),
        (("--parameters", "notebook"), InputError, "is not valid JSON"),
        (("--parameters", "list"), InputError, "must contain a JSON object"),
        (("--inplace", "-o", "b.ipynb"), UsageError, "cannot be combined"),
    ],
)
def test_invalid_arguments_are_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], error: type[OwnlabError], words: str
) -> None:
    path = write(tmp_path / "work", "a.ipynb", FORM)
    (tmp_path / "notebook").write_text("epochs: 3")
    (tmp_path / "list").write_text("[1]")
    given = [str(tmp_path / each) if each in ("notebook", "list") else each for each in arguments]
    with pytest.raises(error, match=words):
        command.main([str(path), *given], standalone_mode=False)
    assert os.listdir(path.parent) == ["a.ipynb"]


def test_help_lists_the_parameters_of_a_notebook(ownlab: Ownlab, tmp_path: Path) -> None:
    path = str(write(tmp_path, "a.ipynb", FORM))
    for arguments in (("run", path, "--help"), ("run", "-h", path, "-p", "x=1")):
        shown = ownlab(*arguments).stdout
        assert "Parameters of a.ipynb:" in shown
        assert "epochs  integer; default: 3 (Settings)" in shown
        assert "mode    one of fast, a=b; default: fast (Settings)" in shown
    assert "Parameters of" not in ownlab("run", "--help").stdout
    assert "There is no notebook" in ownlab("run", "nowhere.ipynb", "--help").stdout
    write(tmp_path, "b.ipynb", "1")
    assert "None: no cell has a field" in ownlab("run", str(tmp_path / "b.ipynb"), "--help").stdout


def test_a_failed_run_is_kept_fixed_and_resumed(world: World, valid: Valid) -> None:
    path = write(
        world.folder, "a.ipynb", "print('slow')\nx = 41", 'y = 1 #@param {type:"integer"}\nx / 0', "print(x + y)"
    )
    ran = world.run("run", str(path), "--keep")
    assert ran.returncode == 1
    assert "[2/3] y = 1" in ran.stderr
    assert "ZeroDivisionError: division by zero\nownlab: Cell 2 of a.ipynb" in ran.stderr
    assert "\x1b" not in ran.stderr
    assert f"Fix the cell, then run: ownlab run {path} --from-failed" in ran.stderr
    assert len(runtimes(world)) == 1
    path.write_text(path.read_text().replace("x / 0", "x / 1"))
    again = world.run("run", str(path), "--from-failed", "-p", "y=2", "--json")
    assert again.returncode == 0, again.stderr
    report = valid(again.stdout, "run")
    assert ([cell["cell"] for cell in report["cells"]], report["kept"]) == ([1, 2], False)
    assert printed(report["output"]) == ["slow\n", "41.0", "43\n"]
    assert runtimes(world) == []
    third = world.run("run", str(path), "--from-failed")
    assert third.returncode == 3
    assert "--keep" in third.stderr


def in_terminal(world: World, *arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Run `ownlab ARGUMENTS` in its own terminal. Return the end that is closed with its window."""
    ours, theirs = os.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "ownlab", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, text=True, env=world.env, cwd=world.root,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    return started, ours


def test_an_interrupted_run_leaves_nothing_behind(world: World) -> None:
    path = write(world.folder, "a.ipynb", SLEEPS, "2")

    def arguments(name: str) -> tuple[str, ...]:
        return "run", str(path), "-o", str(world.folder / f"{name}.ipynb")

    names = ("SIGINT", "SIGTERM", "SIGKILL")
    runs = [world.start(*arguments(name)) for name in names]
    closed, terminal = in_terminal(world, *arguments("SIGHUP"))
    world.until(lambda: at_work(world, 4))
    for run, name in zip(runs, names, strict=True):
        run.send_signal(signal.Signals[name])
    assert b"[1/2] import time" in os.read(terminal, 1000)
    os.close(terminal)
    outputs = [run.communicate(timeout=300) for run in (*runs, closed)]
    assert [run.returncode for run in (*runs, closed)] == [130, 143, -signal.SIGKILL, 129]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        assert printed(world.folder / f"{name}.ipynb") == ["at work\nKeyboardInterrupt", ""]
    for name, (out, err) in zip(names[:2], outputs, strict=False):
        assert (out, "Traceback" in err) == ("at work\n", False)
        assert f"it was interrupted\n  The outputs so far: {world.folder / name}.ipynb" in err
    world.until(lambda: world.processes() == [] and runtimes(world) == [])


def test_a_run_in_the_background(world: World) -> None:
    path = write(world.folder, "a.ipynb", SLEEPS, "2")
    ran = world.run("run", str(path), "--detach")
    assert ran.returncode == 0, ran.stderr
    (runtime,) = runtimes(world)
    output = path.with_name("a-run.ipynb")
    assert f"runtime {runtime[:8]}" in ran.stdout
    assert str(output) in ran.stdout
    assert f"ownlab runtimes log -f {runtime[:8]}" in ran.stdout
    world.until(lambda: at_work(world))
    stopped = world.run("runtimes", "stop", runtime[:8])
    assert stopped.returncode == 0, stopped.stderr
    log = world.root / "home" / "journals" / runtime / "run.log"
    world.until(lambda: "it was stopped by hand" in log.read_text())
    world.until(lambda: world.processes() == [])
    assert printed(output)[0].startswith("at work\n")


def test_a_background_run_that_does_not_start_is_explained(world: World) -> None:
    path = write(world.folder, "a.ipynb", "1")
    assert world.run("types", "refresh").returncode == 0
    spec = Path(world.env["OWNLAB_KERNELS"], "ownlab-cpu", "kernel.json")
    spec.write_text(spec.read_text().replace(sys.executable, "/not/python"))
    ran = world.run("run", str(path), "--detach")
    assert ran.returncode == 4, ran.stderr
    assert "/not/python" in ran.stderr
    assert os.listdir(world.folder) == ["a.ipynb"]
    assert os.listdir(world.root / "home" / "journals") == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CELL = CellReport(
    0, "c", "标题 \x1b]0;evil\x07", "failed", 61.2, 1, CellError("E", "v", ("\x1b[31mred\x1b[0m \x1b[2Jx",))
)
REPORT = RunReport("0123456789", "t", "/a.ipynb", "/b.ipynb", "failed", "E: v", 3700.0, True, (CELL,))


def test_a_terminal_gets_a_live_line_and_no_control_sequences() -> None:
    terminal = Terminal()
    TerminalReporter(terminal).notice("made for \x1b[2Ja card")
    assert terminal.getvalue() == "\r\x1b[Kmade for \N{REPLACEMENT CHARACTER}[2Ja card\n"
    terminal = Terminal()
    reporter = TerminalReporter(terminal)
    reporter.begun(Step(0, "c", CELL.title, ""), 3, 12)
    reporter.tick()
    reporter.done(CELL, allowed=False)
    reporter.ended(Outcome(REPORT, "the disk is full"), "ownlab run a.ipynb --from-failed")
    shown = terminal.getvalue()
    first, *rest = shown.split("\n")
    assert first.startswith("\r[ 3/12] 标题")
    assert first.endswith("1 min 1 s  failed")
    assert "\x1b[31mred\x1b[0m \N{REPLACEMENT CHARACTER}[2Jx" in shown
    assert "\x07" not in shown
    assert "the disk is full" in shown
    assert rest[-2].endswith("ownlab runtimes stop 01234567")


def test_a_closed_terminal_does_not_end_a_run() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        TerminalReporter(stream).notice("nobody reads this")


def test_how_a_run_is_described() -> None:
    assert [format_elapsed(seconds) for seconds in (0.04, 59.94, 61, 3725)] == [
        "0.0 s",
        "59.9 s",
        "1 min 1 s",
        "1 h 2 min",
    ]
    assert describe_end(REPORT) == "Done: 1 cell in 1 h 1 min, 1 failed. Written to /b.ipynb"
    waiting = RunReport("0123456789", "t", "/a", "/b", "waiting", "card 0: ann", 0.0, False, ())
    assert describe_start(waiting).startswith("The run waits for a card, as runtime 01234567.\n  reason  card 0: ann\n")


PRINTS = """
import sys, time
from IPython.display import display
print("first line", flush=True)
print("a warning", file=sys.stderr, flush=True)
display({"image/svg+xml": "<svg/>"}, raw=True)
for percent in (1, 50, 100):
    print(f"\\r{percent} %", end="", flush=True)
print()
open("printed", "w").close()
import os
while not os.path.exists("go on"): time.sleep(0.01)
"""


def test_output_is_printed_while_the_cell_runs(world: World) -> None:
    path = write(world.folder, "a.ipynb", PRINTS, "6 * 7")
    with world.start("run", str(path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "first line\n"
        assert process.poll() is None
        world.until((world.folder / "printed").exists)
        (world.folder / "go on").touch()
        # communicate() would leave out what readline() has read ahead.
        stdout, stderr = process.stdout.read(), process.stderr.read()
    lines = stdout.splitlines()
    assert lines[:3] == ["[image/svg+xml, 6 B]", "100 %", "42"]
    assert lines[3].startswith("Done: 2 cells")
    assert len(lines) == 4
    heads = [line.split("]")[0] for line in stderr.splitlines()]
    assert heads == ["[1/2", "a warning", "[1/2", "[2/2", "[2/2"]
    assert process.returncode == 0


@pytest.mark.parametrize("option", ["--quiet", "--json"])
def test_output_is_not_printed(world: World, option: str) -> None:
    path = write(world.folder, "a.ipynb", "import sys\nprint('abc')\nprint('def', file=sys.stderr)")
    ran = world.run("run", str(path), option)
    assert ran.returncode == 0, ran.stderr
    assert "abc" not in ran.stdout.replace(str(path), "").replace("print('abc')", "")
    assert "def" not in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_the_error_of_a_cell_that_may_fail_is_printed(world: World) -> None:
    ran = world.run("run", str(write(world.folder, "a.ipynb", "1 / 0", "print('on')")), "--allow-errors")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("ZeroDivisionError: division by zero") == 1
    assert ran.stdout.splitlines()[0] == "on"


@pytest.mark.parametrize("lines", [2, 20_000])  # what is printed fits into the pipe, or does not
def test_a_reader_that_goes_away_does_not_stop_the_run(world: World, lines: int) -> None:
    path = write(world.folder, "a.ipynb", f"for n in range({lines}): print('line', n)", "open('end', 'w').close()")
    process = world.start("run", str(path))
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 0
    assert (world.folder / "end").exists()
    assert process.stderr is not None
    process.stderr.close()


def test_force_overwrites_the_default_output(world: World) -> None:
    path = write(world.folder, "a.ipynb", "print(1)")
    for _ in range(2):
        ran = world.run("run", str(path), "--force", "--quiet")
        assert ran.returncode == 0, ran.stderr
    assert sorted(os.listdir(world.folder)) == ["a-run.ipynb", "a.ipynb"]
    assert world.run("run", str(path), "--quiet").returncode == 0
    assert sorted(os.listdir(world.folder)) == ["a-run-2.ipynb", "a-run.ipynb", "a.ipynb"]
