"""The runtime types of a cluster, from its partitions and nodes as Slurm describes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.config.settings import LabOptions
from ownlab.lab.engines.slurm.notebook_types import notebook_types
from ownlab.lab.engines.slurm.records import ClusterNode, Gpus, Partition
from ownlab.lab.engines.slurm.requests import Site

DAY = 86_400.0
NODE = ClusterNode("n1", "IDLE", frozenset(), ("gpu",), (Gpus("a100", 2),), 0, 16, "")


def partition(time_limit: float | None = 2 * DAY, default_time: float | None = None) -> Partition:
    return Partition("gpu", True, True, time_limit, default_time, "n1", None)


@pytest.mark.parametrize(
    ("described", "asked", "seconds"),
    [
        (partition(), "", 2 * DAY),
        (partition(default_time=3600.0), "", 3600.0),
        (partition(default_time=3600.0), "1-12:00:00", 1.5 * DAY),
        (partition(time_limit=None), "", None),
        (partition(time_limit=None), "30", 1800.0),
    ],
)
def test_a_type_says_how_long_a_job_may_run(
    tmp_path: Path, described: Partition, asked: str, seconds: float | None
) -> None:
    site, env = Site((described,), (NODE,)), {"OWNLAB_HOME": str(tmp_path)}
    types = notebook_types(site, LabOptions(slurm_time=asked), env)
    assert [(each.kind, each.cards) for each in types] == [(None, 0), ("a100", 1), ("a100", 2)]
    assert {each.time_limit for each in types} == {seconds}
