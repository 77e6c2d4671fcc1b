"""Starts real supervisors in a folder of the test, and leaves none of their processes behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.blocking.client import BlockingKernelClient

from ownlab.atomic_files import replace_file
from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import Record, json_object
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.start import new_connection
from ownlab.lab.store.rows import Device
from ownlab.lab.store.store import Store
from ownlab.lab.transport import control as control_client
from ownlab.lab.transport.endpoints import Endpoint
from ownlab.lab.transport.journal_protocol import DUPLICATE, FOLLOW, HELLO, PING, SEND, unpack

LAUNCH = Path(__file__).parents[3] / "src" / "ownlab_guest" / "kernel" / "launch.py"
PATIENCE = 180.0

CARDS = tuple(Device(f"GPU-{number}", "nvidia", number, "NVIDIA GeForce GTX 1080 Ti") for number in range(4))


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Wait until the condition is true and return its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := condition():
            return result
        time.sleep(0.01)
    raise AssertionError(f"after {seconds:g} s still not: {what}")


def of_runtime(runtime: str) -> list[int]:
    """Every living process with the runtime's mark in its environment."""
    mark = f"OWNLAB_RUNTIME={runtime}".encode()
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if mark in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    pids.append(int(name))
            except OSError:
                continue
    return pids


class Follower:
    """At a runtime's line, as a server is."""

    def __init__(self, endpoint: Endpoint, only: list[str] | None = None, *, page: bool = False) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._socket = context.socket(zmq.DEALER)
        self._socket.sndhwm = self._socket.rcvhwm = 0
        endpoint.connect(self._socket)
        self.records: list[Record] = []
        self.refused: list[str] = []
        self._socket.send_multipart([FOLLOW, json.dumps({"only": only, "page": page}).encode()])
        what, output = self._receive(PATIENCE)
        assert what == HELLO
        self.hello: dict[str, Any] = json.loads(output)

    def send(
        self,
        kind: str,
        content: dict[str, Any],
        channel: str = "shell",
        parent: bytes = b"{}",
        name: str = "",
        metadata: bytes = b"{}",
    ) -> str:
        """Send a message to the kernel; its id."""
        name = name or uuid.uuid4().hex
        header = {
            "msg_id": name,
            "msg_type": kind,
            "session": "page",
            "username": "",
            "date": "2026-01-01T00:00:00Z",
            "version": "5.3",
        }
        parts = [json.dumps(header).encode(), parent, metadata, json.dumps(content).encode()]
        self._socket.send_multipart([SEND, channel.encode(), *parts])
        return name

    def execute(self, code: str, name: str = "", cell: str = "") -> str:
        metadata = json.dumps({"cellId": cell} if cell else {}).encode()
        return self.send("execute_request", {"code": code, "allow_stdin": True}, name=name, metadata=metadata)

    def run_cell(self, cell: str, code: str) -> list[Record]:
        """Run a notebook's cell to its end."""
        metadata = json.dumps({"cellId": cell}).encode()
        return self.until_done(self.send("execute_request", {"code": code}, metadata=metadata))

    def run(self, code: str) -> list[Record]:
        """Return the messages from a request to its end."""
        return self.until_done(self.execute(code))

    def until_done(self, request: str) -> list[Record]:
        """Return the messages up to both the kernel's reply and its idle status, which come on different sockets."""
        missing = {"execute_reply", "idle"}

        def done(record: Record) -> bool:
            if len(record.parts) > 3 and json_object(record.parts[1]).get("msg_id") == request:
                missing.discard(str(json_object(record.parts[3]).get("execution_state")))
                missing.discard(str(json_object(record.parts[0]).get("msg_type")))
            return not missing

        return self.until(done)

    def answer(self, question: Record, value: str) -> str:
        return self.send("input_reply", {"value": value, "status": "ok"}, "stdin", question.parts[0])

    def until(self, condition: Callable[[Record], bool], seconds: float = PATIENCE) -> list[Record]:
        """Everything that is heard, up to what meets the condition."""
        records: list[Record] = []
        end = time.monotonic() + seconds
        while not records or not condition(records[-1]):
            frames = self._receive(end - time.monotonic())
            if frames[0] == DUPLICATE:
                self.refused.append(frames[1].decode())
            else:
                records.append(unpack(frames))
                self.records.append(records[-1])
        return records

    def until_refused(self, name: str) -> None:
        end = time.monotonic() + PATIENCE
        while name not in self.refused:
            frames = self._receive(end - time.monotonic())
            if frames[0] == DUPLICATE:
                self.refused.append(frames[1].decode())
            else:
                self.records.append(unpack(frames))

    def _receive(self, seconds: float) -> list[bytes]:
        end = time.monotonic() + seconds
        frames = [PING]
        while frames[0] == PING:
            assert self._socket.poll(int(max(0.0, end - time.monotonic()) * 1000)), "nothing was heard"
            frames = self._socket.recv_multipart()
        return frames

    def close(self) -> None:
        self._socket.close(linger=0)


class Started:
    """A runtime that a test has started."""

    def __init__(self, plan: Plan, process: subprocess.Popen[bytes]) -> None:
        self.plan, self.process = plan, process
        self.home = Path(plan.home)
        self._clients: list[BlockingKernelClient] = []
        self._followers: list[Follower] = []

    def state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads((self.home / "state.json").read_text())
        except FileNotFoundError:
            return {"state": "none"}
        return state

    def wait(self, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            now = self.state()
            return now if now["state"] in states else None

        try:
            state: dict[str, Any] = wait_for(reached, f"state {states}")
        except AssertionError as exc:
            raise AssertionError(f"{exc}; it is {self.state()}; log: {self.log()}") from exc
        return state

    def log(self) -> str:
        path = self.home / "log"
        return path.read_text() if path.exists() else "gone"

    def client(self, **changes: Any) -> BlockingKernelClient:
        client = BlockingKernelClient()
        connection: Any = {**self.wait("running", "waiting")["connection"], **changes}
        client.load_connection_info(connection)
        client.start_channels()
        self._clients.append(client)
        return client

    def ready(self) -> BlockingKernelClient:
        client = self.client()
        client.wait_for_ready(timeout=PATIENCE)
        return client

    def follow(self, only: list[str] | None = None, *, page: bool = False) -> Follower:
        """A follower of a runtime of a lab, once that has a kernel or waits for one."""
        self.wait("running", "waiting", "dead")
        self._followers.append(Follower(self.plan.journal_endpoint, only, page=page))
        return self._followers[-1]

    def journal(self, after: int = 0) -> list[Record]:
        return list(records_after(Path(self.plan.journal), after))

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        return control_client.send_command(self.plan.control_endpoint, do, **values)

    def pid(self, who: str) -> int:
        return int(self.state()[who]["pid"])

    def ended(self) -> int:
        """Its exit code, once every process of it is gone."""
        code = self.process.wait(PATIENCE)
        wait_for(lambda: not of_runtime(self.plan.runtime), "no process is left")
        return code

    def clear(self) -> None:
        for client in self._clients:
            client.stop_channels()
        for follower in self._followers:
            follower.close()
        for _ in range(1000):
            left = of_runtime(self.plan.runtime)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.005)
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait(PATIENCE)


class Bench:
    """Starts runtimes for tests."""

    cards = CARDS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Started] = []

    @property
    def store(self) -> Store:
        return Store.open(self.folder / "store")

    def plan(self, **changes: Any) -> Plan:
        runtime = str(uuid.uuid4())
        home = self.folder / runtime[:8]
        home.mkdir(mode=0o700)
        plan = Plan(
            runtime=runtime,
            home=str(home),
            sockets=str(home),
            store=str(self.folder / "store"),
            type="ownlab-cpu",
            label="Python 3 (CPU)",
            argv=[sys.executable, str(LAUNCH), "-f", "{connection_file}"],
            cwd=str(self.folder),
            connection=new_connection(),
            detached=True,
        )
        return plan._replace(**changes)

    def start_in_lab(self, **changes: Any) -> Started:
        """A runtime that keeps a journal."""
        return self.start(lab="lab", journal=str(self.folder / "journals" / uuid.uuid4().hex), **changes)

    def start(self, *, env: dict[str, str] | None = None, **changes: Any) -> Started:
        plan = self.plan(**changes)
        replace_file(str(Path(plan.home, "plan.json")), plan.to_json())
        process = subprocess.Popen(
            [sys.executable, "-m", "ownlab.lab.supervisor", str(Path(plan.home, "plan.json"))],
            stdin=subprocess.DEVNULL if plan.detached else subprocess.PIPE,
            env={**os.environ, **(env or {}), "OWNLAB_RUNTIME": plan.runtime},
        )
        started = Started(plan, process)
        self.started.append(started)
        return started


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    place = Bench(tmp_path)
    yield place
    for started in place.started:
        started.clear()


@pytest.fixture(scope="module")
def module_bench() -> type[Bench]:
    """For runtimes that all tests of a file share."""
    return Bench


@pytest.fixture(scope="module")
def shared_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """One runtime for all tests of a file that leave it as it was."""
    runtime = Bench(tmp_path_factory.mktemp("shared")).start()
    yield runtime
    runtime.clear()


@pytest.fixture
def start_program() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start Python source in a process of its own, which can be stopped, and wait for the first line that it prints."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str, *arguments: str, first: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", source, *arguments], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == first + "\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """Whether a process has ended, even where nobody has waited for it."""

    def gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except FileNotFoundError:
            return True

    return gone


@pytest.fixture
def marked() -> Callable[[str], list[int]]:
    return of_runtime


@pytest.fixture
def waiting() -> Callable[..., Any]:
    return wait_for
