"""Lock files: held as long as any process has the descriptor, even while others test them."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ownlab.lab.store import locks


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    assert not locks.is_held(path)
    descriptor = locks.hold(path, 0o644)
    assert locks.is_held(path)
    assert os.get_inheritable(descriptor)
    os.close(descriptor)
    assert not locks.is_held(path)
    assert Path(path).exists()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_permissions_do_not_depend_on_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        descriptor = locks.hold(str(tmp_path / "a.lock"), 0o644)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o644
    os.close(descriptor)


def test_a_child_that_inherits_it_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    descriptor = locks.hold(path, 0o644)
    child = subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])
    try:
        os.close(descriptor)
        assert locks.is_held(path)
    finally:
        child.kill()
        child.wait(20)
    assert not locks.is_held(path)


def test_testing_a_lock_does_not_block_other_tests(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    os.close(locks.hold(path, 0o644))
    with locks.if_unheld(path) as first, locks.if_unheld(path) as second:
        assert first
        assert second
        assert not locks.is_held(path)


def test_taking_a_lock_waits_while_it_is_tested(
    tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    path = str(tmp_path / "a.lock")
    os.close(locks.hold(path, 0o644))
    got: list[int] = []
    with locks.if_unheld(path):
        thread = threading.Thread(target=lambda: got.append(locks.hold(path, 0o644)))
        thread.start()
        locks.remove(path)  # and the file that it waits for goes away meanwhile
    thread.join(20)
    wait_until(lambda: got)
    assert locks.is_held(path)  # it holds the file that stands there now
    os.close(got[0])


def test_a_link_is_not_a_lock(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        locks.hold(str(tmp_path / "a.lock"), 0o644)
    assert not (tmp_path / "elsewhere").exists()


def test_the_owner_is_the_creator(tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    assert locks.owner(path) is None
    os.close(locks.hold(path, 0o644))
    assert locks.owner(path) == os.getuid()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/nowhere", path)])
def test_something_that_is_not_a_file_does_not_block(tmp_path: Path, make: Callable[[str], None]) -> None:
    path = str(tmp_path / "a.lock")
    make(path)
    asked = threading.Thread(target=locks.is_held, args=(path,), daemon=True)
    asked.start()
    asked.join(20)
    assert not asked.is_alive()
    locks.remove(path)


def test_a_link_counts_as_held(tmp_path: Path) -> None:
    (tmp_path / "a.lock").symlink_to(tmp_path / "elsewhere")
    assert locks.is_held(str(tmp_path / "a.lock"))
