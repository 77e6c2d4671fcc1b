"""A notebook on a node of a real cluster, through the lab's server: from its start to its end, and what may happen between."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.relay.conftest import ALL_CARDS, CPU, ONE_CARD, SLEEPS, STEPS, Notebook, is_in_journal, offering

from ownlab.lab.relay.job_files import read_node_file
from ownlab.lab.runtimes.state import is_alive

if TYPE_CHECKING:
    from tests.lab.engines.slurm.cluster import Cluster
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

Until = Callable[..., Any]

WHERE = "import os; print(os.environ['SLURMD_NODENAME'], 'sees', repr(os.environ['CUDA_VISIBLE_DEVICES']))"


def test_cells_run_on_a_card_of_a_node(lab: LabServer, follow: Open, cluster: Cluster, until: Until) -> None:
    notebook = Notebook(lab, follow)
    shown = notebook.page.run(WHERE)
    assert shown.split() in (["n1", "sees", "'0'"], ["n2", "sees", "'0'"]), shown
    assert cluster.ask("squeue", "-h", "-j", notebook.job, "-o", "%T %b").split() == ["RUNNING", "gres:gpu:fake:1"]
    assert notebook.state()["state"] == "running"
    asked = notebook.page.execute("name = input('who? ')\nprint('hello', name)", allow_stdin=True, cell="first")
    notebook.page.answer(notebook.page.until_kind("input_request"), "ann")
    notebook.page.until_idle(asked)
    assert notebook.printed("first").endswith("hello ann\n")
    shown = lab.get("/ownlab/api/snapshot").json()["runtimes"]
    assert [(each["label"], each["state"]) for each in shown] == [("Python 3 (1 × fake · gpu)", "running")]
    other = lab.page(notebook.kernel)  # of a program that speaks Jupyter's own protocol
    assert other.run("print('over the channels')") == "over the channels\n"


def test_what_it_uses_on_its_node_is_shown_while_somebody_looks(lab: LabServer, follow: Open, until: Until) -> None:
    notebook = Notebook(lab, follow)
    shown: dict[str, Any] = {}

    def look() -> dict[str, Any]:
        runtimes = lab.get("/ownlab/api/snapshot").json()["runtimes"]
        shown.update(next(each for each in runtimes if each["id"] == notebook.kernel))
        return shown

    notebook.page.run("kept = b'x' * (300 << 20)")
    until(lambda: (look()["ram"] or 0) > 300 << 20, "the memory of the kernel on the node")
    assert shown["node"] in ("n1", "n2"), shown
    assert [(card["index"], card["name"], card["vram"]) for card in shown["cards"]] == [(0, "fake", None)], shown
    assert 0 < shown["host"]["memory_used"] < shown["host"]["memory"], shown
    assert 0 < shown["host"]["disk_used"] <= shown["host"]["disk"], shown
    until(lambda: look()["cpu"] is not None, "two measurements make a rate")
    command = [sys.executable, "-m", "ownlab", "runtimes"]
    printed = subprocess.run(command, env=lab.environ, capture_output=True, text=True, check=True, timeout=90).stdout
    assert f"node {shown['node']} · card 0" in printed, printed
    notebook.page.run("del kept")
    until(lambda: look()["ram"] < 300 << 20, "figures are of now")
    until(lambda: not _measuring(notebook), "nobody looks, nothing measures")


def test_a_notebook_without_a_card_sees_none(lab: LabServer, follow: Open) -> None:
    assert Notebook(lab, follow, CPU).page.run(WHERE).split()[1:] == ["sees", "''"]


def test_interrupt_restart_and_stop(lab: LabServer, follow: Open, cluster: Cluster, until: Until) -> None:
    notebook = Notebook(lab, follow)
    page, job = notebook.page, ""
    page.run("kept = 1")
    running = page.execute(SLEEPS, cell="first")
    page.until_kind("stream")
    lab.post(f"/api/kernels/{notebook.kernel}/interrupt")
    page.until_idle(running)
    assert "KeyboardInterrupt" in str(notebook.outputs("first")[-1])
    assert page.run("print(kept)") == "1\n", "an interrupt keeps variables"
    job = notebook.job
    lab.post(f"/api/kernels/{notebook.kernel}/restart")
    assert page.run("print('kept' in globals())") == "False\n"
    assert notebook.job == job, "the same job"
    lab.client.delete(f"{lab.url}/api/sessions/{notebook.session}").raise_for_status()
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")
    until(lambda: not cluster.ask("squeue", "-h", "-o", "%i").strip(), "its job is gone")


def test_outputs_are_complete_after_the_server_was_killed(lab: LabServer, follow: Open, until: Until) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    notebook.page.until_kind("stream")
    lab.end(signal.SIGKILL)
    (notebook.cwd / "step-2").touch()
    lab.start()
    until(lambda: "step 2" in notebook.printed("first"), "what was printed while the server was away")
    (notebook.cwd / "step-3").touch()
    until(lambda: notebook.printed("first") == "step 1\nstep 2\nstep 3\nend\n", "everything, once")
    assert follow(lab, notebook.kernel, "now").run("print(number)") == "3\n"


def test_the_job_survives_the_login_node(lab: LabServer, follow: Open, until: Until) -> None:
    """Server, keeper and relay are killed at once, as by a power cut; only the node goes on."""
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    notebook.page.until_kind("stream")
    state, job = notebook.state(), notebook.job
    for name in ("keeper", "supervisor"):
        os.kill(state[name]["pid"], signal.SIGKILL)
    lab.end(signal.SIGKILL)
    (notebook.cwd / "step-2").touch()
    lab.start()
    (notebook.cwd / "step-3").touch()
    until(lambda: notebook.printed("first") == "step 1\nstep 2\nstep 3\nend\n", "everything, once")
    assert notebook.job == job
    assert follow(lab, notebook.kernel, "now").run("print(number)") == "3\n"


def test_the_job_survives_an_orderly_shutdown_of_the_login_node(lab: LabServer, follow: Open, until: Until) -> None:
    """All processes get SIGTERM, and time to end; so does everything in the job of a server when that ends."""
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    notebook.page.until_kind("stream")
    state, job = notebook.state(), notebook.job
    for name in ("supervisor", "keeper"):
        os.kill(state[name]["pid"], signal.SIGTERM)
    lab.end(signal.SIGTERM)
    until(lambda: not is_alive(state["keeper"]), "it has ended")
    assert not is_alive(state["supervisor"])
    (notebook.cwd / "step-2").touch()
    lab.start()
    (notebook.cwd / "step-3").touch()
    until(lambda: notebook.printed("first") == "step 1\nstep 2\nstep 3\nend\n", "everything, once")
    assert notebook.job == job
    assert follow(lab, notebook.kernel, "now").run("print(number)") == "3\n"


def test_a_job_that_ends_while_nobody_listens_loses_nothing(
    lab: LabServer, follow: Open, cluster: Cluster, until: Until
) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(STEPS, cell="first")
    (notebook.cwd / "step-1").touch()
    notebook.page.until_kind("stream")
    state, job = notebook.state(), notebook.job
    for name in ("keeper", "supervisor"):
        os.kill(state[name]["pid"], signal.SIGKILL)
    lab.end(signal.SIGKILL)
    (notebook.cwd / "step-2").touch()
    until(lambda: is_in_journal(notebook.folder / "journal", b"step 2"), "the node has written it")
    cluster.ask("scancel", job)
    until(lambda: (notebook.folder / "end.json").exists(), "the job has ended")
    lab.start()
    until(lambda: "was cancelled, not by ownlab" in notebook.error("first"), "the cell says why")
    assert notebook.printed("first") == "step 1\nstep 2\n"


def test_a_cancelled_job_is_said_in_the_cell(lab: LabServer, follow: Open, cluster: Cluster, until: Until) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(SLEEPS, cell="first")
    notebook.page.until_kind("stream")
    cluster.ask("scancel", notebook.job)
    died = notebook.page.until_kind("died").content
    assert died["death"]["summary"] == "The runtime was ended: its Slurm job was cancelled, not by ownlab."
    until(lambda: "was cancelled, not by ownlab" in notebook.error("first"), "the cell says why")
    assert notebook.printed("first") == "at work\n"


def test_the_time_limit_of_the_job_is_warned_of_and_said_in_the_cell(
    lab: LabServer, follow: Open, cluster: Cluster, until: Until
) -> None:
    notebook = Notebook(lab, follow)
    saved = lab.folder / "saved"
    notebook.page.run(f"import ownlab; ownlab.on_end(lambda: open({str(saved)!r}, 'w').close())")
    notebook.page.execute(SLEEPS, cell="first")
    notebook.page.until_kind("stream")

    def shown() -> dict[str, Any]:
        runtimes = lab.get("/ownlab/api/snapshot").json()["runtimes"]
        return dict(next(each for each in runtimes if each["id"] == notebook.kernel))

    cluster.ask("scontrol", "update", f"JobId={notebook.job}", "TimeLimit=20:00:00")
    until(lambda: shown()["ends_at"], "the end of the job is known")
    assert (shown()["warned"], shown()["may_extend"]) == (False, False), shown()
    assert "its Slurm job reaches its time limit" in shown()["ends_why"]
    refused = lab.client.post(f"{lab.url}/ownlab/api/runtimes/{notebook.kernel}/extend")
    assert "no time limit to extend" in refused.text, refused.text
    cluster.ask("scontrol", "update", f"JobId={notebook.job}", "TimeLimit=5:00")
    until(lambda: shown()["warned"], "it warns")
    cluster.ask("scontrol", "update", f"JobId={notebook.job}", "TimeLimit=0:01")
    until(lambda: "its Slurm job reaches its time limit" in notebook.error("first"), "the cell says why")
    assert saved.exists(), "functions of on_end ran"
    assert notebook.printed("first") == "at work\n"


def test_a_job_at_its_time_limit_has_time_to_save_without_a_relay(
    lab: LabServer, follow: Open, cluster: Cluster, until: Until
) -> None:
    """Slurm ends it itself. It looks at time limits every half minute; scontrol sets one that is over."""
    notebook = Notebook(lab, follow)
    saved = lab.folder / "saved-too"
    notebook.page.run(f"import ownlab; ownlab.on_end(lambda: open({str(saved)!r}, 'w').close())")
    notebook.page.execute(SLEEPS, cell="first")
    notebook.page.until_kind("stream")
    job, state = notebook.job, notebook.state()
    for name in ("keeper", "supervisor"):
        os.kill(state[name]["pid"], signal.SIGKILL)
    lab.end(signal.SIGKILL)
    cluster.ask("scontrol", "update", f"JobId={job}", "TimeLimit=0:01")
    until(lambda: (notebook.folder / "end.json").exists(), "the job has ended")
    lab.start()
    until(lambda: "it has reached its time limit" in notebook.error("first"), "the cell says why")
    assert saved.exists(), "functions of on_end ran"


def test_a_notebook_waits_with_the_reason_and_may_be_given_up(
    lab: LabServer, follow: Open, cluster: Cluster, until: Until
) -> None:
    holders = [Notebook(lab, follow, ALL_CARDS) for _ in range(2)]
    for holder in holders:
        holder.page.run("pass")
    notebook = Notebook(lab, follow)
    until(lambda: "its nodes or GPUs are in use" in notebook.state().get("reason", ""), "the reason is known")
    shown = {each["id"]: each for each in lab.get("/ownlab/api/snapshot").json()["runtimes"]}[notebook.kernel]
    assert (shown["state"], "its nodes or GPUs are in use" in shown["why"]) == ("waiting", True), shown
    given_up = Notebook(lab, follow)
    until(lambda: given_up.job, "it is in the queue")
    abandoned = given_up.job
    lab.client.delete(f"{lab.url}/api/sessions/{given_up.session}").raise_for_status()
    until(lambda: abandoned not in cluster.ask("squeue", "-h", "-o", "%i").split(), "it left the queue")

    request = notebook.page.execute("print('it is my turn')", cell="first")
    lab.client.delete(f"{lab.url}/api/sessions/{holders[0].session}").raise_for_status()
    notebook.page.until_idle(request)
    assert notebook.page.printed(request) == "it is my turn\n"


def test_keys_are_private_and_a_stranger_is_refused(lab: LabServer, follow: Open, tmp_path: Path) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.run("pass")
    given = read_node_file(str(notebook.folder))
    assert stat.S_IMODE(os.stat(notebook.folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(notebook.folder / "node.json").st_mode) == 0o600
    secrets = [given.secret_key.encode(), given.plan.connection["key"].encode(), lab.token.encode()]
    seen = b"".join(_contents(path for name in ("cmdline", "environ") for path in Path("/proc").glob(f"[0-9]*/{name}")))
    assert secrets[0] not in seen
    assert secrets[1] not in seen
    script = (notebook.folder / "job.sh").read_bytes()
    assert not any(secret in script for secret in secrets)
    address = (notebook.folder / "address.json").read_text()
    assert '"url": "tcp://127.0.0.1:' in address
    assert not any(secret.decode() in address for secret in secrets)


def test_the_cluster_is_offered_only_if_its_engine_is_chosen(lab: LabServer, until: Until) -> None:
    lab.end(signal.SIGTERM)
    chosen = lab.environ.pop("OWNLAB_LAB_ENGINE")
    try:
        lab.start()
        until(lambda: lab.get("/ownlab/api/snapshot").json()["types"], "the types were read")
        assert not [name for name in lab.get("/api/kernelspecs").json()["kernelspecs"] if "slurm" in name]
    finally:
        lab.environ["OWNLAB_LAB_ENGINE"] = chosen
        lab.end(signal.SIGTERM)
        offering(lab.start())


def test_other_labs_do_not_list_the_types_of_the_cluster(
    lab: LabServer, new_lab: Callable[..., LabServer], until: Until
) -> None:
    other = new_lab("other", OWNLAB_LAB_ENGINE="local").start()
    until(lambda: other.get("/ownlab/api/snapshot").json()["types"], "the types were read")
    assert not [name for name in other.get("/api/kernelspecs").json()["kernelspecs"] if "slurm" in name]
    assert ONE_CARD in lab.get("/api/kernelspecs").json()["kernelspecs"], "those of this one are still there"


def test_a_cell_with_the_magic_train_runs_as_a_job(lab: LabServer, follow: Open, until: Until) -> None:
    """By an option, from a kernel on this machine; and by the setting, from one on a node, which submits another job."""
    cell = "%%train {options} --partition gpu --gpus 2 --nproc 1\nimport os\n"
    cell += "print('job', os.environ['SLURM_JOB_ID'], 'sees', os.environ['CUDA_VISIBLE_DEVICES'])"
    here = Notebook(lab, follow, "python3")
    here.page.run("%load_ext ownlab")
    assert "sees 0,1" in here.page.run(cell.format(options="--engine slurm"))
    there = Notebook(lab, follow, CPU)
    assert there.page.run("%load_ext ownlab\nimport os; os.environ['OWNLAB_RUN_ENGINE'] = 'slurm'") == ""
    printed = there.page.run(cell.format(options=""))
    assert "sees 0,1" in printed
    assert f"job {there.job} " not in printed


def test_what_slurm_refuses_is_said_at_once(new_lab: Callable[..., LabServer], until: Until) -> None:
    lab = offering(new_lab("odd", OWNLAB_SLURM_OPTIONS="--constraint=no-such-feature").start())
    (lab.folder / "train.ipynb").write_text("{}")
    body = {"path": "train.ipynb", "name": "train.ipynb", "type": "notebook", "kernel": {"name": ONE_CARD}}
    refused = lab.client.post(f"{lab.url}/api/sessions", json=body)
    assert refused.status_code >= 400
    assert "Python 3 (1 × fake · gpu) did not start" in refused.json()["message"], refused.json()
    until(lambda: not list((lab.home / "runtimes").glob("*/node")), "nothing is left")


def test_a_folder_that_the_node_lacks_is_named(lab: LabServer, follow: Open, cluster: Cluster, until: Until) -> None:
    """The notebook's folder is there when the job is submitted, and gone when it starts."""
    cluster.ask("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    try:
        notebook = Notebook(lab, follow)
        notebook.page.execute("1", cell="first")
        notebook.cwd.rename(lab.folder / "elsewhere")
    finally:
        cluster.ask("scontrol", "update", "PartitionName=gpu", "State=UP")
    died = notebook.page.until_kind("died").content
    assert "the folder in which it was started is not on the node" in died["death"]["summary"]


def _measuring(notebook: Notebook) -> list[str]:
    """The processes that measure what it uses on its node."""
    runtime = f"OWNLAB_RUNTIME={notebook.kernel}.node".encode()
    found = []
    for path in _readable(Path("/proc").glob("[0-9]*/environ")):
        command = path.with_name("cmdline")
        if _readable([command]) and b"ownlab.lab.runtimes.node_usage" in command.read_bytes():
            found += [str(path)] if runtime in path.read_bytes() else []
    return found


def _contents(paths: Iterable[Path]) -> Iterator[bytes]:
    """What can be read of these files; the processes of others, and those that have ended, have none."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield path.read_bytes()


def _readable(paths: Any) -> list[Path]:
    found = []
    for path in paths:
        try:
            path.read_bytes()
        except OSError:  # it has ended, or is not ours
            continue
        found.append(path)
    return found
