"""A lab's server as a job of the cluster, where login nodes kill what people leave running: it ends, and its notebooks go on."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import NodeCluster, lacking
from tests.lab.relay.conftest import CPU, SETTINGS
from tests.lab.server.conftest import LabServer, environ_for, unused_port, wait_for
from tests.lab.server.journal_maker import notebook_of

Until = Callable[..., Any]

STEPS = """
import os, time
for number in range(1, 4):
    while not os.path.exists(f"step-{number}"): time.sleep(0.02)
    print("step", number, flush=True)
print("end")
"""
# What a page does, on the node of the server: it listens on 127.0.0.1 there.
CLIENT = """
import json, sys, urllib.request, uuid, websocket
url, token, kind, code = sys.argv[1:]
headers = {"Authorization": "token " + token, "Content-Type": "application/json"}
body = {"path": "train.ipynb", "name": "train.ipynb", "type": "notebook", "kernel": {"name": kind}}
request = urllib.request.Request(url + "api/sessions", json.dumps(body).encode(), headers)
kernel = json.load(urllib.request.urlopen(request, timeout=180))["kernel"]["id"]
channel = websocket.create_connection(f"{url.replace('http', 'ws')}api/kernels/{kernel}/channels", header=headers, timeout=180)
header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"}
content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
channel.send(json.dumps({"header": header, "parent_header": {}, "metadata": {"cellId": "first"}, "content": content, "channel": "shell"}))
while json.loads(channel.recv())["msg_type"] != "stream": pass
print(kernel)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[NodeCluster]:
    """Two nodes in namespaces."""
    reason = missing() or lacking()
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = NodeCluster(root, node_timeout=3600, kill_wait=10)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def queue(cluster: NodeCluster) -> dict[str, str]:
    """The state of each job that has not ended."""
    lines = cluster.ask("squeue", "-h", "-o", "%i %T").splitlines()
    return {fields[0]: fields[1] for fields in map(str.split, lines) if fields}


def test_notebooks_go_on_when_the_job_of_their_server_ends(tmp_path: Path, cluster: NodeCluster, until: Until) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.ipynb").write_text(json.dumps(notebook_of("first", "second")))
    (folder / "step-1").touch()
    environ = environ_for(tmp_path) | {name: cluster.env[name] for name in ("SLURM_CONF", "PATH")} | SETTINGS
    environ["OWNLAB_ENVIRONMENTS_DEFAULT"] = "no"
    given = [sys.executable, "-m", "ownlab", "up", str(folder), "--no-browser", "--port", str(unused_port())]
    cluster.env |= environ  # sbatch passes it on
    options = ["--parsable", f"--output={tmp_path}/server.log", "--nodelist=n1", f"--chdir={folder}"]
    server = cluster.ask("sbatch", *options, "--wrap", shlex.join(given)).strip()
    record = wait_for(lambda: next((tmp_path / "state" / "labs").glob("*.json"), None), "the server runs")
    wait_for(lambda: json.loads(record.read_text()).get("state") == "ready", "the server answers")
    about = json.loads(record.read_text())
    wait_for(lambda: (tmp_path / "state" / "cluster" / "kernels" / CPU).exists(), "the cluster is offered")
    kernel = cluster.inside("n1", sys.executable, "-c", CLIENT, about["url"], about["token"], CPU, STEPS).strip()
    assert len(kernel.splitlines()) == 1, kernel
    [notebook] = set(queue(cluster)) - {server}
    cluster.ask("scancel", server)
    until(lambda: server not in queue(cluster), "the job of the server has ended")
    (folder / "step-2").touch()
    assert queue(cluster) == {notebook: "RUNNING"}, (tmp_path / "server.log").read_text()

    lab = LabServer(folder, environ)
    try:
        lab.start()  # on the login node
        (folder / "step-3").touch()

        def printed() -> str:
            cells = lab.get("/api/contents/train.ipynb?type=notebook").json()["content"]["cells"]
            outputs = next(cell["outputs"] for cell in cells if cell["id"] == "first")
            return "".join(each["text"] for each in outputs if each["output_type"] == "stream")

        until(lambda: printed() == "step 1\nstep 2\nstep 3\nend\n", "everything, once")
        assert lab.state(kernel) is not None
        for session in lab.get("/api/sessions").json():
            lab.client.delete(f"{lab.url}/api/sessions/{session['id']}")
        until(lambda: queue(cluster) == {}, "its job is gone")
        lab.end(signal.SIGTERM)
    finally:
        lab.clear()
