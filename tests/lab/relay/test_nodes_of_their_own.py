"""Notebooks on nodes with a network of their own: its cable is pulled, Slurm's controller goes away, another user tries."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import NodeCluster, lacking
from tests.lab.relay.conftest import Notebook, runtime_processes

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

Until = Callable[..., Any]

# Prints a line whenever a file of the next number appears, so that a test decides how far it is.
STEPS = """
import os, time
print(os.environ["SLURMD_NODENAME"], flush=True)
for number in range(1, 4):
    while not os.path.exists(f"step-{number}"): time.sleep(0.02)
    print("step", number, flush=True)
print("end")
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[NodeCluster]:
    """Two nodes in namespaces; Slurm does not give a node up while a test runs."""
    reason = missing() or lacking()
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = NodeCluster(root, node_timeout=3600, kill_wait=10)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def test_outputs_are_complete_after_the_network_was_cut(
    lab: LabServer, follow: Open, cluster: NodeCluster, until: Until
) -> None:
    """Packets are dropped, as by a pulled cable: no connection is closed, and none is refused."""
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    node = notebook.page.until_kind("stream").content["text"].split()[0]
    with cluster.cut_network(node):
        (notebook.cwd / "step-1").touch()
        journal = notebook.folder / "journal"
        until(lambda: any(b"step 1" in path.read_bytes() for path in journal.glob("*.log")), "the node has written it")
        assert "step 1" not in notebook.printed("first"), "nothing arrives"
    (notebook.cwd / "step-2").touch()
    (notebook.cwd / "step-3").touch()
    until(lambda: notebook.printed("first") == f"{node}\nstep 1\nstep 2\nstep 3\nend\n", "everything, once")
    assert follow(lab, notebook.kernel, "now").run("print(number)") == "3\n"


def test_cells_that_are_run_while_the_network_is_cut_run_once_in_order_whatever_dies_here(
    lab: LabServer, follow: Open, cluster: NodeCluster, until: Until
) -> None:
    """The relay is killed while it has them, and the page is closed: they wait on disk, and a new page knows that."""
    notebook = Notebook(lab, follow)
    node = notebook.page.run("import os; print(os.environ['SLURMD_NODENAME']); ran = []").strip()
    with cluster.cut_network(node):
        sent = [notebook.page.execute(f"ran.append('{cell}')", cell=cell) for cell in ("first", "second")]
        outbox = notebook.folder.parent / "outbox"
        until(lambda: outbox.exists() and outbox.read_bytes().count(b"\n") == 2, "the relay has them")
        before = notebook.state()["supervisor"]["pid"]
        os.kill(before, signal.SIGKILL)
        until(lambda: notebook.state().get("supervisor", {}).get("pid") not in (None, before), "another relay")
        attached = lab.get(f"/ownlab/api/runtimes/{notebook.kernel}/attach?after=0").json()["executions"]
        waiting = {each["msg_id"]: (each["cell"], each["state"]) for each in attached if each["state"] == "queued"}
        assert waiting == dict(zip(sent, (("first", "queued"), ("second", "queued")), strict=True))
        lab.end(signal.SIGKILL)
        lab.start()
    until(lambda: not outbox.exists() or not outbox.read_bytes(), "the node has taken them")
    assert follow(lab, notebook.kernel, "now").run("print(ran)") == "['first', 'second']\n"


def test_an_answer_that_is_typed_while_the_network_is_cut_arrives_whatever_dies_here(
    lab: LabServer, follow: Open, cluster: NodeCluster, until: Until
) -> None:
    notebook = Notebook(lab, follow)
    node = notebook.page.run("import os; print(os.environ['SLURMD_NODENAME'])").strip()
    notebook.page.execute("print('hello', input('who? '))", allow_stdin=True, cell="first")
    question = notebook.page.until_kind("input_request")
    with cluster.cut_network(node):
        notebook.page.answer(question, "ann")
        outbox = notebook.folder.parent / "outbox"
        until(lambda: outbox.exists() and b'"stdin"' in outbox.read_bytes(), "the relay has it")
        before = notebook.state()["supervisor"]["pid"]
        os.kill(before, signal.SIGKILL)
        until(lambda: notebook.state().get("supervisor", {}).get("pid") not in (None, before), "another relay")
        lab.end(signal.SIGKILL)
        lab.start()
    until(lambda: notebook.printed("first").endswith("hello ann\n"), "the cell has it")


def test_the_controller_may_go_away_and_come_back(
    lab: LabServer, follow: Open, cluster: NodeCluster, until: Until
) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    node = notebook.page.until_kind("stream").content["text"].split()[0]
    job = notebook.job
    cluster.end("slurmctld")
    try:
        (notebook.cwd / "step-1").touch()
        until(lambda: "step 1" in notebook.printed("first"), "output arrives without it")
    finally:
        cluster.start_controller()
    (notebook.cwd / "step-2").touch()
    (notebook.cwd / "step-3").touch()
    until(lambda: notebook.printed("first") == f"{node}\nstep 1\nstep 2\nstep 3\nend\n", "everything, once")
    assert cluster.ask("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    assert notebook.job == job


def test_another_user_can_do_nothing_with_a_notebook(
    lab: LabServer, follow: Open, cluster: NodeCluster, until: Until
) -> None:
    """nobody is a user of the cluster, too: munge and Slurm know who asks."""
    notebook = Notebook(lab, follow)
    notebook.page.run("kept = 1")
    job = notebook.job

    def as_nobody(*command: str) -> str:
        return cluster.ask("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command)

    assert "nobody" in as_nobody("sh", "-c", f"munge -n --socket={cluster.socket} | unmunge --socket={cluster.socket}")
    assert "denied" in as_nobody("scancel", job)
    assert "Invalid user id" in as_nobody("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    entered = as_nobody("srun", f"--jobid={job}", "--overlap", "sh", "-c", "echo entered by $(id -un)")
    assert "entered by" not in entered, entered
    processes = runtime_processes(lab.home.parent)
    answers = {pid: as_nobody("cat", f"/proc/{pid}/environ") for pid in processes}
    # Commands of Slurm that a relay runs may have ended meanwhile.
    refused = [pid for pid, said in answers.items() if "Permission denied" in said]
    assert refused
    assert [pid for pid in answers if pid not in refused and Path(f"/proc/{pid}").exists()] == [], answers
    assert cluster.ask("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING"
    assert notebook.page.run("print(kept)") == "1\n", "it goes on"
