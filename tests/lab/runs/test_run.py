"""Runs with real kernels in this process: the output, what ends a run, and what remains of it."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.lab.runs.conftest import Write, code, printed

import ownlab
from ownlab.errors import CardsTaken, CellFailed, DeadlineError, LabError, UsageError
from ownlab.lab.journal import storage
from ownlab.lab.runs.preparation import RunRequest, Step
from ownlab.lab.runs.records import CellReport, Outcome, RunReport
from ownlab.lab.runs.reporter import Reporter, Stop
from ownlab.lab.runs.run import run
from ownlab.lab.runs.validation import prepare_run
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.state import plan_of
from ownlab.lab.transport.control import send_command

# Short sleeps: Python does not check for signals between its last instruction and the start of a long sleep.
SLEEPS = "import time\nprint('at work', flush=True)\nwhile True: time.sleep(0.01)"


class RecordingReporter(Reporter):
    """Records the progress; calls a function when a cell begins, or when the run waits for a card."""

    def __init__(self, begins: Any = None, waits: Any = None) -> None:
        self.words: list[str] = []
        self._begins, self._waits = begins, waits

    def notice(self, words: str) -> None:
        self.words.append(f"notice: {words}")

    def waiting(self, label: str, report: RunReport) -> None:
        self.words.append(f"{report.status} for {label}: {report.reason}")
        if self._waits:
            self._waits()

    def started(self, report: RunReport) -> None:
        self.words.append(report.status)

    def begun(self, step: Step, number: int, count: int) -> None:
        self.words.append(f"{number}/{count} {step.title}")
        if self._begins:
            self._begins(number)

    def done(self, cell: CellReport, *, allowed: bool) -> None:
        self.words.append(cell.status + (" (allowed)" if allowed else ""))


def run_it(path: Path, reporter: Reporter | None = None, stop: Stop | None = None, **asked: Any) -> Outcome:
    return run(prepare_run(RunRequest(str(path), **asked)), reporter or Reporter(), stop or Stop())


def test_a_run_from_the_first_cell_to_the_last(lab: Any, write: Write) -> None:
    path = write(
        "a.ipynb",
        {"cell_type": "markdown", "metadata": {}, "source": "# Words"},
        '#@title Set\nsteps = 3 #@param {type:"integer"}',
        code(["print(steps, __import__('os').getcwd())\n", "steps * 2"]),
        "",
        code("1/0", "raises-exception"),
        code("never", "skip-execution"),
        "input()",
        "from ownlab_guest.kernel.on_end import on_end\non_end(open, 'saved', 'w');",
        unknown=1,
    )
    before, reporter = path.read_bytes(), RecordingReporter()
    outcome = run_it(path, reporter, parameters={"steps": 4}, allow_errors=True)
    assert (outcome.report.status, outcome.error, outcome.trouble) == ("done", None, "")
    assert path.read_bytes() == before
    assert outcome.report.output == str(path.with_name("a-run.ipynb"))
    assert printed(outcome.report.output) == [
        "", f"4 {path.parent}\n8", "", "ZeroDivisionError", "", "StdinNotImplementedError", "",
    ]  # fmt: skip
    assert reporter.words == [
        "running", "1/5 Set", "done", "2/5 print(steps, __import__('os').getcwd())", "done", "3/5 1/0",
        "failed (allowed)", "4/5 input()", "failed (allowed)",
        "5/5 from ownlab_guest.kernel.on_end import on_end", "done",
    ]  # fmt: skip
    cells = outcome.report.cells
    assert [cell.cell for cell in cells] == [1, 2, 4, 5, 6, 7]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, None, 4, 5]
    assert cells[2].error is not None
    assert (cells[2].error.name, cells[2].error.value) == ("ZeroDivisionError", "division by zero")
    assert (path.parent / "saved").exists()
    written = json.loads(Path(outcome.report.output).read_text())
    assert written["cells"][1]["source"][1].startswith("steps = 4 ")
    assert written["cells"][1]["metadata"]["execution"]["shell.execute_reply"]
    assert written["metadata"].pop("language_info")["version"] == platform.python_version()
    assert (written["metadata"], written["nbformat_minor"]) == ({"unknown": 1}, 5)
    assert lab.left() == {}


def test_shell_commands_cannot_wait_for_input(lab: Any, write: Write) -> None:
    asks = "try: input('name? ')\nexcept EOFError: print('nobody')"
    secretly = "import getpass\nwhile True: getpass.getpass('', open('/dev/tty', 'w'))"
    path = write(
        "a.ipynb",
        f'import sys\na, b = {asks!r}, {secretly!r}\n!{{sys.executable}} -c "{{a}}"; exit 3',
        'print(_exit_code)\n!{sys.executable} -c "{b}" 2>/dev/null\nprint(_exit_code)\n!kill -9 $$\nprint(_exit_code)',
        "import ownlab\nownlab.on_end(lambda: print(1 / 0))\nownlab.on_end(print, 'saved');",
    )
    outcome = run_it(path)
    assert outcome.error is None
    first, second, last = printed(outcome.report.output)
    assert first == "name? nobody\n"
    assert second == "3\n1\n-9\n"
    assert last.startswith("saved\nTraceback"), "what functions given to on_end say is in the output, too"
    assert "ZeroDivisionError" in last


def test_the_flag_for_colab_mode_and_the_error_that_names_it(lab: Any, write: Write) -> None:
    # A module that the notebook imports needs google.colab, which nobody can see in the notebook.
    path = write("a.ipynb", "import helper", language_info={"name": "python", "version": "2.7.18"})
    (path.parent / "helper.py").write_text("from google.colab import drive\n")
    with pytest.raises(CellFailed) as failed:
        ownlab.run_notebook(path)
    assert f"google.colab is there in Colab mode: ownlab run {path} --colab." in str(failed.value.hint)
    report = ownlab.run_notebook(path, colab=True)
    assert report.status == "done"
    metadata = json.loads(Path(report.output).read_text())["metadata"]
    assert metadata["ownlab"] == {"colab": True}
    assert metadata["language_info"]["version"] == platform.python_version()
    with pytest.raises(CellFailed, match="No module named 'google"):
        ownlab.run_notebook(write("b.ipynb", "from google.colab import drive"), colab=False)
    assert lab.left() == {}


def test_what_a_run_in_colab_mode_changes_in_the_system_ends_with_it(lab: Any, write: Write) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can change the system")
    name = f"/etc/ownlab-test-{os.getpid()}"
    path = write("a.ipynb", f"!echo changed > {name}; cat {name}; exit 0")
    assert printed(ownlab.run_notebook(path, colab=True).output)[-1].endswith("changed\n")
    assert not os.path.exists(name)
    assert lab.left() == {}


def test_a_cell_that_fails_ends_the_run(lab: Any, write: Write) -> None:
    path = write("a.ipynb", "print('one')", "1/0", "print('three')")
    with pytest.raises(CellFailed, match=r"Cell 2 of a\.ipynb, “1/0”, failed: ZeroDivisionError") as reporter:
        ownlab.run_notebook(path, path.with_name("b.ipynb"))
    report = reporter.value.report
    assert [cell.status for cell in report.cells] == ["done", "failed", "not run"]
    assert printed(report.output) == ["one\n", "ZeroDivisionError", ""]
    assert (report.kept, os.path.basename(report.output)) == (False, "b.ipynb")
    assert lab.left() == {}


def test_a_kernel_that_dies_is_reported_with_its_reason(lab: Any, write: Write) -> None:
    path = write("a.ipynb", "print('words')", "import os\nos.kill(os.getpid(), 9)", "3")
    outcome = run_it(path, allow_errors=True, keep=True)
    assert (outcome.report.status, outcome.report.reason) == ("failed", "the kernel died (signal 9)")
    assert outcome.exit_code == 1
    assert outcome.error is not None
    assert "memory" in outcome.error.hint
    assert printed(outcome.report.output) == ["words\n", "KernelDied", ""]
    assert lab.left() == {}


def test_a_killed_supervisor_ends_the_run(lab: Any, write: Write) -> None:
    def kill(number: int) -> None:
        (row,) = lab.rows()
        os.kill(row.supervisor.pid, signal.SIGKILL)

    outcome = run_it(write("a.ipynb", SLEEPS), RecordingReporter(begins=kill))
    assert (outcome.report.status, outcome.report.reason) == ("failed", "its supervisor died")
    assert lab.left() == {}


def test_a_cell_that_takes_too_long_is_interrupted(lab: Any, write: Write) -> None:
    outcome = run_it(write("a.ipynb", "1", SLEEPS, "3"), timeout=5.0, allow_errors=True)
    assert isinstance(outcome.error, DeadlineError)
    assert (outcome.exit_code, outcome.report.reason) == (5, "it ran longer than 5 s")
    assert [cell.status for cell in outcome.report.cells] == ["done", "timeout", "not run"]
    assert printed(outcome.report.output) == ["1", "at work\nKeyboardInterrupt", ""]
    assert lab.left() == {}


def test_a_second_stop_request_does_not_wait_for_the_cell(lab: Any, write: Write, until: Any, tmp_path: Path) -> None:
    deaf = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nopen('deaf', 'w').close()\ntime.sleep(600)"
    )
    stop = Stop()

    def ask_twice() -> None:
        until((tmp_path / "work" / "deaf").exists)
        stop.request(signal.SIGINT)
        asked.wait(0.5)
        stop.request(signal.SIGINT)

    asked = threading.Event()
    thread = threading.Thread(target=ask_twice)
    thread.start()
    outcome = run_it(write("a.ipynb", deaf, "2"), stop=stop)
    thread.join()
    assert (outcome.report.status, stop.signum) == ("interrupted", signal.SIGINT)
    assert [cell.status for cell in outcome.report.cells] == ["interrupted", "not run"]
    assert lab.left() == {}


def test_the_output_may_be_edited_and_renamed_during_the_run(lab: Any, write: Write) -> None:
    path = write("a.ipynb", "print('one')", "print('two')")
    output, renamed = path.with_name("a-run.ipynb"), path.with_name("renamed.ipynb")

    def edit(number: int) -> None:
        if number == 2:
            notebook = json.loads(output.read_text())
            notebook["cells"].append({"cell_type": "markdown", "metadata": {}, "id": "mine", "source": ["My words"]})
            output.write_text(json.dumps(notebook))
            output.rename(renamed)
            storage.rename_notebook(str(output), str(renamed))

    outcome = run_it(path, RecordingReporter(begins=edit))
    assert outcome.report.output == str(renamed)
    assert not output.exists()
    assert printed(renamed) == ["one\n", "two\n"]
    assert json.loads(renamed.read_text())["cells"][-1]["source"] == ["My words"]


def test_a_deleted_output_file_is_reported_and_kept_in_the_journal(lab: Any, write: Write) -> None:
    path = write("a.ipynb", "print('one')")
    outcome = run_it(path, RecordingReporter(begins=lambda number: path.with_name("a-run.ipynb").unlink()))
    assert (outcome.report.status, outcome.exit_code) == ("done", 0)
    assert "There is no notebook" in outcome.trouble
    assert [about.runtime for about in storage.all_journals()] == [outcome.report.runtime]


def test_inplace_clears_nothing_before_the_run_starts(lab: Any, write: Write) -> None:
    path = write("a.ipynb", "print('one')", kernelspec={"name": lab.card})
    before = path.read_bytes()
    plan = start.make_plan(lab.all, runtime="r1", cwd="/")
    holder = start.start_supervisor(plan, lab.environ)
    try:
        start.wait_until_started(plan, 60.0, holder)
        with pytest.raises(CardsTaken):
            run_it(path, inplace=True, wait=False)
        assert path.read_bytes() == before
        with pytest.raises(CardsTaken):
            run_it(path, wait=False)
        assert os.listdir(path.parent) == ["a.ipynb"]
        reporter = RecordingReporter(waits=lambda: operations.end_runtime(plan, holder, "the other one is done"))
        outcome = run_it(path, reporter, inplace=True)
    finally:
        operations.end_runtime(plan, holder, "the test is over")
    assert reporter.words[0].startswith("waiting for Python 3 (1 × NVIDIA GeForce GTX 1080 Ti): card 0 ")
    assert reporter.words[1] == "running"
    assert outcome.report.output == str(path)
    assert printed(path) == ["one\n"]
    assert lab.left() == {}


def test_stopping_a_waiting_run_leaves_nothing_behind(lab: Any, write: Write) -> None:
    plan = start.make_plan(lab.all, runtime="r1", cwd="/")
    holder = start.start_supervisor(plan, lab.environ)
    stop = Stop()

    def end() -> None:
        (waiting,) = [row for row in lab.rows() if row.state == "waiting"]
        plan = plan_of(waiting.id)
        assert plan is not None
        send_command(plan.control_endpoint, "end", why="it was stopped by hand")

    try:
        start.wait_until_started(plan, 60.0, holder)
        path = write("a.ipynb", "1")
        with pytest.raises(KeyboardInterrupt):
            run_it(path, RecordingReporter(waits=lambda: stop.request(signal.SIGINT)), stop, type=lab.card)
        with pytest.raises(LabError, match="did not start: it was"):
            run_it(path, RecordingReporter(waits=end), type=lab.card)
        assert os.listdir(path.parent) == ["a.ipynb"]
    finally:
        operations.end_runtime(plan, holder, "the test is over")
    assert lab.left() == {}


def test_from_a_script_in_a_running_loop_with_folders_and_parameters(lab: Any, write: Write, tmp_path: Path) -> None:
    path = write("a.ipynb", 'n = 1 #@param {type:"integer"}', "import os\nprint(n, os.environ['OWNLAB_OUTPUTS'])")

    async def call() -> RunReport:
        return ownlab.run_notebook(path, parameters={"n": 5}, outputs=tmp_path / "out", type="cpu")

    report = asyncio.run(call())
    assert (report.status, report.type) == ("done", "ownlab-cpu")
    assert printed(report.output)[1] == f"5 {tmp_path / 'out'}\n"
    with pytest.raises(UsageError, match="n must be"):
        ownlab.run_notebook(path, parameters={"n": 1.5})
    assert lab.left() == {}
