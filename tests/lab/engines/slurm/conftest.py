"""A Slurm cluster for the tests of this folder, and ownlab beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.lab.engines.slurm.cluster import Cluster, missing

if TYPE_CHECKING:
    from tests.command_line import World


@contextmanager
def running_cluster(**settings: int) -> Iterator[Cluster]:
    """A cluster that is ended at the end; the test is skipped where there is no Slurm."""
    lacking = missing()
    if lacking:
        pytest.skip(f"{lacking} is not installed; `scripts/setup test` installs Slurm where it may")
    # A short path: munged's socket is in it.
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)  # daemons refuse a socket in a folder that others cannot enter
    cluster = Cluster(root, **settings)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes with four fake GPUs each."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def member(world: World, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> World:
    """ownlab on a member of the cluster; this process has the same environment."""
    world.env |= {
        "SLURM_CONF": cluster.env["SLURM_CONF"],
        "PATH": cluster.env["PATH"],
        "OWNLAB_SLURM_POLL_SECONDS": "0.2",
    }
    world.env["OWNLAB_SLURM_DEADLINE_SECONDS"] = "300"
    for name in list(os.environ):
        if name not in world.env:
            monkeypatch.delenv(name)
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    return world
