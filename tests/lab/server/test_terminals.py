"""Terminals of a lab, over the websocket that a page uses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import websocket

from ownlab.lab.environments.builds import environment_folder
from ownlab.lab.environments.registry import DEFAULT
from ownlab.lab.server.terminals import shell_command

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

SECONDS = 180.0
PROGRAMS = Path(__file__).parents[3] / "src" / "ownlab_guest" / "programs" / "lab"


def ask(lab: LabServer, body: dict[str, str], command: str) -> str:
    """Start a terminal, run a command, and return what it prints between two marks."""
    name = lab.post("/api/terminals", body).json()["name"]
    address = f"ws://127.0.0.1:{lab.port}/terminals/websocket/{name}"
    line = websocket.create_connection(address, header=[f"Authorization: token {lab.token}"], timeout=SECONDS)
    try:
        # What is typed is echoed, so the marks are put together only in what is printed.
        line.send(json.dumps(["stdin", f"echo be''gin; {command}; echo e''nd\r"]))
        shown, deadline = "", time.monotonic() + SECONDS
        while "end\r\n" not in shown.partition("begin\r\n")[2]:
            assert time.monotonic() < deadline, shown
            kind, *rest = json.loads(line.recv())
            shown += rest[0] if kind == "stdout" else ""
        return shown.partition("begin\r\n")[2].partition("end\r\n")[0].replace("\r\n", "\n")
    finally:
        line.close()
        lab.client.delete(f"{lab.url}/api/terminals/{name}").raise_for_status()


def test_a_terminal_starts_in_the_folder_of_the_lab_and_knows_ownlab(lab: LabServer) -> None:
    (lab.folder / "tmp").mkdir()  # as in the server's working folder, /
    answer = ask(lab, {}, "pwd; command -v ownlab; ownlab --version; env | grep -c OWNLAB_TOKEN")
    folder, program, version, secrets = answer.splitlines()
    assert folder == str(lab.folder)
    assert program == str(PROGRAMS / "ownlab")
    assert version.startswith("ownlab, version")
    assert secrets == "0", "the token is not passed on"
    for cwd, expected in [
        ("", lab.folder),
        ("tmp", lab.folder / "tmp"),
        ("no-such", lab.folder),
        ("../..", lab.folder),
    ]:
        assert ask(lab, {"cwd": cwd}, "pwd") == f"{expected}\n", cwd


def test_python_in_a_terminal_is_that_of_new_notebooks(lab: LabServer) -> None:
    programs = environment_folder(DEFAULT, lab.environ) / "bin"
    assert not programs.exists(), "this lab builds none"
    programs.mkdir(parents=True)
    try:
        (programs / "python").symlink_to(sys.executable)
        found = ask(lab, {}, "command -v python; command -v ownlab").splitlines()
        assert found == [str(programs / "python"), str(PROGRAMS / "ownlab")]
    finally:
        shutil.rmtree(programs.parent)


def test_a_terminal_starts_in_a_folder_of_the_drive(lab: LabServer) -> None:
    lab.get("/ownlab/drive/api/contents/MyDrive")
    drive = lab.home / "drive"
    folder = next(each for each in (drive, lab.home / "drive") if each.exists())
    (folder / "data").mkdir()
    assert ask(lab, {"cwd": "drive:MyDrive/data"}, "pwd") == f"{folder / 'data'}\n"


def test_odd_requests_are_refused(lab: LabServer) -> None:
    for body in (b"[]", b'{"cwd": 7}', b"{"):
        answer = lab.client.post(f"{lab.url}/api/terminals", content=body)
        assert answer.status_code == 400, body
    assert lab.client.post(f"{lab.url}/api/terminals", headers={"Authorization": "none"}).status_code == 403


@pytest.mark.parametrize("name", ["bash", "dash", "sh", "zsh", "fish"])
def test_login_scripts_run_and_ownlab_comes_first(tmp_path: Path, name: str) -> None:
    shell = shutil.which(name)
    if shell is None:
        pytest.skip(f"{name} is not installed")
    for file in (".profile", ".zprofile"):
        (tmp_path / file).write_text("export FROM_PROFILE=yes PATH=/usr/bin:/bin\n")
    fish = tmp_path / ".config" / "fish"
    fish.mkdir(parents=True)
    (fish / "config.fish").write_text("status is-login; and set -gx FROM_PROFILE yes; and set -gx PATH /usr/bin /bin\n")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "OWNLAB_HOST": sys.executable, "TERM": "dumb"}
    ran = subprocess.run(
        shell_command(shell, str(PROGRAMS)), input='echo "$PATH,$FROM_PROFILE"\nexit\n', env=environ, cwd=tmp_path,
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    expected = f"{PROGRAMS}:/usr/bin:/bin,yes"
    assert expected in ran.stdout, ran.stdout + ran.stderr
