"""The lab beside plain JupyterLab, in one run: start to first result, kernel to first result, the idle server, memory.

Both are driven by the same client over HTTP and WebSocket, as a page would; nothing is drawn.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil  # type: ignore[import-untyped]
import websocket
from benchmarks.rows import row

TOKEN = uuid.uuid4().hex
IDLE_SECONDS = 60.0
RUNTIMES = 5
OURS, THEIRS = "ownlab-cpu", "python3"


class Server(NamedTuple):
    """A server that answers, and how to speak to it."""

    url: str
    token: str
    process: subprocess.Popen[bytes]
    began: float

    @property
    def headers(self) -> dict[str, str]:
        """As the page sends them."""
        return {"Authorization": f"token {self.token}"}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def environment(folder: Path) -> dict[str, str]:
    """Nothing of this user's Jupyter or ownlab is read or written."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "OWNLAB"))},
        "OWNLAB_HOME": str(folder / "state"),
        "OWNLAB_STORE": str(folder / "store"),
        "OWNLAB_CONFIG": str(folder / "none.toml"),
        "OWNLAB_ENVIRONMENTS_DEFAULT": "no",
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
    }


@contextmanager
def plain(folder: Path) -> Iterator[Server]:
    """`jupyter lab` as it comes."""
    port = free_port()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    with _started(command, folder) as (process, began):
        yield _answering(Server(f"http://127.0.0.1:{port}", TOKEN, process, began))


@contextmanager
def ours(folder: Path) -> Iterator[Server]:
    """`ownlab up`."""
    port = free_port()
    command = [sys.executable, "-m", "ownlab", "up", str(folder), "--no-browser", "--port", str(port)]
    with _started(command, folder) as (process, began):
        record = _await(lambda: next((folder / "state" / "labs").glob("*.json"), None), process)
        token = _await(lambda: json.loads(record.read_text()).get("token"), process)
        yield _answering(Server(f"http://127.0.0.1:{port}", token, process, began))
    ended = [sys.executable, "-m", "ownlab", "down", "--all"]
    subprocess.run(ended, env=environment(folder), check=True, stdout=subprocess.DEVNULL)


@contextmanager
def _started(command: list[str], folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    began = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=log, stderr=log)
    try:
        yield process, began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _await(ask: Callable[[], Any], process: subprocess.Popen[bytes], within: float = 60.0) -> Any:
    deadline = time.perf_counter() + within
    while time.perf_counter() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"{process.args!r} ended with {process.returncode}")
        try:
            if answer := ask():
                return answer
        except (httpx.HTTPError, json.JSONDecodeError, OSError):
            pass
        time.sleep(0.01)
    raise SystemExit(f"{process.args!r} did not answer in {within:.0f} s")


def _answering(server: Server) -> Server:
    _await(lambda: httpx.get(f"{server.url}/api/status", headers=server.headers).is_success, server.process)
    return server


def start_kernel(server: Server, name: str) -> str:
    """A kernel's id."""
    made = httpx.post(f"{server.url}/api/kernels", headers=server.headers, json={"name": name}, timeout=60)
    made.raise_for_status()
    kernel: str = made.json()["id"]
    return kernel


def first_result(server: Server, kernel: str) -> None:
    """Run a cell, and wait for what it prints."""
    address = f"{server.url.replace('http', 'ws')}/api/kernels/{kernel}/channels?session_id={uuid.uuid4().hex}"
    with closing(websocket.create_connection(address, header=server.headers, timeout=60)) as channel:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "session": "bench",
            "username": "",
            "version": "5.3",
        }
        content = {"code": "print(6 * 7)", "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        channel.send(json.dumps(message))
        while True:
            answer = json.loads(channel.recv())
            mine = answer["parent_header"].get("msg_id") == header["msg_id"]
            if mine and answer["msg_type"] == "stream" and "42" in answer["content"]["text"]:
                return


def up_to_result(serve: Callable[[Path], Any], name: str) -> float:
    """From the command to the first cell's result."""
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder)) as server:
        first_result(server, start_kernel(server, name))
        took: float = time.perf_counter() - server.began
        return took


def kernel_to_result(server: Server, name: str) -> float:
    """From the request for a kernel to the first cell's result."""
    began = time.perf_counter()
    kernel = start_kernel(server, name)
    first_result(server, kernel)
    took = time.perf_counter() - began
    httpx.delete(f"{server.url}/api/kernels/{kernel}", headers=server.headers, timeout=60).raise_for_status()
    return took


def server_of(server: Server) -> psutil.Process:
    """The process that listens: for ours it is a child of `ownlab up`."""
    family = [psutil.Process(server.process.pid)]
    family += family[0].children(recursive=True)
    port = int(server.url.rsplit(":", 1)[1])
    for process in family:
        if any(
            connection.laddr.port == port and connection.status == "LISTEN" for connection in process.net_connections()
        ):
            return process
    raise SystemExit("nobody listens")


def idle_share(server: Server, name: str) -> float:
    """Percent of a core that the server takes with idle kernels and no page."""
    for kernel in [start_kernel(server, name) for _ in range(RUNTIMES)]:
        first_result(server, kernel)
    process = server_of(server)
    time.sleep(5)  # what starting them still costs is not idling
    before = process.cpu_times()
    time.sleep(IDLE_SECONDS)
    after = process.cpu_times()
    spent: float = after.user + after.system - before.user - before.system
    return 100 * spent / IDLE_SECONDS


def supervisor_memory(server: Server) -> dict[str, Any]:
    """Proportional memory of what we add to one idle runtime, beside its kernel's."""
    home = psutil.Process(server.process.pid).environ()["OWNLAB_HOME"]
    supervising = [process for process in psutil.process_iter() if _supervises(process, home)]
    keeper = next(process for process in supervising if process.parent() not in supervising)
    supervisor = next(process for process in keeper.children() if process in supervising)
    sizes = [process.memory_full_info().pss / 2**20 for process in (keeper, supervisor, supervisor.children()[0])]
    print(f"keeper {sizes[0]:.1f}, supervisor {sizes[1]:.1f}, kernel {sizes[2]:.1f} MiB")
    return row("memory of keeper and supervisor, MiB / the kernel's", [(sizes[0] + sizes[1], sizes[2])], "", "MiB")


def _supervises(process: psutil.Process, home: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:  # it ended, or is another person's
        return False
    return "ownlab.lab.supervisor" in words and any(word.startswith(home) for word in words)


def lab_rows(rounds: int) -> list[dict[str, Any]]:
    """Every pair of the lab."""
    rows = [row("`ownlab up` to the first cell's result / `jupyter lab`", _ups(rounds), "1.15")]
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as two,
        ours(Path(one)) as mine,
        plain(Path(two)) as other,
    ):
        starts = [(kernel_to_result(mine, OURS), kernel_to_result(other, THEIRS)) for _ in range(rounds * 2 + 1)]
        rows.append(row("kernel start to first result / plain", starts[1:], "1.2"))
        idle = [(idle_share(mine, OURS), idle_share(other, THEIRS))]
        rows.append(row(f"server idle with {RUNTIMES} runtimes, % of a core / plain", idle, "1 % of a core", "%"))
        rows.append(supervisor_memory(mine))
    return rows


def _ups(rounds: int) -> list[tuple[float, float]]:
    up_to_result(ours, OURS), up_to_result(plain, THEIRS)  # caches warm for both
    return [(up_to_result(ours, OURS), up_to_result(plain, THEIRS)) for _ in range(rounds)]


if __name__ == "__main__":
    print(json.dumps(lab_rows(int(sys.argv[1]) if len(sys.argv) > 1 else 5), indent=1))
