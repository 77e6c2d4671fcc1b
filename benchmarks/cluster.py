"""Notebooks on nodes of a Slurm cluster on this machine, in one run: the start, and what the way from a node costs.

The cluster is that of the tests: two nodes with fake GPUs beside the controller. `sbatch` of a bare ipykernel is the least that a
start can cost. Prints are compared with a notebook on this machine, which shares its cores with the node.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import lab
from benchmarks.channel import Channel
from benchmarks.journal import PRINTS
from benchmarks.rows import row
from jupyter_client.blocking.client import BlockingKernelClient
from tests.lab.engines.slurm.cluster import Cluster

__all__ = ["cluster_rows"]

ON_NODE, HERE = "ownlab-slurm-gpu-cpu", "ownlab-cpu"
PATIENCE = 120.0


@contextmanager
def idle_cluster() -> Iterator[Cluster]:
    """Two nodes without jobs."""
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = Cluster(root, kill_wait=5)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def until_idle(cluster: Cluster) -> None:
    """Wait until both nodes are free again."""
    deadline = time.monotonic() + PATIENCE
    while cluster.idle() < 2 or cluster.ask("squeue", "-h").strip():
        if time.monotonic() > deadline:
            raise SystemExit(f"the cluster is not idle: {cluster.ask('squeue')}")
        time.sleep(0.1)


def bare_start(cluster: Cluster, folder: Path) -> float:
    """From sbatch of an ipykernel to its first result, over TCP as Jupyter's clients connect."""
    until_idle(cluster)
    name = uuid.uuid4().hex
    connection = folder / f"{name}.json"
    script = folder / f"{name}.sh"
    script.write_text(f"#!/bin/sh\nexec {sys.executable} -m ipykernel_launcher -f {connection}\n")
    began = time.perf_counter()
    ports = dict(zip(("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port"), _ports(5), strict=True))
    told = {"ip": "127.0.0.1", "transport": "tcp", "signature_scheme": "hmac-sha256", "key": name, "kernel_name": ""}
    connection.write_text(json.dumps({**ports, **told}))
    options = ["--parsable", f"--output={folder}/{name}.log", "--export=NONE", "--partition=gpu"]
    job = cluster.ask("sbatch", *options, str(script)).strip()
    client = BlockingKernelClient(connection_file=str(connection))
    client.load_connection_file()
    client.start_channels()
    try:
        # Requests wait in the socket until the kernel listens. The reply is the result: its output may not have been subscribed to yet.
        client.execute("print(6 * 7)")
        client.get_shell_msg(timeout=PATIENCE)
        took = time.perf_counter() - began
    finally:
        client.stop_channels()
        cluster.ask("scancel", job)
    return took


def _ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def our_start(cluster: Cluster, server: lab.Server) -> float:
    """From the request for a kernel on a node to its first result."""
    until_idle(cluster)
    return lab.kernel_to_result(server, ON_NODE)


def prints(server: lab.Server, rounds: int) -> list[tuple[float, float]]:
    """Seconds of 100,000 prints, on a node and on this machine in turn."""
    with closing(_channel(server, ON_NODE)) as node, closing(_channel(server, HERE)) as here:
        for channel in (node, here):
            channel.run("print('warm')")
        return [(_seconds(node), _seconds(here)) for _ in range(rounds)]


def _channel(server: lab.Server, name: str) -> Channel:
    return Channel(server, lab.start_kernel(server, name), "now")


def _seconds(channel: Channel) -> float:
    began = time.perf_counter()
    channel.run(PRINTS)
    return time.perf_counter() - began


@contextmanager
def cluster_lab(cluster: Cluster, folder: Path) -> Iterator[lab.Server]:
    """`ownlab up --engine slurm`, with the settings that it comes with."""
    kept = dict(os.environ)
    os.environ |= {"SLURM_CONF": cluster.env["SLURM_CONF"], "PATH": cluster.env["PATH"]}
    os.environ["OWNLAB_LAB_ENGINE"] = "slurm"
    before = lab.environment
    lab.environment = lambda folder: {**before(folder), "OWNLAB_LAB_ENGINE": "slurm"}  # it leaves our settings out
    try:
        with lab.ours(folder) as server:
            yield server
    finally:
        lab.environment = before
        os.environ.clear()
        os.environ.update(kept)


def cluster_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of the cluster."""
    with (
        idle_cluster() as cluster,
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        cluster_lab(cluster, Path(one)) as server,
    ):
        bare = Path(two)
        starts = [(our_start(cluster, server), bare_start(cluster, bare)) for _ in range(rounds + 1)]
        rows = [row("start on an idle cluster to first result / `sbatch` of a bare ipykernel", starts[1:], "1.5")]
        until_idle(cluster)
        rows.append(row("100,000 prints on a node to the page / on this machine", prints(server, rounds), "1.2"))
    return rows


if __name__ == "__main__":
    print(json.dumps(cluster_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=1))
