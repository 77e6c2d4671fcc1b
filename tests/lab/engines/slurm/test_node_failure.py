"""A node that dies while a script runs on it: Slurm notices after SlurmdTimeout, and the run says so."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.engines.slurm.conftest import running_cluster

if TYPE_CHECKING:
    from tests.command_line import World
    from tests.lab.engines.slurm.cluster import Cluster

WAITS = """
import time
print("at work", flush=True)
while True: time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that gives up a node soon."""
    with running_cluster(node_timeout=10) as cluster:
        yield cluster


def test_a_node_without_power_is_named(member: World, cluster: Cluster, until: Any) -> None:
    path = member.root / "train.py"
    path.write_text(WAITS)
    member.env["OWNLAB_SLURM_OPTIONS"] = "--nodelist=n2"
    process = member.start("run", "--engine", "slurm", "--python", sys.executable, str(path))
    try:
        log = member.root / "train-run" / "rank-0.log"
        until(lambda: log.exists() and "at work" in log.read_text())
        cluster.cut_power("n2")
        stdout, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, stdout, "a node of its Slurm job has failed" in stderr) == (1, "at work\n", True), (
        stderr
    )
    report = json.loads(member.run("runtimes", "log", "--json", "train.py").stdout)
    assert (report["status"], report["cause"], report["exit_code"]) == ("failed", "node_failure", None)
