"""The watchdog alone: a server that crashes repeatedly, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ownlab.lab.service.labs import lock_holder, log_file, take_lock
from ownlab.lab.service.ports import choose_port
from ownlab.lab.service.watchdog import Start, new_log, server_environment

# In place of JupyterLab: a server that pretends to listen, and then does what a test wants.
STAND_IN = """
import os, signal, time
class LabApp:
    connection_url = "http://127.0.0.1:1/"
    config = dict()
    @classmethod
    def initialize_server(cls, argv, config):
        return cls()
    @property
    def io_loop(self):
        return self
    def add_callback(self, function, *arguments):
        function(*arguments)
    def start(self):
        {deed}
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "OWNLAB_HOME": str(tmp_path / "home"), "PYTHONPATH": str(tmp_path / "stand-in")}


def watchdog(folder: Path, environ: dict[str, str], code: str, says_to: Path | None = None) -> subprocess.Popen[bytes]:
    package = Path(environ["PYTHONPATH"]) / "jupyterlab"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "labapp.py").write_text(STAND_IN.format(deed=code))
    lock = take_lock(folder, "watchdog", environ=environ)
    assert lock is not None
    with lock, (says_to or log_file(folder, environ)).open("wb") as log:
        arguments = [str(folder), "--port", str(choose_port(0, None)), "--lock", str(lock.inherit())]
        return subprocess.Popen(
            [sys.executable, "-m", "ownlab.lab.service.watchdog", *arguments],
            stdout=log,
            stderr=log,
            env={**environ, "OWNLAB_TOKEN": "secret"},
            pass_fds=(lock.inherit(),),
        )


def test_the_watchdog_gives_up_after_five_crashes(tmp_path: Path, environ: dict[str, str]) -> None:
    with watchdog(tmp_path, environ, "os.kill(os.getpid(), signal.SIGSEGV)") as dog:
        assert dog.wait(60) == 3
    log = log_file(tmp_path, environ).read_text()
    assert log.count("The server was killed (SIGSEGV). It is restarted") == 4
    assert "crashed 5 times within a minute" in log
    assert lock_holder(tmp_path, environ=environ) is None
    assert lock_holder(tmp_path, "watchdog", environ=environ) is None


def test_the_server_is_restarted_on_a_full_disk(tmp_path: Path, environ: dict[str, str]) -> None:
    starts = tmp_path / "starts"
    code = f"print('.', end='', flush=True, file=open({str(starts)!r}, 'a')); os.kill(os.getpid(), signal.SIGKILL)"
    with watchdog(tmp_path, environ, code, says_to=Path("/dev/full")) as dog:
        assert dog.wait(60) == 3
    assert starts.read_text() == "....."


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_server_before_the_watchdog(
    tmp_path: Path, environ: dict[str, str], number: signal.Signals
) -> None:
    with watchdog(tmp_path, environ, "time.sleep(100)") as dog:
        try:
            deadline = time.monotonic() + 180
            while lock_holder(tmp_path, environ=environ) is None and time.monotonic() < deadline:
                time.sleep(0.02)
            assert lock_holder(tmp_path, "watchdog", environ=environ) == (dog.pid, os.uname().nodename)
            dog.send_signal(number)
            assert dog.wait(60) == 0
        finally:
            dog.kill()
    assert lock_holder(tmp_path, environ=environ) is None
    assert "restarted" not in log_file(tmp_path, environ).read_text()


def test_the_server_inherits_the_environment_with_token_and_kernelspecs(tmp_path: Path) -> None:
    given = {
        "JUPYTER_TOKEN": "theirs",
        "JUPYTER_CONFIG_DIR": "/home/ann/.jupyter",
        "JUPYTER_PATH": "/opt/share/jupyter",
        "OWNLAB_KERNELS": str(tmp_path / "share/jupyter/kernels"),
        "OWNLAB_MACHINE": "machine.json",
        "CUDA_VISIBLE_DEVICES": "2",
        "PATH": "/no/such/folder",
    }
    made = server_environment(Start(str(tmp_path), 4001, "ours", given))
    assert made == {
        "JUPYTER_CONFIG_DIR": "/home/ann/.jupyter",
        "JUPYTER_PATH": f"{tmp_path}/share/jupyter{os.pathsep}/opt/share/jupyter",
        "OWNLAB_KERNELS": str(tmp_path / "share/jupyter/kernels"),
        "OWNLAB_MACHINE": os.path.abspath("machine.json"),
        "CUDA_VISIBLE_DEVICES": "2",
        "OWNLAB_TOKEN": "ours",
        "PATH": f"/no/such/folder{os.pathsep}{os.path.dirname(sys.executable)}",
    }
    inside = {"OWNLAB_RUNTIME": "a", "CUDA_VISIBLE_DEVICES": ""}
    assert server_environment(Start(str(tmp_path), 4001, "ours", inside)) == {"OWNLAB_TOKEN": "ours"}


def test_the_log_of_the_last_start_is_kept(tmp_path: Path, environ: dict[str, str]) -> None:
    new_log(str(tmp_path), environ).write_text("first")
    log = new_log(str(tmp_path), environ)
    assert not log.exists()
    assert log.with_suffix(".log.old").read_text() == "first"
