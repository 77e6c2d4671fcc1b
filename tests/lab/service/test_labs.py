"""The record and the locks of a lab: real files, real processes."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ownlab.errors import LabError
from ownlab.lab.service.labs import Lab, is_up, lab_id, labs, labs_folder, lock_holder, read_lab, take_lock, write_lab

HOLD = """
import sys, time
from ownlab.lab.service.labs import take_lock
lock = take_lock(sys.argv[1])
print("held" if lock else "refused", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))


def lab_of(folder: Path, started: float = 1.0, pid: int = 1) -> Lab:
    return Lab(lab_id(folder), str(folder), "http://127.0.0.1:4001/", "secret", 4001, pid, started, "ready")


def test_every_path_to_a_folder_is_the_same_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert lab_id(".") == lab_id(tmp_path / "link") == lab_id(str(tmp_path))
    assert len(lab_id(".")) == 12


def test_a_record_is_private_and_read_as_written(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    write_lab(lab)
    assert read_lab(tmp_path) == lab
    path = labs_folder() / f"{lab.id}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert lab.address("lab/tree/a.ipynb") == "http://127.0.0.1:4001/lab/tree/a.ipynb?token=secret"


def test_labs_are_listed_newest_first(tmp_path: Path) -> None:
    first, second = lab_of(tmp_path / "a", 1.0), lab_of(tmp_path / "b", 2.0)
    write_lab(first)
    write_lab(second)
    assert labs() == (second, first)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"id": 3}', b"\xff"])
def test_a_damaged_record_is_ignored(tmp_path: Path, damage: bytes) -> None:
    (labs_folder() / f"{lab_id(tmp_path)}.json").write_bytes(damage)
    assert read_lab(tmp_path) is None
    assert labs() == ()


def test_a_lab_is_up_while_its_lock_is_held(tmp_path: Path) -> None:
    lab = lab_of(tmp_path)
    assert not is_up(lab)
    lock = take_lock(tmp_path)
    assert lock is not None
    with lock:
        assert is_up(lab)
        assert lock_holder(tmp_path) == (os.getpid(), socket.gethostname())
        assert lock_holder(tmp_path, "watchdog") is None
    assert not is_up(lab)
    assert lock_holder(tmp_path) is None


def test_one_server_at_a_time_and_the_next_after_it_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "held\n"
            holder = lock_holder(tmp_path)
            assert holder is not None
            assert (holder.pid, holder.here) == (other.pid, True)
            assert take_lock(tmp_path) is None
            with take_lock(tmp_path, "watchdog") or pytest.fail("the watchdog's lock is another one"):
                pass
        finally:
            other.send_signal(signal.SIGKILL)
            other.wait()
    with take_lock(tmp_path) or pytest.fail("the lock of a dead server is still held"):
        pass


def test_checking_a_lock_does_not_prevent_taking_it(tmp_path: Path) -> None:
    """A check holds the lock for a moment; a server that starts then must not mistake it for another server."""
    look = f"""
import time
from ownlab.lab.service.labs import lock_holder
print("looking", flush=True)
end = time.monotonic() + 180
while time.monotonic() < end:
    lock_holder({str(tmp_path)!r})
"""
    with subprocess.Popen([sys.executable, "-c", look], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == "looking\n"
            deadline = time.monotonic() + 0.5
            while time.monotonic() < deadline:
                with take_lock(tmp_path) or pytest.fail("a look was taken for a holder"):
                    pass
        finally:
            other.kill()


def test_a_holder_on_another_host_is_recognised(tmp_path: Path) -> None:
    with take_lock(tmp_path) or pytest.fail("nobody holds it"):
        (labs_folder() / f"{lab_id(tmp_path)}.lock").write_text(f"{os.getpid()} another-host\n")
        holder = lock_holder(tmp_path)
        assert holder is not None
        assert (holder.host, holder.here) == ("another-host", False)


def test_an_uncreatable_state_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(LabError, match="Cannot create the state folder") as caught:
        labs()
    assert "OWNLAB_HOME" in caught.value.hint
