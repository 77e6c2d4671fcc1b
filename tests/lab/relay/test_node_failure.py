"""A node that dies while a notebook runs on it: the cell says so, and keeps what reached the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.lab.relay.conftest import Notebook

if TYPE_CHECKING:
    from tests.lab.engines.slurm.cluster import Cluster
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

WAITS = "import os, time\nprint(os.environ['SLURMD_NODENAME'], flush=True)\nwhile True: time.sleep(0.02)"


def test_a_node_without_power_is_said_in_the_cell(
    lab: LabServer, follow: Open, cluster: Cluster, until: Callable[..., Any]
) -> None:
    notebook = Notebook(lab, follow)
    notebook.page.execute(WAITS, cell="first")
    waiting = notebook.page.execute("1", cell="second")
    node = notebook.page.until_kind("stream").content["text"].strip()
    cluster.cut_power(node)
    try:
        died = notebook.page.until_kind("died").content
    finally:
        cluster.start_node(node)
    assert died["death"]["summary"] == "The runtime was ended: a node of its Slurm job has failed."
    assert [note["msg_id"] for note in died["notes"] if note["output"]["ename"] == "NotRun"] == [waiting]
    until(lambda: "a node of its Slurm job has failed" in notebook.error("first"), "the cell says why")
    assert notebook.printed("first").strip() == node
    until(lambda: not notebook.folder.parent.exists(), "its folder is gone")
