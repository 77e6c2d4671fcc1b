"""Clients that do not read: the server's memory does not grow with the output."""

from __future__ import annotations

import json
import os
import signal
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import websocket
from tests.lab.server.journal_maker import notebook_of
from tests.lab.server.stream_page import StreamPage

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

MEGABYTES = 120
# What waits between the kernel and its supervisor is no concern of these tests: the cell goes on when the journal has what
# it printed, but for the last few MB, however busy the machine is.
OUTPUT = """
import pathlib, time
def written():
    return sum(path.stat().st_size for path in pathlib.Path(JOURNAL).iterdir())
time.sleep(DELAY)
before = written()
for n in range(MEGABYTES):
    print("x" * 1_000_000, flush=True)
    while written() - before < (n - 4) * 1_000_000:
        time.sleep(0.005)
print("THE END")
"""


def peak(pid: int) -> int:
    """The peak of a process's memory in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024


def output(lab: LabServer, kernel: str, delay: float = 0) -> str:
    """A cell that prints MEGABYTES after so many seconds."""
    values = {"JOURNAL": str(journal(lab, kernel)), "DELAY": delay, "MEGABYTES": MEGABYTES}
    return "".join(f"{name} = {value!r}\n" for name, value in values.items()) + OUTPUT


def journal(lab: LabServer, kernel: str) -> Path:
    return lab.home / "journals" / kernel


@pytest.fixture
def kernel(lab: LabServer) -> str:
    """A runtime for which 4 MB may wait in memory."""
    name = f"{os.urandom(4).hex()}.ipynb"
    (lab.folder / name).write_text(json.dumps(notebook_of("a", "b")))
    config = lab.home.parent / "config.toml"  # read for each runtime
    config.write_text("[journal]\nbacklog_mb = 4\n")
    try:
        found: str = lab.session(name)["kernel"]["id"]
    finally:
        config.unlink()
    page = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{found}/channels", lab.token)
    page.execute("1")
    page.until_kind("execute_reply")
    page.close()
    return found


class DeafClient:
    """A client of Jupyter's own protocol that sends code and reads nothing.

    It names no cell, as VS Code does not: the server writes no notebook with what was printed, which would take memory, too.
    """

    def __init__(self, lab: LabServer, kernel: str) -> None:
        self.session = uuid.uuid4().hex
        self.socket = websocket.create_connection(
            f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels?session_id={self.session}",
            header=[f"Authorization: token {lab.token}"],
            sockopt=[(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)],
            timeout=300,
        )

    def execute(self, code: str) -> None:
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": self.session}
        header |= {"username": "", "date": "", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": {"code": code}}
        self.socket.send(json.dumps({**message, "channel": "shell", "buffers": []}))


def test_a_client_that_does_not_read_is_disconnected(lab: LabServer, kernel: str, until: Callable[..., Any]) -> None:
    assert lab.process is not None
    deaf = DeafClient(lab, kernel)
    before = peak(lab.process.pid)
    deaf.execute(output(lab, kernel))
    until(lambda: "does not read and is disconnected" in lab.log.read_text(), "it is disconnected")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "the cell is done")
    assert peak(lab.process.pid) - before < 60, "MB for 120 MB of output"
    deaf.socket.shutdown()  # type: ignore[no-untyped-call]
    assert lab.page(kernel).run("print('works')") == "works\n"


def journal_bytes(lab: LabServer, kernel: str) -> int:
    return sum(path.stat().st_size for path in journal(lab, kernel).iterdir())


def supervisor_of(lab: LabServer, kernel: str) -> int:
    state = lab.state(kernel)
    assert state is not None
    return int(state["supervisor"]["pid"])


def test_a_server_that_hangs_with_a_client_of_jupyters_own_protocol_costs_no_memory(
    lab: LabServer, kernel: str, until: Callable[..., Any]
) -> None:
    """VS Code, for example: the server's own socket for it is one of Jupyter's, and reads nothing."""
    assert lab.process is not None
    supervisor = supervisor_of(lab, kernel)
    deaf = DeafClient(lab, kernel)
    started = lab.folder / "started"
    deaf.execute(f"open({str(started)!r}, 'w').close()\n{output(lab, kernel, delay=1)}")
    until(started.exists, "the cell runs")
    size = journal_bytes(lab, kernel)
    before, of_server = peak(supervisor), peak(lab.process.pid)
    os.kill(lab.process.pid, signal.SIGSTOP)
    try:
        until(lambda: journal_bytes(lab, kernel) > size + MEGABYTES * 1_000_000, "it is printed")
    finally:
        os.kill(lab.process.pid, signal.SIGCONT)
    grown = peak(supervisor) - before
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "the server continues")
    deaf.socket.shutdown()  # type: ignore[no-untyped-call]
    assert grown < 60, f"{grown} MB for {MEGABYTES} MB of output"
    assert peak(lab.process.pid) - of_server < 60, "MB in the server"


def test_messages_for_an_absent_client_are_kept_up_to_a_limit(
    lab: LabServer, kernel: str, until: Callable[..., Any]
) -> None:
    assert lab.process is not None
    for page in lab.pages:
        page.close()
    client = DeafClient(lab, kernel)
    client.execute(output(lab, kernel, delay=2))
    client.socket.shutdown()  # type: ignore[no-untyped-call]
    until(lambda: "Discarding" in lab.log.read_text(), "what is kept is dropped")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "the cell is done")


def test_a_server_that_hangs_costs_no_memory_and_its_page_misses_nothing(
    lab: LabServer, kernel: str, until: Callable[..., Any]
) -> None:
    assert lab.process is not None
    supervisor = supervisor_of(lab, kernel)
    page = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels", lab.token, "now")
    size = journal_bytes(lab, kernel)
    page.execute(output(lab, kernel, delay=1), cell="a")
    page.until_kind("execute_input")
    before = peak(supervisor)
    os.kill(lab.process.pid, signal.SIGSTOP)
    try:
        until(
            lambda: journal_bytes(lab, kernel) > size + MEGABYTES * 1_000_000,
            "everything is printed",
        )
    finally:
        os.kill(lab.process.pid, signal.SIGCONT)
    grown = peak(supervisor) - before
    page.until(lambda one: one.kind == "stream" and one.content["text"].endswith("THE END\n"))
    text = "".join(one.content["text"] for one in page.received if one.kind == "stream")
    page.close()
    assert len(text) == MEGABYTES * 1_000_001 + len("THE END\n")
    numbers = [one.number for one in page.received if one.number]
    assert numbers == sorted(set(numbers))
    assert grown < 60, "MB for 120 MB of output"
