"""A lab on a member of a real cluster, and notebooks on its nodes."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.engines.slurm.cluster import Cluster
from tests.lab.engines.slurm.conftest import running_cluster
from tests.lab.server.conftest import LabServer, labs_in, until, wait_for
from tests.lab.server.journal_maker import notebook_of
from tests.lab.server.stream_page import Open, StreamPage, follow, pages

__all__ = ["follow", "pages", "until"]

SETTINGS = {"OWNLAB_LAB_ENGINE": "slurm", "OWNLAB_SLURM_POLL_SECONDS": "0.2", "OWNLAB_SLURM_DEADLINE_SECONDS": "300"}
ONE_CARD, ALL_CARDS, CPU = "ownlab-slurm-gpu-1-fake", "ownlab-slurm-gpu-4-fake", "ownlab-slurm-gpu-cpu"
# Prints a line whenever a file of the next number appears, so that a test decides how far it is.
STEPS = """
import os, time
for number in range(1, 4):
    while not os.path.exists(f"step-{number}"): time.sleep(0.02)
    print("step", number, flush=True)
print("end")
"""
SLEEPS = "import time\nprint('at work', flush=True)\nwhile True: time.sleep(0.02)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes with four fake GPUs each; it gives up a node soon."""
    with running_cluster(node_timeout=10, kill_wait=10) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def new_lab(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Iterator[Callable[..., LabServer]]:
    """Create labs whose notebooks may run on the cluster, without starting them."""
    root = tmp_path_factory.mktemp("lab")
    with labs_in(root) as make:

        def make_member(name: str = "work", **environ: Any) -> LabServer:
            lab = make(name)
            lab.environ |= {"SLURM_CONF": cluster.env["SLURM_CONF"], "PATH": cluster.env["PATH"], **SETTINGS, **environ}
            return lab

        yield make_member
    for pid in runtime_processes(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def member(new_lab: Callable[..., LabServer]) -> LabServer:
    """A running lab that offers the cluster."""
    return offering(new_lab().start())


@pytest.fixture
def lab(member: LabServer, cluster: Cluster) -> Iterator[LabServer]:
    """The lab of this file, running; afterwards no job is left."""
    yield member
    if member.process is None or member.process.poll() is not None:
        member.start()
    for session in member.get("/api/sessions").json():
        member.client.delete(f"{member.url}/api/sessions/{session['id']}")
    # A node ends only when its jobs have: slurmstepd tries for minutes to tell a controller that is gone.
    cluster.ask("scancel", "-u", getpass.getuser())
    wait_for(lambda: not cluster.ask("squeue", "-h", "-o", "%i").strip(), "no job is left")


def offering(lab: LabServer) -> LabServer:
    """Wait until the types of the cluster were read."""
    wait_for(lambda: ONE_CARD in lab.get("/api/kernelspecs").json()["kernelspecs"], "the cluster was read")
    return lab


class Notebook:
    """A notebook whose kernel is on a node, with a page."""

    def __init__(self, lab: LabServer, follow: Open, kind: str = ONE_CARD, *, source: str = "") -> None:
        self.lab = lab
        self.cwd = Path(tempfile.mkdtemp(dir=lab.folder))
        self.name = f"{self.cwd.name}/train.ipynb"
        content = notebook_of("first", "second")
        content["cells"][0]["source"] = source
        (lab.folder / self.name).write_text(json.dumps(content))
        session = lab.session(self.name, kind)
        self.session, self.kernel = str(session["id"]), str(session["kernel"]["id"])
        self.page: StreamPage = follow(lab, self.kernel)

    @property
    def folder(self) -> Path:
        """The folder of its job."""
        return self.lab.home / "runtimes" / self.kernel / "node"

    @property
    def job(self) -> str:
        """The number of its job."""
        path = self.folder / "job.json"
        return str(json.loads(path.read_text())["reference"]) if path.exists() else ""

    def state(self) -> dict[str, Any]:
        """What its relay has written last."""
        return self.lab.state(self.kernel) or {}

    def outputs(self, cell: str) -> list[dict[str, Any]]:
        """The outputs of a cell, as a page that opens the notebook gets them."""
        cells = self.lab.get(f"/api/contents/{self.name}?type=notebook").json()["content"]["cells"]
        return next(list(each["outputs"]) for each in cells if each["id"] == cell)

    def printed(self, cell: str) -> str:
        """What a cell has printed, as a page that opens the notebook gets it."""
        return "".join(each["text"] for each in self.outputs(cell) if each["output_type"] == "stream")

    def error(self, cell: str) -> str:
        """The note in a cell about the end of its kernel; "" if there is none."""
        return next((str(each["evalue"]) for each in self.outputs(cell) if each["output_type"] == "error"), "")


def is_in_journal(folder: Path, words: bytes) -> bool:
    """Whether the journal in a folder has these words."""
    return any(words in path.read_bytes() for path in folder.glob("*.log"))


def runtime_processes(root: Path) -> list[int]:
    """The processes of runtimes whose state is below a folder, here and on nodes."""
    mark, pids = f"OWNLAB_HOME={root}/".encode(), []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            environ = (path / "environ").read_bytes().split(b"\0")
            if any(each.startswith(mark) for each in environ) and any(
                each.startswith(b"OWNLAB_RUNTIME=") for each in environ
            ):
                pids.append(int(path.name))
    return pids
