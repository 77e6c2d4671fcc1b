"""A runtime on a node of a cluster whose relay is gone: its job goes on, and another relay will follow it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lab.server.journal_maker import JournalMaker

from ownlab.lab.runtimes import state
from ownlab.lab.runtimes.journals import Journals
from ownlab.lab.runtimes.launch_plan import NodeRequest, Plan
from ownlab.lab.store.layout import hold_lock
from ownlab.lab.supervisor.state_writer import FAILED

GONE = {"pid": 2**22 + 1, "started": 1}  # above the largest pid


class Left:
    """A cell runs on a node; nothing of its runtime lives here. `job`: the folder of its job."""

    def __init__(self, home: Path) -> None:
        self.journal = JournalMaker(home, home / "train.ipynb", "lab")
        self.cell = self.journal.request("first")
        self.journal.send(self.cell, "status", execution_state="busy")
        self.home = home / "runtimes" / self.journal.runtime
        self.job = self.home / "node"
        self.job.mkdir(parents=True)
        self.plan = Plan(
            runtime=self.journal.runtime, home=str(self.home), sockets=str(self.home), store=str(home / "store"),
            type="ownlab-slurm-gpu-cpu", label="Python 3", argv=[], cwd="/", connection={}, lab="lab",
            host=os.uname().nodename, journal=str(self.journal.folder), detached=True,
            node=NodeRequest("slurm", "gpu", None, 0, []),
        )  # fmt: skip
        (self.home / "plan.json").write_text(self.plan.to_json())
        self.write_state("running")

    def write_state(self, now: str) -> None:
        content = {
            "state": now,
            "keeper": GONE,
            "supervisor": GONE,
            "kernel": None,
            "node": {"name": "n1", "kernel": True},
        }
        (self.home / "state.json").write_text(json.dumps({**content, "exit_code": None}))


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Left:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path))
    return Left(tmp_path)


def test_its_cells_run_as_long_as_it_may_have_a_job(left: Left) -> None:
    journal = Journals().journal(left.journal.runtime)
    with journal.current() as now:
        assert ([each.state for each in now.executions.values()], now.deaths) == (["running"], [])
    assert journal.alive
    left.job.rmdir()  # as a relay does when the job has ended; this one was killed then
    with journal.current() as now:
        assert [each.death.what for each in now.deaths] == ["runtime"]
    assert not journal.alive


def test_its_kernel_lives_while_another_relay_is_started(left: Left) -> None:
    for written in ("running", state.LEFT):
        left.write_state(written)
        assert state.kernel_exit_code(str(left.home)) is None, written
    (left.home / "state.json").unlink()
    assert state.kernel_exit_code(str(left.home)) is None
    left.job.rmdir()
    assert state.kernel_exit_code(str(left.home)) == 1


def test_a_page_may_follow_it_before_there_is_a_socket(left: Left) -> None:
    found = state.plan_with_journal_socket(left.journal.runtime)
    assert found is not None
    assert not os.path.exists(found.journal_endpoint.path)


def test_of_two_relays_that_are_started_at_once_one_leaves(left: Left) -> None:
    lock = hold_lock(left.plan.store, left.plan.runtime)
    try:
        before = (left.home / "state.json").read_text()
        command = [sys.executable, "-m", "ownlab.lab.relay", str(left.home / "plan.json")]
        second = subprocess.run(command, check=False, timeout=180, stdin=subprocess.DEVNULL)
        assert second.returncode == FAILED
        assert (left.home / "state.json").read_text() == before
        assert "its lock has been held" in (left.home / "log").read_text()
    finally:
        os.close(lock)
