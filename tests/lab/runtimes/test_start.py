"""Plans, supervisors that are started from them, and starts that fail."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.config.limits import Limits, stricter
from ownlab.errors import DeadlineError, LabError
from ownlab.lab.runtimes import operations, start, state
from ownlab.lab.runtimes.launch_plan import Plan, read_plan
from ownlab.lab.store.setup import init_shared
from ownlab.lab.transport.control import send_command


@pytest.fixture
def started(lab: Any) -> Iterator[tuple[Plan, dict[str, Any]]]:
    plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env=lab.environ)
    child = start.start_supervisor(plan, lab.environ)
    yield plan, start.wait_until_started(plan, 60.0, child)
    operations.end_runtime(plan, child, "the test is over")


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_plan_is_private_and_holds_no_environment(lab: Any) -> None:
    environ = {**lab.environ, "SECRET": "do not write this"}
    plan = start.make_plan(lab.half, runtime="r1", cwd="/", env=environ, notebook="a.ipynb", lab="x", wait=True)
    path = os.path.join(plan.home, "plan.json")
    assert read_plan(path) == plan
    assert mode_of(plan.home) == 0o700
    assert mode_of(path) == 0o600
    assert "do not write this" not in Path(path).read_text()
    assert (plan.want.kind, plan.want.cards, plan.want.parts) == ("NVIDIA GeForce GTX 1080 Ti", 1, 6)
    assert [device.number for device in plan.devices] == [0, 1, 2, 3]
    assert (plan.probe, plan.units_per_hour) == (None, 0.5)
    assert plan.journal == str(lab.folder / "home" / "journals" / "r1")
    with pytest.raises(LabError, match="exists already"):
        start.make_plan(lab.half, runtime="r1", cwd="/", env=environ)
    operations.remove_folders(plan)
    assert lab.left() == {}


def test_a_runtime_without_a_lab_has_no_journal(lab: Any) -> None:
    environ = {**lab.environ, "OWNLAB_JOURNAL_CELL_MB": "3"}
    plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env=environ)
    assert (plan.journal, plan.cell_mb) == ("", 3)
    operations.remove_folders(plan)


def test_sockets_are_in_the_runtimes_folder_if_the_path_is_short(lab: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env={**lab.environ, "OWNLAB_HOME": folder})
        assert plan.sockets == plan.home


def test_sockets_are_elsewhere_if_the_path_is_too_long(lab: Any, until: Any) -> None:
    environ = {**lab.environ, "OWNLAB_HOME": str(lab.folder / ("long" * 20))}
    plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env=environ)
    child = start.start_supervisor(plan, environ)
    try:
        start.wait_until_started(plan, 60.0, child)
        assert plan.sockets.startswith("/tmp/ownlab-")
        assert mode_of(plan.sockets) == 0o700
        until(lambda: send_command(plan.control_endpoint, "status")["state"] == "running")
    finally:
        operations.end_runtime(plan, child, "the test is over")
    assert not os.path.exists(plan.sockets)
    assert not os.path.exists(plan.home)


def test_stricter_limits_of_a_shared_store_apply(lab: Any, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    init_shared(folder, group=None, limits={"idle": 600.0, "session": None})
    (tmp_path / "config.toml").write_text("[limits]\nidle_minutes = 90\nsession_hours = 2\n")
    plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env={**lab.environ, "OWNLAB_STORE": str(folder)})
    assert (plan.limits.idle, plan.limits.session) == (600.0, 7200.0)


def test_stricter() -> None:
    own = Limits(idle=100.0, session=None, extend=60.0)
    laid_down = {"idle": 200.0, "session": 50.0, "card_seconds_per_week": None, "extend": 0.0}
    assert stricter(own, laid_down) == own._replace(session=50.0, extend=0.0)
    assert stricter(own, None) == own


def test_the_state_of_a_runtime(started: tuple[Plan, dict[str, Any]]) -> None:
    plan, now = started
    assert now["runtime"] == "r1"
    assert now["connection"]["key"] == plan.connection["key"]
    assert all(now["connection"][f"{name}_port"] > 0 for name in ("shell", "iopub", "stdin", "control", "hb"))
    assert mode_of(os.path.join(plan.home, "state.json")) == 0o600
    assert mode_of(os.path.join(plan.home, "log")) == 0o600
    assert all(state.is_alive(now[name]) for name in ("keeper", "supervisor", "kernel"))
    assert not state.is_alive({**now["kernel"], "started": 1})
    assert state.kernel_exit_code(plan.home) is None
    operations.send_signal({**now["kernel"], "started": 1}, 9)
    assert state.is_alive(now["kernel"])


def test_ports_in_use_are_reported(lab: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        connection = {**start.tcp_connection(), "shell_port": taken.getsockname()[1]}
        plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env=lab.environ, connection=connection)
        child = start.start_supervisor(plan, lab.environ)
        with pytest.raises(LabError, match="in use"):
            start.wait_until_started(plan, 60.0, child)
    assert lab.left() == {}


def test_a_missing_folder_is_reported(lab: Any) -> None:
    plan = start.make_plan(lab.cpu, runtime="r1", cwd="/not/there", env=lab.environ)
    child = start.start_supervisor(plan, lab.environ)
    with pytest.raises(LabError, match="/not/there"):
        start.wait_until_started(plan, 60.0, child)
    assert lab.left() == {}


def test_a_supervisor_that_cannot_start_is_reported_with_its_last_log_line(lab: Any) -> None:
    plan = start.make_plan(lab.cpu, runtime="r1", cwd="/", env=lab.environ)
    Path(plan.home, "plan.json").write_text("{}")
    child = start.start_supervisor(plan, lab.environ)
    with pytest.raises(LabError, match=r"ended with exit code 1: .*Error"):
        start.wait_until_started(plan, 60.0, child)
    assert lab.left() == {}


def test_a_start_that_takes_too_long_is_cancelled(lab: Any, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 600\n")
    python.chmod(0o755)
    spec = Path(lab.environ["OWNLAB_KERNELS"], lab.card, "kernel.json")
    given = json.loads(spec.read_text())
    given["metadata"]["ownlab"]["python"] = str(python)
    spec.write_text(json.dumps(given))
    plan = start.make_plan(lab.card, runtime="r1", cwd="/", env=lab.environ)
    child = start.start_supervisor(plan, lab.environ)
    with pytest.raises(DeadlineError, match="did not start in 1 s"):
        start.wait_until_started(plan, 1.0, child)
    assert lab.left() == {}


def test_it_ends_when_its_starter_closes_the_pipe(lab: Any, until: Any) -> None:
    code = (
        "import os, sys, time; from ownlab.lab.runtimes import start\n"
        "plan = start.make_plan('ownlab-cpu', runtime='r1', cwd='/')\n"
        "start.wait_until_started(plan, 60.0, child := start.start_supervisor(plan, os.environ)); print('up', flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=lab.environ)
    try:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"up\n"
        assert len(lab.rows()) == 1
    finally:
        starter.kill()
        starter.communicate()
    until(lambda: lab.left() == {})
