"""Runs ownlab as a user does: as a real process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

Ownlab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def ownlab() -> Ownlab:
    """Run `ownlab ARGUMENTS`, with additional environment variables and standard input."""

    def run(
        *arguments: str, env: dict[str, str] | None = None, stdin: str | bytes = ""
    ) -> subprocess.CompletedProcess[str]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        ran = subprocess.run(
            [sys.executable, "-m", "ownlab", *arguments],
            capture_output=True,
            input=given,
            env={**os.environ, **(env or {})},
            check=False,
        )
        return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    return run


@pytest.fixture
def machines() -> Path:
    """The folder of recorded machines."""
    return Path(__file__).resolve().parent / "machines"


@pytest.fixture
def valid() -> Callable[[str, str], Any]:
    """Check a printed JSON document against its schema, and return it."""

    from ownlab.render.documents import document_type, schema_of  # most tests need neither

    def decoded(document: str, name: str) -> Any:
        value = json.loads(document)
        jsonschema.validate(value, msgspec.json.decode(schema_of(document_type(name))))
        return value

    return decoded


class World:
    """An isolated user: nothing of its labs, runtimes and files is visible outside `root`."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "work"
        self.folder.mkdir()
        named = {"OWNLAB_HOME": "home", "OWNLAB_STORE": "store", "OWNLAB_CONFIG": "config.toml"}
        named |= {"OWNLAB_KERNELS": "share/jupyter/kernels", "JUPYTER_PATH": "share/jupyter"}
        named |= {"JUPYTER_RUNTIME_DIR": "jupyter", "JUPYTER_CONFIG_DIR": "jupyter-config", "IPYTHONDIR": "ipython"}
        machine = Path(__file__).resolve().parent / "machines" / "gtx1080ti-x4.json"
        unset = ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "VIRTUAL_ENV", "CONDA_PREFIX")
        self.env = {name: value for name, value in os.environ.items() if name not in unset}
        self.env |= {name: str(root / path) for name, path in named.items()} | {"OWNLAB_MACHINE": str(machine)}
        self.env["OWNLAB_ENVIRONMENTS_DEFAULT"] = "no"  # most tests need no packages, and no network

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run `ownlab ARGUMENTS` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "ownlab", *arguments],
            capture_output=True,
            text=True,
            env={**self.env, **(env or {})},
            cwd=self.root,
            timeout=300,
            check=False,
        )

    def run_without_rights(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run as a user who may not write to this installation: access(2) checks the real user, who is nobody here."""
        environ = {name: value for name, value in self.env.items() if name not in ("OWNLAB_KERNELS", "JUPYTER_PATH")}
        return subprocess.run(
            [sys.executable, "-m", "ownlab", *arguments],
            capture_output=True,
            text=True,
            env=environ,
            cwd=self.root,
            timeout=300,
            check=False,
            preexec_fn=lambda: os.setreuid(65534, 0),
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `ownlab ARGUMENTS` without waiting for its end."""
        return subprocess.Popen(
            [sys.executable, "-m", "ownlab", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env,
            cwd=self.root,
        )

    def lab(self) -> dict[str, Any]:
        """Return the only running lab from `ownlab status --json`."""
        (lab,) = json.loads(self.run("status", "--json").stdout)["labs"]
        assert isinstance(lab, dict)
        return lab

    def ask(self, method: str, path: str, lab: Mapping[str, Any], body: object = None, *, token: bool = True) -> Any:
        """Send a request to the lab. Return the status if it fails."""
        connection = http.client.HTTPConnection("127.0.0.1", lab["port"], timeout=300)
        headers = {"Authorization": f"token {lab['token']}"} if token else {}
        try:
            connection.request(method, f"/{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return json.loads(text or "null") if answer.status < 300 else answer.status

    def processes(self) -> list[int]:
        """Return all processes that were started here and still run."""
        mark = f"OWNLAB_HOME={self.root / 'home'}".encode()
        pids = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                if mark in path.read_bytes().split(b"\0"):
                    pids.append(int(path.parent.name))
        return pids

    def until(self, condition: Callable[[], Any], seconds: float = 180.0) -> Any:
        """Wait until a condition is true, and return its value."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if result := condition():
                return result
            time.sleep(0.05)
        raise AssertionError(f"it did not come true within {seconds} s")

    def close(self) -> None:
        """End everything that was started."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it ended with its parent
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """For a test that starts its own labs."""
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def running_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """With one lab in the background, for tests that do not change it."""
    made = World(tmp_path_factory.mktemp("running_lab"))
    try:
        ran = made.run("up", "work", "--detach")
        assert ran.returncode == 0, ran.stderr
        yield made
    finally:
        made.close()
