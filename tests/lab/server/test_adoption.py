"""The server ends in every possible way and is started again: runtimes and sessions are unchanged."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ownlab.atomic_files import replace_file
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.state import is_alive
from ownlab.lab.server.adoption import find_adoptable, remove_dead
from ownlab.lab.store.store import Store

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer, Page

NO_CARDS = Path(__file__).resolve().parents[2] / "machines" / "cpu.json"
LAB = "0123456789ab"
ONE = "ownlab-1-nvidia-geforce-gtx-1080-ti"
COUNT = "import time\nfor i in range(1000):\n    print('line', i, flush=True)\n    time.sleep(0.05)"


def test_a_running_cell_continues_without_its_server(
    new_lab: Callable[..., LabServer], until: Callable[..., Any]
) -> None:
    lab = new_lab().start()
    session = lab.session("deep.ipynb")
    kernel = session["kernel"]["id"]
    before = lab.processes(kernel)
    page = lab.page(kernel)
    assert page.run("kept = 41") == ""
    page.execute(COUNT)
    page.printed("line 2")
    for signum in (signal.SIGKILL, signal.SIGTERM):
        lab.end(signum)
        assert all(is_alive(process) for process in before)
        lab.start()

        assert [model["id"] for model in lab.get("/api/kernels").json()] == [kernel]
        [adopted] = lab.get("/api/sessions").json()
        assert (adopted["id"], adopted["path"], adopted["kernel"]["id"]) == (session["id"], "deep.ipynb", kernel)
        assert adopted["kernel"]["execution_state"] == "busy"
        assert lab.processes(kernel) == before

        page = lab.page(kernel)
        assert "line 2\n" not in page.printed("line ")
    check_that_it_responds(lab, page, session, until)


def check_that_it_responds(lab: LabServer, page: Page, session: dict[str, Any], until: Callable[..., Any]) -> None:
    """Interrupt, restart and shut down, as if the server had never ended."""
    kernel = session["kernel"]["id"]
    before = lab.processes(kernel)
    lab.post(f"/api/kernels/{kernel}/interrupt")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "the kernel was interrupted")
    assert page.run("print(kept + 1)") == "42\n"

    lab.post(f"/api/kernels/{kernel}/restart")
    assert page.run("print('kept' in dir())") == "False\n"
    assert lab.processes(kernel)[:2] == before[:2], "the same keeper and supervisor"

    lab.client.delete(f"{lab.url}/api/sessions/{session['id']}").raise_for_status()
    until(lambda: not any(is_alive(process) for process in before), "no process is left")
    until(lambda: not (lab.home / "runtimes" / kernel).exists(), "its folder is gone")
    assert lab.get("/api/kernels").json() == []
    assert not list((lab.home.parent / "jupyter-runtime").glob("kernel-*.json"))
    assert lab.get("/ownlab/api/snapshot").json()["runtimes"] == []


def test_a_server_that_was_killed_while_a_notebook_was_opened_leaves_no_second_kernel(
    new_lab: Callable[..., LabServer], until: Callable[..., Any]
) -> None:
    """The runtime exists but its session does not: a repeated request gets the runtime that was started."""
    lab = new_lab().start()
    body = {"path": "new.ipynb", "name": "new.ipynb", "type": "notebook", "kernel": {"name": "ownlab-cpu"}}

    def ask() -> None:
        with contextlib.suppress(httpx.TransportError), httpx.Client(trust_env=False) as client:
            client.post(f"{lab.url}/api/sessions", json=body, headers={"Authorization": f"token {lab.token}"})

    asking = Thread(target=ask)
    asking.start()
    # Before its supervisor has written its state there may be a folder but no runtime: then no kernel would be left at all.
    [state] = until(lambda: list(lab.home.glob("runtimes/*/state.json")), "a start")
    runtime = state.parent.name
    lab.end(signal.SIGKILL)
    asking.join()
    lab.start()
    until(
        lambda: [session["path"] for session in lab.get("/api/sessions").json()] == ["new.ipynb"],
        "its session is there",
    )
    assert lab.session("new.ipynb")["kernel"]["id"] == runtime
    assert lab.page(runtime).run("print(1)") == "1\n"
    assert os.listdir(lab.home / "runtimes") == [runtime]


def test_a_kernel_that_died_without_a_server_is_removed(
    new_lab: Callable[..., LabServer], until: Callable[..., Any]
) -> None:
    lab = new_lab().start()
    session = lab.session()
    kernel = session["kernel"]["id"]
    lab.page(kernel).run("1")
    lab.end(signal.SIGKILL)
    # The keeper first, so that nothing is left to clean up.
    for process in lab.processes(kernel):
        os.kill(process["pid"], signal.SIGKILL)
    until(lambda: not any(is_alive(process) for process in lab.processes(kernel)), "all are dead")

    lab.start()
    assert lab.get("/api/kernels").json() == []
    assert lab.get("/api/sessions").json() == []
    until(lambda: not (lab.home / "runtimes" / kernel).exists(), "its folder is gone")
    until(lambda: lab.get("/ownlab/api/snapshot").json()["runtimes"] == [], "its row is gone")


def test_an_adopted_kernel_that_dies_is_restarted(new_lab: Callable[..., LabServer], until: Callable[..., Any]) -> None:
    """Also if its type is no longer offered, because the cards are not visible any more."""
    lab = new_lab().start()
    until(lambda: ONE in lab.get("/api/kernelspecs").json()["kernelspecs"], "the cards were read")
    kernel = lab.session(kernel=ONE)["kernel"]["id"]
    lab.page(kernel).run("1")
    lab.end(signal.SIGKILL)
    lab.environ["OWNLAB_MACHINE"] = str(NO_CARDS)
    shutil.rmtree(lab.home.parent / "jupyter" / "kernels" / ONE)
    lab.start()
    page = lab.page(kernel)
    keeper, supervisor, before = lab.processes(kernel)
    os.kill(before["pid"], signal.SIGKILL)
    page.until(
        lambda message: message["msg_type"] == "status" and message["content"]["execution_state"] == "restarting"
    )
    until(lambda: lab.processes(kernel)[2:] not in ([], [before]), "there is a new kernel")
    assert lab.processes(kernel)[:2] == [keeper, supervisor]
    assert page.run("print(6 * 7)") == "42\n"
    lab.client.delete(f"{lab.url}/api/kernels/{kernel}").raise_for_status()
    until(lambda: not (lab.home / "runtimes" / kernel).exists(), "its folder is gone")


def test_labs_never_adopt_each_others_runtimes(new_lab: Callable[..., LabServer]) -> None:
    first = new_lab("first").start()
    kernel = first.session()["kernel"]["id"]
    first.end(signal.SIGKILL)
    second = new_lab("second").start()
    assert second.get("/api/kernels").json() == []
    assert [runtime["id"] for runtime in second.get("/ownlab/api/snapshot").json()["runtimes"]] == [kernel], (
        "but it is seen"
    )
    first.start()
    assert [model["id"] for model in first.get("/api/kernels").json()] == [kernel]


def test_a_foreign_kernel_works_and_ends_with_the_server(
    new_lab: Callable[..., LabServer], until: Callable[..., Any]
) -> None:
    lab = new_lab()
    foreign = lab.home.parent / "jupyter" / "kernels" / "foreign"
    foreign.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (foreign / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Foreign", "language": "python"}))
    lab.start()
    kernel = lab.session(kernel="foreign")["kernel"]["id"]
    page = lab.page(kernel)
    ask = "import os; print(os.getpid())"
    first = int(page.run(ask))
    lab.post(f"/api/kernels/{kernel}/restart")
    # A message sent to a foreign kernel just after a restart may reach the old one: there is no supervisor in between.
    pid = int(lab.page(kernel).run(ask))
    assert pid != first
    lab.end(signal.SIGTERM)
    until(lambda: not os.path.exists(f"/proc/{pid}"), "it has ended")


def leave(home: Path, runtime: str, host: str) -> Path:
    """Create what a runtime without a supervisor leaves behind: dead, or alive on another host."""
    folder = home / "runtimes" / runtime
    folder.mkdir(parents=True, mode=0o700)
    plan = Plan(runtime, str(folder), str(folder), str(home / "store"), "ownlab-cpu", "CPU", [], "/", {}, lab=LAB)
    replace_file(str(folder / "plan.json"), plan._replace(host=host).to_json())
    return folder


def test_runtimes_of_another_host_are_neither_adopted_nor_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path))
    here, there = leave(tmp_path, "here", os.uname().nodename), leave(tmp_path, "there", "elsewhere")
    Store.open(tmp_path / "store").close()
    running, dead = find_adoptable(LAB, str(tmp_path))
    assert (running, [plan.runtime for plan in dead]) == ([], ["here"])
    remove_dead(dead)
    assert not here.exists()
    assert there.exists()
