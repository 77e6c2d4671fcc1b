"""Remotes of rclone: the real program, with remotes that are folders of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import InputError, UsageError
from ownlab.instruments.data.download.pipeline import GetRequest, get
from ownlab.instruments.data.download.records import GetReport

pytestmark = pytest.mark.skipif(shutil.which("rclone") is None, reason="rclone is not installed")

FILES = {
    "a/1.bin": os.urandom(3_000_000),
    "a/ü — x.txt": b"text",
    "empty": b"",
    "page.html": b"<!doctype html><html></html>",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    for name, content in FILES.items():
        (tmp_path / "far" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "far" / name).write_bytes(content)
    (tmp_path / "conf").write_text(f"[mine]\ntype = alias\nremote = {tmp_path / 'far'}\n")
    own = {"OWNLAB_HOME": str(tmp_path / "home"), "RCLONE_CONFIG": str(tmp_path / "conf"), "HOME": str(tmp_path)}
    return {**os.environ, **own}


def fetch(tmp_path: Path, source: str, environ: dict[str, str], **request: Any) -> GetReport:
    return get(GetRequest([source], tmp_path / "data", **request), lambda progress: None, environ)


def here(tmp_path: Path) -> dict[str, bytes]:
    folder = tmp_path / "data"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".ownlab-data" not in path.parts
    }


def servers(tmp_path: Path) -> list[int]:
    """The processes of rclone that serve this test's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if f"RCLONE_CONFIG={tmp_path / 'conf'}".encode() in environ and command.startswith(b"rclone"):
            found.append(int(entry.name))
    return found


def test_a_remote(tmp_path: Path, environ: dict[str, str]) -> None:
    report = fetch(tmp_path, "rclone:mine:", environ)
    assert here(tmp_path) == FILES
    assert {each.source for each in report.files} == {f"rclone:mine:{name}" for name in FILES}
    assert servers(tmp_path) == []
    again = fetch(tmp_path, "rclone:mine:", environ)
    assert ({each.state for each in again.files}, here(tmp_path)) == ({"unchanged"}, FILES)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "data/.ownlab-data").rglob("*") if path.is_file())
    assert b"RCLONE_PASS" not in kept
    assert b"127.0.0.1" not in kept


def test_a_folder_a_file_and_patterns(tmp_path: Path, environ: dict[str, str]) -> None:
    fetch(tmp_path, "rclone:mine:a", environ, exclude=("*.bin",))
    assert here(tmp_path) == {"ü — x.txt": b"text"}
    fetch(tmp_path, "rclone:mine:a/1.bin", environ)
    assert here(tmp_path)["1.bin"] == FILES["a/1.bin"]
    fetch(tmp_path, "rclone:mine:page.html", environ)
    assert here(tmp_path)["page.html"] == FILES["page.html"]
    with pytest.raises(InputError, match="There is nothing"):
        fetch(tmp_path, "rclone:mine:a", environ, include=("*.jpg",))


def test_what_is_not_there(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(InputError, match="has no remote nobody"):
        fetch(tmp_path, "rclone:nobody:", environ)
    with pytest.raises(InputError, match="rclone cannot read mine:nothing"):
        fetch(tmp_path, "rclone:mine:nothing", environ)
    for source in ("rclone:mine", "rclone:--config=x:"):
        with pytest.raises(UsageError, match="names no remote"):
            fetch(tmp_path, source, environ)
    assert servers(tmp_path) == []


def test_without_the_program(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="program rclone"):
        fetch(tmp_path, "rclone:mine:", environ)


@pytest.mark.skipif(sys.platform != "linux", reason="the server ends with its parent on Linux alone")
def test_a_download_that_is_killed_leaves_no_server_and_continues(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "far" / "large.bin").write_bytes(os.urandom(1 << 20) * 200)
    command = [sys.executable, "-m", "ownlab", "data", "get", "rclone:mine:large.bin", "-o", str(tmp_path / "data")]
    child = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 90
    while not servers(tmp_path) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.wait()
    while servers(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    fetch(tmp_path, "rclone:mine:large.bin", environ)
    assert here(tmp_path)["large.bin"] == (tmp_path / "far" / "large.bin").read_bytes()
