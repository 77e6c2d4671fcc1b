"""A whole kernel in its /content: started by launch.py, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jupyter_client
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file
from tests.guest.colab.kernel_process import PYTHON
from tests.guest.colab.users import GUEST, SECONDS, User, make_user

SITE = Path(jupyter_client.__file__).parents[1]


@contextmanager
def kernel_of(person: User) -> Iterator[tuple[BlockingKernelClient, subprocess.Popen[bytes]]]:
    path, _ = write_connection_file(str(person.home / "kernel.json"), key=secrets.token_hex(16).encode())
    os.chown(path, person.uid, -1)
    # An interpreter that is not the environment's own finds ipykernel here.
    more = {} if person.python == PYTHON else {"PYTHONPATH": str(SITE)}
    process = subprocess.Popen(
        person.command(person.python, str(GUEST / "kernel" / "launch.py"), "-f", path),
        env=person.environment(**more, IPYTHONDIR=str(person.home / "ipython")),
        cwd=person.home,
    )
    client = BlockingKernelClient()
    try:
        client.load_connection_info(json.loads(Path(path).read_text()))
        client.start_channels()
        deadline = time.monotonic() + SECONDS
        while not is_ready(client, process):
            assert time.monotonic() < deadline
        yield client, process
    finally:
        client.stop_channels()
        process.kill()
        process.wait()


def is_ready(client: BlockingKernelClient, process: subprocess.Popen[bytes]) -> bool:
    """Without a manager, jupyter_client takes a kernel for dead that needs more than a second to start."""
    try:
        client.wait_for_ready(timeout=SECONDS)
    except RuntimeError:
        if process.poll() is not None:
            raise
        return False
    return True


def printed(client: BlockingKernelClient, code: str) -> str:
    answer: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        answer.append(content.get("text", "") or "\n".join(content.get("traceback", ())))

    client.execute_interactive(code, timeout=SECONDS, output_hook=hear, allow_stdin=False)
    return "".join(answer).replace("\r\n", "\n")


@pytest.fixture(params=["root", "user"])
def person(request: pytest.FixtureRequest) -> Iterator[User]:
    with make_user(request.param) as each:
        yield each


def test_a_notebook_in_content(person: User) -> None:
    with kernel_of(person) as (client, process):
        assert printed(client, "%pwd\n!pwd; ls /content") == "/content\nsample_data\n"
        assert (
            printed(client, "from google.colab import drive\ndrive.mount('/content/drive')")
            == "Mounted at /content/drive\n"
        )
        printed(client, "%cd /content/drive/MyDrive\n!echo kept > kept.txt")
        assert (person.drive / "kept.txt").stat().st_uid == person.uid
        assert Path(f"/proc/{process.pid}/cwd").readlink() == Path("/content/drive/MyDrive")
        assert printed(client, "import os; print(os.getpid())") == f"{process.pid}\n"
