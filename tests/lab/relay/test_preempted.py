"""A notebook on a node whose job is preempted: the cell says so, and nothing starts again by itself."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.engines.slurm.cluster import Cluster, missing
from tests.lab.relay.conftest import ALL_CARDS, SLEEPS, Notebook

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

PREEMPTION = """
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=urgent Nodes=n1,n2 PriorityTier=10 PreemptMode=off MaxTime=60 State=UP
"""


class PreemptingCluster(Cluster):
    """Jobs of its partition "urgent" take the place of others."""

    def _write_config(self) -> None:
        super()._write_config()
        with open(self.root / "slurm.conf", "a", encoding="utf-8") as file:
            file.write(PREEMPTION)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    lacking = missing()
    if lacking:
        pytest.skip(f"{lacking} is not installed")
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = PreemptingCluster(root, kill_wait=10)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def test_a_preempted_notebook_says_so_in_the_cell(
    lab: LabServer, follow: Open, cluster: Cluster, until: Callable[..., Any]
) -> None:
    notebook = Notebook(lab, follow, ALL_CARDS)
    notebook.page.execute(SLEEPS, cell="first")
    notebook.page.until_kind("stream")
    job = notebook.job
    urgent = ["--partition=urgent", "--nodes=2", "--gres=gpu:fake:4", "--output=/dev/null", "--wrap", "sleep 600"]
    cluster.ask("sbatch", *urgent)
    until(lambda: "Slurm preempted it for a job of higher priority" in notebook.error("first"), "the cell says why")
    assert notebook.printed("first") == "at work\n"
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")
    until(lambda: cluster.ask("squeue", "-h", "-o", "%P %T").split() == ["urgent", "RUNNING"], "nothing was requeued")
    assert "PREEMPTED" in cluster.ask("scontrol", "-o", "show", "job", job)
