"""`ownlab run NOTEBOOK --engine slurm`: a notebook runs on a node without a lab and without a page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.relay.conftest import runtime_processes

if TYPE_CHECKING:
    from tests.lab.engines.slurm.cluster import Cluster
    from tests.lab.server.conftest import LabServer

Until = Callable[..., Any]

FORM = "epochs = 1 #@param {type: 'integer'}"
WHERE = "import os\nprint(os.environ['SLURMD_NODENAME'], 'sees', repr(os.environ['CUDA_VISIBLE_DEVICES']), 'for', epochs, flush=True)"
WAITS = "import os, time\nopen('began', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('went')"


class Folder:
    """A folder with a notebook, and `ownlab` in it."""

    def __init__(self, path: Path, environ: dict[str, str]) -> None:
        self.path, self.environ = path, environ

    def write(self, *sources: str) -> None:
        cells: list[dict[str, Any]] = [
            {
                "cell_type": "code",
                "id": f"c{number}",
                "metadata": {},
                "source": source,
                "execution_count": None,
                "outputs": [],
            }
            for number, source in enumerate(sources)
        ]
        notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (self.path / "train.ipynb").write_text(json.dumps(notebook))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ownlab", "run", "train.ipynb", *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=self.path, env=self.environ, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def printed(self) -> list[str]:
        """What each cell of the copy has printed."""
        cells = json.loads((self.path / "train-run.ipynb").read_text())["cells"]
        return ["".join("".join(each.get("text", "")) for each in cell["outputs"]) for cell in cells]

    def printed_so_far(self) -> str:
        """What all cells of the copy have printed; "" while there is none."""
        return "".join(self.printed()) if (self.path / "train-run.ipynb").exists() else ""


@pytest.fixture
def folder(lab: LabServer, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The folder stands beside that of the lab, which does not serve it."""
    return Folder(tmp_path_factory.mktemp("run"), lab.environ)


def no_job_is_left(cluster: Cluster) -> bool:
    return not cluster.ask("squeue", "-h", "-o", "%i").strip()


def test_a_notebook_runs_with_its_parameters_on_a_card_of_a_node(
    folder: Folder, lab: LabServer, cluster: Cluster, until: Until
) -> None:
    folder.write(FORM, WHERE)
    ran = folder.run("--engine", "slurm", "--partition", "gpu", "--gpus", "1", "--time", "20:00", "-p", "epochs=7")
    assert ran.returncode == 0, ran.stderr
    assert folder.printed()[1].split() in (["n1", "sees", "'0'", "for", "7"], ["n2", "sees", "'0'", "for", "7"])
    assert folder.printed()[1].strip() in ran.stdout, "it is printed while it runs"
    until(lambda: no_job_is_left(cluster), "its job is gone")
    assert [pid for pid in runtime_processes(lab.home.parent) if _names(pid, str(folder.path))] == []


def test_a_run_in_the_background_goes_on(folder: Folder, cluster: Cluster, until: Until) -> None:
    folder.write(WAITS)
    started = folder.run("--engine", "slurm", "--partition", "gpu", "--detach", "--json")
    assert started.returncode == 0, started.stderr
    assert json.loads(started.stdout)["status"] in ("waiting", "running"), started.stdout
    until(lambda: (folder.path / "began").exists(), "it runs")
    (folder.path / "go").touch()
    until(lambda: folder.printed() == ["went\n"], "its output is in the copy")
    until(lambda: no_job_is_left(cluster), "its job is gone")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_no_job_is_left_when_the_run_is_stopped_or_killed(
    folder: Folder, cluster: Cluster, until: Until, signum: int
) -> None:
    folder.write(WAITS)
    with folder.start("--engine", "slurm", "--partition", "gpu") as process:
        until(lambda: (folder.path / "began").exists(), "it runs")
        process.send_signal(signum)
        process.communicate(timeout=300)
    until(lambda: no_job_is_left(cluster), "its job is gone")


def test_what_cannot_be_is_refused_before_anything_is_submitted(folder: Folder, cluster: Cluster) -> None:
    folder.write("1")
    for arguments, words in (
        (("--partition", "nowhere"), "nowhere"),
        (("--partition", "gpu", "--gpus", "64"), "64"),
        (("--partition", "gpu", "--nodes", "2"), "--nodes is for scripts"),
    ):
        ran = folder.run("--engine", "slurm", *arguments)
        assert ran.returncode != 0, arguments
        assert words in ran.stderr, ran.stderr
    local = folder.run("--gpus", "1")
    assert "--gpus is for scripts" in local.stderr, local.stderr
    assert not (folder.path / "train-run.ipynb").exists()
    assert no_job_is_left(cluster)


def test_a_failed_run_keeps_its_runtime_on_the_node_and_continues_there(
    folder: Folder, cluster: Cluster, until: Until
) -> None:
    folder.write("import os\nkept = os.environ['SLURM_JOB_ID']", "open('there')", "print('the same job:', kept)")
    failed = folder.run("--engine", "slurm", "--partition", "gpu", "--keep")
    assert (failed.returncode, "FileNotFoundError" in failed.stderr) == (1, True), failed.stderr
    [job] = cluster.ask("squeue", "-h", "-o", "%i").split()
    (folder.path / "there").touch()
    continued = folder.run("--engine", "slurm", "--from-failed")
    assert continued.returncode == 0, continued.stderr
    assert folder.printed()[2] == f"the same job: {job}\n"
    until(lambda: no_job_is_left(cluster), "its job is gone")


STEPS = """
import os, time
for number in range(1, 4):
    while not os.path.exists(f"step-{number}"): time.sleep(0.02)
    print("step", number, flush=True)
"""


def test_a_run_goes_on_when_its_relay_is_killed(folder: Folder, lab: LabServer, cluster: Cluster, until: Until) -> None:
    folder.write("kept = 1", STEPS, "print('kept', kept)")
    with folder.start("--engine", "slurm", "--partition", "gpu") as process:
        for number in (1, 2):
            (folder.path / f"step-{number}").touch()
            until(lambda seen=f"step {number}": seen in folder.printed_so_far(), "it is in the copy")
            relay = _processes(lab, folder)["supervisor"]
            os.kill(relay["pid"], signal.SIGKILL)
            until(lambda old=relay: _processes(lab, folder)["supervisor"] not in (None, old), "another relay")
        (folder.path / "step-3").touch()
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert folder.printed() == ["", "step 1\nstep 2\nstep 3\n", "kept 1\n"]
    assert [out.count(f"step {number}") for number in (1, 2, 3)] == [1, 1, 1], out
    until(lambda: no_job_is_left(cluster), "its job is gone")


def test_a_run_whose_relay_is_not_replaced_says_so_and_leaves_no_job(
    folder: Folder, lab: LabServer, cluster: Cluster, until: Until
) -> None:
    folder.write(STEPS)
    with folder.start("--engine", "slurm", "--partition", "gpu") as process:
        (folder.path / "step-1").touch()
        until(lambda: "step 1" in folder.printed_so_far(), "it runs")
        now = _processes(lab, folder)
        for name in ("keeper", "supervisor"):
            os.kill(now[name]["pid"], signal.SIGKILL)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    assert "the connection to its node is lost" in err
    assert "supervisor died" not in err
    until(lambda: no_job_is_left(cluster), "its job is gone")


def test_a_sweep_of_a_notebook_runs_on_nodes(folder: Folder, cluster: Cluster, until: Until) -> None:
    folder.write(FORM, "import os\nprint(os.environ['SLURM_JOB_ID'], 'loss =', epochs / 2)")
    ran = folder.run("--engine", "slurm", "--partition", "gpu", "--gpus", "1", "--sweep", "epochs=1,2", "--json")
    assert ran.returncode == 0, ran.stderr
    trials = json.loads(ran.stdout)["trials"]
    assert [(trial["status"], trial["metrics"]["loss"]) for trial in trials] == [("done", 0.5), ("done", 1.0)]
    printed = [json.loads(Path(trial["output"]).read_text())["cells"][1]["outputs"][0]["text"] for trial in trials]
    assert len({"".join(each).split()[0] for each in printed}) == 2, "each has a job of its own"
    until(lambda: no_job_is_left(cluster), "no job is left")


def _processes(lab: LabServer, folder: Folder) -> dict[str, Any]:
    """What the state of the runtime of the run says of its processes."""
    for plan in (lab.home / "runtimes").glob("*/plan.json"):
        if str(folder.path) in plan.read_text():
            state: dict[str, Any] = json.loads((plan.parent / "state.json").read_text())
            return state
    return {"supervisor": None}


def _names(pid: int, path: str) -> bool:
    """Whether a process was started for a notebook below this folder."""
    try:
        return path.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended
        return False
