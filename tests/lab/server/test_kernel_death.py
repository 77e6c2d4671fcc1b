"""A dead kernel in a lab: an open page learns of it at once, a notebook opened later shows it, `ownlab runtimes log` has it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.server.journal_maker import notebook_of
from tests.lab.server.stream_page import Open, StreamPage, follow, is_status, pages

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

__all__ = ["follow", "pages"]  # fixtures

WAIT = "import time; print('so far', flush=True); time.sleep(600)"


class Training:
    """A notebook whose first cell runs and whose second waits, with a page that follows it."""

    def __init__(self, lab: LabServer, follow: Open, name: str) -> None:
        self.lab, self.name = lab, name
        (lab.folder / name).write_text(json.dumps(notebook_of("first", "second", "third")))
        self.kernel = str(lab.session(name)["kernel"]["id"])
        self.page: StreamPage = follow(lab, self.kernel)
        self.first = self.page.execute(WAIT, cell="first")
        self.second = self.page.execute("1", cell="second")
        self.page.until_kind("stream")

    def pid(self, who: str) -> int:
        state = self.lab.state(self.kernel)
        assert state is not None
        return int(state[who]["pid"])

    def kill(self, *whom: str) -> None:
        for pid in [self.pid(who) for who in whom]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def notes(self) -> dict[str, list[str]]:
        """The errors in the cells of the notebook, as a page opens it."""
        cells = self.lab.get(f"/api/contents/{self.name}?type=notebook").json()["content"]["cells"]
        return {cell["id"]: [output["ename"] for output in cell["outputs"] if "ename" in output] for cell in cells}

    def on_disk(self) -> str:
        return (self.lab.folder / self.name).read_text()


@pytest.fixture
def training(lab: LabServer, follow: Open) -> Training:
    return Training(lab, follow, f"{os.urandom(4).hex()}.ipynb")


def test_an_open_page_learns_of_it_at_once_and_before_the_restart(training: Training) -> None:
    training.kill("kernel")
    page = training.page
    died = page.until_kind("died").content
    assert died["death"]["cell"] == "first"
    assert died["death"]["summary"].startswith("The kernel was killed by signal 9.")
    assert [(note["msg_id"], note["cell"], note["output"]["ename"]) for note in died["notes"]] == [
        (training.first, "first", "KernelDied"),
        (training.second, "second", "NotRun"),
    ]
    assert not [one for one in page.received if is_status(one, "restarting")]
    page.until(lambda one: is_status(one, "restarting"), "it is restarted")
    assert page.kinds().count("died") == 1


def test_a_page_that_was_away_learns_of_it_before_the_restart(training: Training, until: Callable[..., Any]) -> None:
    page = training.page
    page.drop()
    training.kill("kernel")
    until(lambda: (training.lab.state(training.kernel) or {}).get("launches") == 2, "it was restarted")
    page.open()
    page.until(lambda one: is_status(one, "restarting"), "it learns of the restart")
    kinds = page.kinds()
    assert kinds.count("died") == 1
    assert kinds.index("died") < next(n for n, one in enumerate(page.received) if is_status(one, "restarting"))


def test_a_notebook_opened_later_shows_it_and_its_file_too(training: Training, until: Callable[..., Any]) -> None:
    training.page.close()
    training.kill("kernel")
    expected = {"first": ["KernelDied"], "second": ["NotRun"], "third": []}
    until(lambda: training.notes() == expected, "the opened notebook has the notes")
    until(lambda: (training.lab.state(training.kernel) or {}).get("launches") == 2, "it was restarted")
    assert training.notes() == expected
    attachment = training.lab.get(f"/ownlab/api/runtimes/{training.kernel}/attach?after=0").json()
    assert attachment["death"]["cell"] == "first"
    until(lambda: "not run: the kernel died" in training.on_disk(), "autosave writes them into the file")


def test_the_next_run_of_the_cell_removes_the_note(training: Training, follow: Open, until: Callable[..., Any]) -> None:
    training.kill("kernel")
    training.page.until(lambda one: is_status(one, "restarting"), "it is restarted")
    page = follow(training.lab, training.kernel, "now")
    page.until_idle(page.execute("print('again')", cell="first"))
    assert training.notes() == {"first": [], "second": ["NotRun"], "third": []}
    attachment = training.lab.get(f"/ownlab/api/runtimes/{training.kernel}/attach?after=0").json()
    assert attachment["death"] is None


@pytest.mark.parametrize("whom", [("keeper",), ("supervisor",), ("keeper", "supervisor", "kernel")])
def test_the_same_if_what_is_around_the_kernel_is_killed(
    training: Training, until: Callable[..., Any], whom: tuple[str, ...]
) -> None:
    training.kill(*whom)
    died = training.page.until_kind("died").content
    assert [note["output"]["ename"] for note in died["notes"]] == ["KernelDied", "NotRun"]
    if len(whom) == 1:
        assert f"its {whom[0]} process was killed" in died["death"]["summary"]
    # With nobody left to say that it has ended, the server starts it again.
    training.page.until(lambda one: is_status(one, "dead") or is_status(one, "restarting"), "its kernel is gone")
    assert training.page.kinds().count("died") == 1
    assert training.notes() == {"first": ["KernelDied"], "second": ["NotRun"], "third": []}


def test_a_restart_by_the_user_leaves_no_note(training: Training) -> None:
    training.lab.post(f"/api/kernels/{training.kernel}/restart")
    assert training.notes() == {
        "first": ["KeyboardInterrupt"],
        "second": [],
        "third": [],
    }  # Jupyter interrupts it first
    training.page.until(lambda one: is_status(one, "starting"), "it was restarted")
    assert "died" not in training.page.kinds()


def test_the_log_of_the_runtime_has_it(training: Training) -> None:
    def log(*options: str) -> str:
        command = [sys.executable, "-m", "ownlab", "runtimes", "log", training.kernel, *options]
        ran = subprocess.run(command, env=training.lab.environ, capture_output=True, text=True, check=True, timeout=300)
        return ran.stdout

    training.kill("kernel")
    training.page.until_kind("died")
    shown = log()
    assert "so far\nKernelDied: The kernel was killed by signal 9." in shown
    assert "NotRun: not run: the kernel died" in shown
    assert shown.count("The kernel was killed by signal 9.") == 2  # in the cell, and for the runtime
    [death] = json.loads(log("--json"))["deaths"]
    assert (death["cell"], death["signal"], death["exit_code"], death["out_of_memory"]) == ("first", 9, None, False)
