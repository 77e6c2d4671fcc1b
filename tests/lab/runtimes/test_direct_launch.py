"""A kernelspec's command, started by hand as VS Code does: on the ports of the client's own connection file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from tests.lab.kernel_replies import reply_to

SECONDS = 180.0


@pytest.fixture
def connection_file(tmp_path: Path) -> str:
    return write_connection_file(str(tmp_path / "kernel.json"), key=b"the client's key")[0]


def command(lab: Any, kind: str, connection_file: str) -> list[str]:
    """The argv of the kernelspec, filled in."""
    spec = json.loads((Path(lab.environ["OWNLAB_KERNELS"]) / kind / "kernel.json").read_text())
    return [connection_file if word == "{connection_file}" else word for word in spec["argv"]]


@pytest.fixture
def process(lab: Any, connection_file: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """On a card; its stdin is closed at once, as jupyter_client's launcher does."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "json.py").write_text("raise ImportError('a module of the notebook, and not ours')\n")
    child = subprocess.Popen(
        command(lab, lab.card, connection_file), env=lab.environ, stdin=subprocess.DEVNULL, cwd=folder
    )
    yield child
    child.kill()
    child.wait(SECONDS)


@pytest.fixture
def client(
    lab: Any, process: subprocess.Popen[bytes], connection_file: str, until: Callable[..., Any]
) -> Iterator[BlockingKernelClient]:
    """Return a client once the kernel runs: without a manager it would take a slow kernel for a dead one."""
    until(lambda: [row for row in lab.rows() if row.state == "running"])
    made = BlockingKernelClient(connection_file=connection_file)
    made.load_connection_file()
    made.start_channels()
    made.wait_for_ready(timeout=SECONDS)
    yield made
    made.stop_channels()


def hear_output(client: BlockingKernelClient) -> str:
    while True:
        message = client.get_iopub_msg(timeout=SECONDS)
        if message["msg_type"] == "stream":
            return str(message["content"]["text"])


def test_execute_interrupt_and_end(
    lab: Any, client: BlockingKernelClient, process: subprocess.Popen[bytes], until: Callable[..., Any]
) -> None:
    # Many short sleeps: Python does not look for signals between its last instruction and the start of a long one.
    request = client.execute(
        "import os, time; print(os.environ['CUDA_VISIBLE_DEVICES'], os.getcwd(), flush=True)\n"
        "while True: time.sleep(0.01)"
    )
    assert hear_output(client).split() == ["0", str(lab.folder / "work")]
    process.send_signal(signal.SIGINT)
    assert reply_to(client, request)["content"]["ename"] == "KeyboardInterrupt"
    process.terminate()
    assert process.wait(SECONDS) == 0
    assert lab.left() == {}


def test_a_shutdown_request_ends_it(lab: Any, client: BlockingKernelClient, process: subprocess.Popen[bytes]) -> None:
    client.shutdown()
    assert process.wait(SECONDS) == 0
    assert lab.left() == {}


def test_nothing_is_left_after_it_is_killed(
    lab: Any, client: BlockingKernelClient, process: subprocess.Popen[bytes], until: Callable[..., Any]
) -> None:
    process.kill()
    process.wait()
    until(lambda: lab.left() == {})


def test_it_ends_with_its_client(lab: Any, connection_file: str, until: Callable[..., Any]) -> None:
    code = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
    argv = [sys.executable, "-c", code, *command(lab, lab.card, connection_file)]
    starter = subprocess.Popen(argv, env=lab.environ, stdin=subprocess.DEVNULL)
    try:
        until(lambda: lab.leases())
    finally:
        starter.kill()
        starter.wait()
    until(lambda: lab.left() == {})


def test_failures_to_start_are_reported(lab: Any, tmp_path: Path) -> None:
    module = [sys.executable, "-m", "ownlab.lab.runtimes.direct_launch"]
    for kind, content, answer in (
        ("ownlab-cpu", "{", "cannot be read"),
        ("ownlab-cpu", '{"transport": "ipc", "key": ""}', "not a supported connection file"),
        ("ownlab-gone", '{"key": ""}', "no runtime type ownlab-gone"),
    ):
        (tmp_path / "given.json").write_text(content)
        argv = [*module, "--type", kind, "-f", str(tmp_path / "given.json")]
        ran = subprocess.run(argv, env=lab.environ, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert ran.returncode == 3
        assert answer in ran.stderr
        assert "Traceback" not in ran.stderr
    assert lab.left() == {}
    assert os.listdir(tmp_path / "jupyter") == []
