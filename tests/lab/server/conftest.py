"""A real lab server as a child process, with its own home, store and kernelspecs, and pages that talk to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websocket

from ownlab.lab.runtimes.state import is_alive, read_state

TOKEN = "a-token-of-the-tests"
FOUR_CARDS = Path(__file__).resolve().parents[2] / "machines" / "gtx1080ti-x4.json"
PATIENCE = 180.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return the first true value of a condition."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.05)
    pytest.fail(f"not within {seconds:g} s: {what}")


class Page:
    """A page's plain Jupyter websocket to a kernel."""

    def __init__(self, url: str) -> None:
        self.session = uuid.uuid4().hex
        self._socket = websocket.create_connection(
            f"{url}?session_id={self.session}", header=[f"Authorization: token {TOKEN}"], timeout=PATIENCE
        )

    def execute(self, code: str, cell: str = "") -> str:
        """Send a cell and return the id of its message."""
        message = uuid.uuid4().hex
        header = {"msg_id": message, "msg_type": "execute_request", "session": self.session, "username": "", "date": "",
                  "version": "5.3"}  # fmt: skip
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        request = {
            "header": header,
            "parent_header": {},
            "metadata": {"cellId": cell} if cell else {},
            "content": content,
            "channel": "shell",
            "buffers": [],
        }
        self._socket.send(json.dumps(request))
        return message

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Return all messages up to the wanted one."""
        received: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            received.append(json.loads(self._socket.recv()))
            if condition(received[-1]):
                return received
        pytest.fail(f"not among {len(received)} messages")

    def printed(self, text: str) -> str:
        """Return everything printed up to this text."""
        printed = ""

        def has(message: dict[str, Any]) -> bool:
            nonlocal printed
            if message["msg_type"] == "stream":
                printed += message["content"]["text"]
            return text in printed

        self.until(has)
        return printed

    def run(self, code: str) -> str:
        """Return what a cell prints, or the name of its error."""
        request = self.execute(code)
        received = self.until(
            lambda message: (
                message["msg_type"] == "status"
                and message["parent_header"].get("msg_id") == request
                and message["content"]["execution_state"] == "idle"
            )
        )
        mine = [message for message in received if message["parent_header"].get("msg_id") == request]
        return "".join(
            message["content"].get("text", "") if message["msg_type"] == "stream" else message["content"]["ename"]
            for message in mine
            if message["msg_type"] in ("stream", "error")
        )

    def close(self) -> None:
        self._socket.close()
        self._socket.shutdown()  # type: ignore[no-untyped-call]  # where the server has closed it, `close` leaves our end open


class LabServer:
    """`python -m ownlab.lab.server` for one folder; it can be killed and started again."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder, self.environ = folder, environ
        self.port = unused_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder.parent / f"{folder.name}.log"
        self.pages: list[Page] = []
        self.client = httpx.Client(headers={"Authorization": f"token {TOKEN}"}, timeout=PATIENCE, trust_env=False)

    token = TOKEN

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def home(self) -> Path:
        return Path(self.environ["OWNLAB_HOME"])

    def spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "ownlab.lab.server", "--folder", str(self.folder), "--port", str(self.port)],
                env={**self.environ, "OWNLAB_TOKEN": TOKEN},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self) -> LabServer:
        self.process = self.spawn()
        wait_for(self._answers, f"the server answers; its log:\n{self.log.read_text()}")
        wait_for(lambda: "python3" in self.get("/api/kernelspecs").json()["kernelspecs"], "there are kernelspecs")
        return self

    def end(self, signum: int) -> None:
        assert self.process is not None
        self.process.send_signal(signum)
        self.process.wait(PATIENCE)

    def get(self, path: str) -> httpx.Response:
        return self.client.get(self.url + path).raise_for_status()

    def post(self, path: str, body: object = None) -> httpx.Response:
        return self.client.post(self.url + path, json=body).raise_for_status()

    def session(self, notebook: str = "train.ipynb", kernel: str = "ownlab-cpu") -> dict[str, Any]:
        """Open a notebook."""
        body = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": kernel}}
        session: dict[str, Any] = self.post("/api/sessions", body).json()
        return session

    def kernel(self, kernel_id: str) -> dict[str, Any]:
        model: dict[str, Any] = self.get(f"/api/kernels/{kernel_id}").json()
        return model

    def page(self, kernel_id: str) -> Page:
        self.pages.append(Page(f"ws://127.0.0.1:{self.port}/api/kernels/{kernel_id}/channels"))
        return self.pages[-1]

    def state(self, runtime: str) -> dict[str, Any] | None:
        return read_state(self.home / "runtimes" / runtime)

    def processes(self, runtime: str) -> list[dict[str, int]]:
        """Return the running processes of a runtime: keeper, supervisor and kernel."""
        state = self.state(runtime) or {}
        return [process for name in ("keeper", "supervisor", "kernel") if (process := state.get(name))]

    def clear(self) -> None:
        """End the server and everything it has started, whatever a test has done to it."""
        self.client.close()
        for page in self.pages:
            page.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for home in (self.home / "runtimes").glob("*"):
            for process in self.processes(home.name):
                if is_alive(process):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process["pid"], signal.SIGKILL)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            pytest.fail(f"the server ended with {self.process.returncode}:\n{self.log.read_text()}")
        try:
            return self.client.get(f"{self.url}/api/status").status_code == 200
        except httpx.TransportError:
            return False


def unused_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port


def environ_for(root: Path) -> dict[str, str]:
    """Return an environment in which nothing outside this folder is touched."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OWNLAB_", "JUPYTER"))}
    return {
        **kept,
        "HOME": str(root),
        "OWNLAB_HOME": str(root / "state"),
        "OWNLAB_STORE": str(root / "store"),
        "OWNLAB_CONFIG": str(root / "config.toml"),
        "OWNLAB_KERNELS": str(root / "jupyter" / "kernels"),
        "OWNLAB_MACHINE": str(FOUR_CARDS),
        "JUPYTER_PATH": str(root / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(root / "jupyter-runtime"),
        "JUPYTER_CONFIG_DIR": str(root / "jupyter-config"),
        "IPYTHONDIR": str(root / "ipython"),
    }


@contextlib.contextmanager
def labs_in(root: Path) -> Iterator[Callable[[str], LabServer]]:
    made: list[LabServer] = []

    def make(name: str = "work") -> LabServer:
        (root / name).mkdir()
        made.append(LabServer(root / name, environ_for(root)))
        return made[-1]

    try:
        yield make
    finally:
        for lab in made:
            lab.clear()


@pytest.fixture
def new_lab(tmp_path: Path) -> Iterator[Callable[[str], LabServer]]:
    """Create labs of one user by folder name, without starting them."""
    with labs_in(tmp_path) as make:
        yield make


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A running lab for all tests of a file."""
    with labs_in(tmp_path_factory.mktemp("lab")) as make:
        yield make("work").start()


@pytest.fixture
def until() -> Callable[..., Any]:
    """Wait for a condition."""
    return wait_for


@pytest.fixture
def free_port() -> Callable[[], int]:
    return unused_port
