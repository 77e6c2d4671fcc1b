"""Scripts on nodes that have a network, a name and processes of their own, as the machines of a cluster have."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.guest.conftest import torch_python  # noqa: F401  # a fixture
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import NodeCluster, lacking

if TYPE_CHECKING:
    from tests.command_line import World

RANKS = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print(os.uname().nodename, "rank", dist.get_rank(), "of", dist.get_world_size(), "total", total.item(),
      "cards", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[NodeCluster]:
    """Two nodes in namespaces; their names resolve to nothing there, as on machines without DNS."""
    reason = missing() or lacking()
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = NodeCluster(root)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def test_ranks_of_two_nodes_meet_by_gloo(member: World, torch_python: str) -> None:  # noqa: F811
    (member.root / "train.py").write_text(RANKS)
    ran = member.run(
        "run", "--engine", "slurm", "--python", torch_python, "--nodes", "2", "--gpus", "2", "--time", "5", "train.py"
    )
    assert ran.returncode == 0, ran.stderr
    # torch may warn before that a name cannot be resolved.
    assert ran.stdout.splitlines()[-1] == "n1 rank 0 of 4 total 10.0 cards 0,1"
    last = (member.root / "train-run" / "rank-3.log").read_text()
    assert last.splitlines()[-1] == "n2 rank 3 of 4 total 10.0 cards 0,1"
