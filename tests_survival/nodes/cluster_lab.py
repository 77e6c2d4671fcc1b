"""A lab on the login node of a real Slurm whose two nodes are namespaces of this machine, and what may happen to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.engines.slurm.node_namespaces import NodeCluster
from tests.lab.server.conftest import wait_for
from tests_survival.matrix import Matrix
from tests_survival.page import Site

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NODES", "TYPE", "ClusterLab"]

TYPE = "ownlab-slurm-gpu-cpu"
NODES = ("n1", "n2")
# A poll of each job every second is usual on a small cluster; commands may be slow on a busy machine.
SETTINGS = {"OWNLAB_LAB_ENGINE": "slurm", "OWNLAB_SLURM_POLL_SECONDS": "1", "OWNLAB_SLURM_DEADLINE_SECONDS": "120"}
# Seconds without its daemon after which Slurm gives a node up: more than any cut of the line.
NODE_TIMEOUT = 90


class ClusterLab(Matrix):
    """One lab and one cluster for many runs."""

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        super().__init__(root, cache)
        folder = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))  # a short path: munged's socket is in it
        folder.chmod(0o755)
        self.cluster = NodeCluster(folder, node_timeout=NODE_TIMEOUT, kill_wait=10)
        self.lab.environ |= {name: self.cluster.env[name] for name in ("SLURM_CONF", "PATH")} | SETTINGS
        self.happened: dict[str, int] = defaultdict(int)  # faults of the cluster, by their kind
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def start(self) -> Self:
        self.cluster.start()
        super().start()
        wait_for(lambda: TYPE in self.lab.get("/api/kernelspecs").json()["kernelspecs"], "the cluster is offered")
        return self

    def clear(self) -> None:
        super().clear()
        self.cluster.stop()
        shutil.rmtree(self.cluster.root, ignore_errors=True)

    def connect_again(self) -> None:
        """For another event loop: connections and locks belong to one."""
        self.site = Site(self.lab.url, self.lab.token)
        self._locks.clear()
        self._striking = asyncio.Lock()

    def state(self, kernel: str) -> dict[str, Any]:
        """What the relay of a runtime has written last."""
        return self.lab.state(kernel) or {}

    def node_of(self, kernel: str) -> str:
        """The node of a runtime; "" if it has none yet, or not any more."""
        return str((self.state(kernel).get("node") or {}).get("name") or "")

    async def cut_line(self, node: str, seconds: float) -> None:
        """Pull the cable of a node, and plug it in again."""
        async with self._locks[node]:
            self.happened["line"] += 1
            with self.cluster.cut_network(node):
                await asyncio.sleep(seconds)

    def kill_relay(self, kernel: str, *, keeper: bool) -> None:
        """Kill the process that stands for a runtime here, and what would start it again."""
        self.happened["login" if keeper else "relay"] += 1
        state = self.state(kernel)
        for name in ("keeper", "supervisor") if keeper else ("supervisor",):
            with contextlib.suppress(KeyError, TypeError, ProcessLookupError):  # it has ended, or is just starting
                os.kill(state[name]["pid"], signal.SIGKILL)

    async def restart_controller(self, seconds: float) -> None:
        """End slurmctld as an administrator does, and start it again."""
        async with self._locks["slurmctld"]:
            self.happened["controller"] += 1
            await asyncio.to_thread(self.cluster.end, "slurmctld")
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.cluster.start_controller)

    async def restart_daemon(self, node: str) -> None:
        """Kill slurmd of a node and start it again."""
        async with self._locks[node]:
            self.happened["slurmd"] += 1
            await asyncio.to_thread(self.cluster.restart_daemon, node)

    async def until_idle(self) -> None:
        """Wait until the cluster has no job and both nodes take some."""
        await asyncio.to_thread(wait_for, lambda: self.cluster.idle() == len(NODES), "both nodes are idle")
