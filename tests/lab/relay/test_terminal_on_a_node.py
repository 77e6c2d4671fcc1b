"""Terminals of the lab on the node of a notebook: in its job, with its cards, and without what the lab's machine keeps secret."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import websocket
from tests.lab.relay.conftest import ALL_CARDS, CPU, Notebook
from tests.lab.server.conftest import PATIENCE, TOKEN, wait_for

if TYPE_CHECKING:
    from tests.lab.engines.slurm.cluster import Cluster
    from tests.lab.server.conftest import LabServer
    from tests.lab.server.stream_page import Open

Until = Callable[..., Any]


class Terminal:
    """What a page shows of a terminal."""

    def __init__(self, lab: LabServer, name: str) -> None:
        url = f"{lab.url.replace('http', 'ws')}/terminals/websocket/{name}"
        self._socket = websocket.create_connection(url, header=[f"Authorization: token {TOKEN}"], timeout=1)
        self.printed = ""

    def type(self, line: str) -> None:
        self._socket.send(json.dumps(["stdin", f"{line}\n"]))

    def until(self, pattern: str) -> re.Match[str]:
        """Wait until this is printed."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.printed)) is None:
            assert time.monotonic() < deadline, self.printed
            try:
                kind, *values = json.loads(self._socket.recv())
            except websocket.WebSocketTimeoutException:
                continue
            self.printed += values[0] if kind == "stdout" else f"<{kind}>"
        return found

    def close(self) -> None:
        self._socket.close()


@contextmanager
def opened(notebook: Notebook) -> Iterator[Terminal]:
    answer = notebook.lab.client.post(f"{notebook.lab.url}/ownlab/api/runtimes/{notebook.kernel}/terminal", json={})
    assert answer.is_success, answer.text
    terminal = Terminal(notebook.lab, answer.json()["name"])
    yield terminal
    terminal.close()


def test_a_terminal_is_in_the_job_of_its_notebook(lab: LabServer, follow: Open, until: Until) -> None:
    notebook = Notebook(lab, follow, ALL_CARDS)
    notebook.page.run("kept = 1")
    with opened(notebook) as terminal:
        terminal.type(
            "echo job=$SLURM_JOB_ID node=$SLURMD_NODENAME cards=$CUDA_VISIBLE_DEVICES in=$PWD; echo token=$OWNLAB_TOKEN."
        )
        found = terminal.until(r"job=(\d+) node=(\w+) cards=([\d,]*) in=(\S+)")
        assert found.groups() == (notebook.job, notebook.state()["node"]["name"], "0,1,2,3", str(notebook.cwd))
        terminal.until(r"token=\.")
        terminal.type("echo python=$(command -v python).")
        terminal.until(rf"python={re.escape(str(Path(sys.executable).parent))}/python\.")
        terminal.type("sleep 1000")
        terminal.type("\x03")
        terminal.type("echo after=$((6*7))")
        terminal.until(r"after=42")
        assert notebook.page.run("print(kept)") == "1\n", "the kernel goes on beside it"
        assert lab.client.delete(f"{lab.url}/api/sessions/{notebook.session}", timeout=180).is_success
        terminal.until("<disconnect>")


def test_a_terminal_of_a_job_without_cards_sees_none(lab: LabServer, follow: Open) -> None:
    notebook = Notebook(lab, follow, CPU)
    notebook.page.run("1")
    with opened(notebook) as terminal:
        terminal.type('echo cards="${CUDA_VISIBLE_DEVICES-all}".')
        terminal.until(r"cards=\.")


def test_a_runtime_that_has_no_node_yet_says_so(lab: LabServer, cluster: Cluster, follow: Open) -> None:
    for _ in range(2):
        cluster.ask("sbatch", "--partition=gpu", "--gres=gpu:fake:4", "--output=/dev/null", "--wrap", "sleep 600")
    wait_for(lambda: cluster.ask("squeue", "-h", "-t", "running", "-o", "%i").split()[1:], "both nodes are taken")
    notebook = Notebook(lab, follow)
    answer = lab.client.post(f"{lab.url}/ownlab/api/runtimes/{notebook.kernel}/terminal", json={})
    assert (answer.is_success, "does not run yet" in answer.text) == (False, True), answer.text
    here = lab.session("here.ipynb", "ownlab-cpu")
    answer = lab.client.post(f"{lab.url}/ownlab/api/runtimes/{here['kernel']['id']}/terminal", json={})
    assert "not on a node" in answer.text


def test_a_port_that_only_the_node_has_is_named_as_missing(lab: LabServer, follow: Open) -> None:
    notebook = Notebook(lab, follow, CPU)
    notebook.page.run("1")
    node = notebook.state()["node"]["name"]
    wait_for(lambda: lab.client.get(f"{lab.url}/proxy/9/").status_code == 502, "the proxy is there")
    answer = lab.client.get(f"{lab.url}/proxy/9/")
    assert "Ports of nodes are not forwarded" in answer.text
    assert node in answer.text
