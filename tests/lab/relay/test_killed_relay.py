"""The relay of a notebook on a node is killed, hangs, or is told to end: what becomes of the notebook and of its job."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.lab.relay.conftest import SLEEPS, STEPS, Notebook, is_in_journal

from ownlab.lab.runtimes.launch_plan import read_plan
from ownlab.lab.runtimes.state import is_alive

if TYPE_CHECKING:
    from tests.lab.engines.slurm.cluster import Cluster
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

Until = Callable[..., Any]


def test_cells_that_a_killed_relay_had_not_taken_run_once_and_in_order(lab: LabServer, follow: Open) -> None:
    """A page stays open. Its first cell is in the queue of the relay, the second is sent before the page knows of another one."""
    notebook = Notebook(lab, follow)
    page = notebook.page
    page.reconnects = True
    page.run("ran = []")
    relay = notebook.state()["supervisor"]["pid"]
    os.kill(relay, signal.SIGSTOP)
    cells = [page.execute("ran.append('first')", cell="first")]
    passed = page.send("ownlab_widgets_request", {})  # the server answers it after it has passed on what came before
    page.until(lambda message: message.content.get("msg_id") == passed, "the server has passed on the cell")
    os.kill(relay, signal.SIGKILL)
    cells.append(page.execute("ran.append('second')", cell="second"))
    for cell in cells:
        page.until_idle(cell)
    assert page.run("print(ran)") == "['first', 'second']\n"
    assert not page.unacknowledged


def test_an_answer_that_a_killed_relay_had_not_taken_arrives(lab: LabServer, follow: Open) -> None:
    notebook = Notebook(lab, follow)
    page = notebook.page
    page.reconnects = True
    cell = page.execute("print('hello', input('who? '))", allow_stdin=True, cell="first")
    question = page.until_kind("input_request")
    relay = notebook.state()["supervisor"]["pid"]
    os.kill(relay, signal.SIGSTOP)
    page.answer(question, "ann")
    passed = page.send("ownlab_widgets_request", {})  # as above
    page.until(lambda message: message.content.get("msg_id") == passed, "the server has passed on the answer")
    os.kill(relay, signal.SIGKILL)
    page.until_idle(cell)
    assert page.printed(cell) == "hello ann\n"


def test_a_page_goes_on_after_a_killed_relay(lab: LabServer, follow: Open) -> None:
    """It only listens: nothing that it sends tells anybody that the relay is another one."""
    notebook = Notebook(lab, follow)
    page = notebook.page
    page.reconnects = True
    cell = page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    page.until_kind("stream")
    os.kill(notebook.state()["supervisor"]["pid"], signal.SIGKILL)
    for number in (2, 3):
        (notebook.cwd / f"step-{number}").touch()
    page.until_idle(cell)
    assert page.printed(cell) == "step 1\nstep 2\nstep 3\nend\n"
    assert page.numbers() == sorted(set(page.numbers()))


def test_a_kernel_without_a_relay_does_not_count_as_dead(lab: LabServer, follow: Open, until: Until) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    notebook.page.until_kind("stream")
    state = notebook.state()
    os.kill(state["keeper"]["pid"], signal.SIGSTOP)  # it starts no other relay
    try:
        os.kill(state["supervisor"]["pid"], signal.SIGKILL)
        until(lambda: not is_alive(state["supervisor"]), "there is no relay")
        os.unlink(
            read_plan(str(notebook.folder.parent / "plan.json")).journal_endpoint.path
        )  # a keeper that ends removes it, too
        attached = lab.get(f"/ownlab/api/runtimes/{notebook.kernel}/attach").json()
        assert [(each["cell"], each["state"]) for each in attached["executions"]] == [("first", "running")]
        assert attached["death"] is None
        assert (notebook.printed("first"), notebook.error("first")) == ("step 1\n", "")
        page = follow(lab, notebook.kernel)
    finally:
        os.kill(state["keeper"]["pid"], signal.SIGCONT)
    assert page.next().kind == "hello"
    for number in (2, 3):
        (notebook.cwd / f"step-{number}").touch()
    page.until(lambda message: message.content.get("text", "").endswith("end\n"), "everything")
    assert page.printed() == "step 1\nstep 2\nstep 3\nend\n"


def test_a_killed_relay_is_replaced_and_catches_up(lab: LabServer, follow: Open, until: Until) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    notebook.page.until_kind("stream")
    before = notebook.state()["supervisor"]["pid"]
    os.kill(before, signal.SIGSTOP)  # what is printed now is only on the node
    (notebook.cwd / "step-2").touch()
    until(lambda: is_in_journal(notebook.folder / "journal", b"step 2"), "the node has written it")
    os.kill(before, signal.SIGKILL)
    until(lambda: notebook.state().get("supervisor", {}).get("pid") not in (None, before), "another relay")
    (notebook.cwd / "step-3").touch()
    until(lambda: notebook.printed("first") == "step 1\nstep 2\nstep 3\nend\n", "everything, once")
    assert follow(lab, notebook.kernel, "now").run("print(number)") == "3\n"


def test_a_relay_that_hangs_does_not_keep_its_job(lab: LabServer, follow: Open, cluster: Cluster, until: Until) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(SLEEPS, cell="first")
    notebook.page.until_kind("stream")
    os.kill(notebook.state()["supervisor"]["pid"], signal.SIGSTOP)
    deleted = lab.client.delete(f"{lab.url}/api/sessions/{notebook.session}", timeout=180)
    assert deleted.is_success, deleted.text
    until(lambda: notebook.job not in cluster.ask("squeue", "-h", "-o", "%i").split(), "its job is gone")
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")
    assert notebook.printed("first") == "at work\n"


def test_a_dead_relay_does_not_keep_its_job(lab: LabServer, follow: Open, cluster: Cluster, until: Until) -> None:
    """Keeper and relay are killed; the notebook is closed before anybody has noticed."""
    notebook = Notebook(lab, follow)
    notebook.page.execute(SLEEPS, cell="first")
    notebook.page.until_kind("stream")
    job, state = notebook.job, notebook.state()
    for name in ("keeper", "supervisor"):
        os.kill(state[name]["pid"], signal.SIGKILL)
    until(lambda: not is_alive(state["supervisor"]), "it is dead")
    stopped = lab.client.delete(f"{lab.url}/api/sessions/{notebook.session}", timeout=180)
    assert stopped.is_success, stopped.text
    until(lambda: job not in cluster.ask("squeue", "-h", "-o", "%i").split(), "its job is gone")
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")


def test_a_relay_that_gets_sigterm_alone_ends_its_runtime(
    lab: LabServer, follow: Open, cluster: Cluster, until: Until
) -> None:
    """So root stops the runtime of somebody else."""
    notebook = Notebook(lab, follow)
    notebook.page.run("kept = 1")
    os.kill(notebook.state()["supervisor"]["pid"], signal.SIGTERM)
    until(lambda: not cluster.ask("squeue", "-h", "-o", "%i").strip(), "its job is gone")
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")
