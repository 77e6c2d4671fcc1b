"""Orphans of dead runtimes: found, killed if that is certain, and nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.store.orphans import Orphan, boot_id, describe_orphans, end_orphans, own_ancestors
from ownlab.lab.store.rows import CardRequest, Process, RuntimeRow
from ownlab.processes.procfs import process_started

NOBODY = Process(2**22 + 1, 1)


# Marks are looked for in the whole machine: another run of these tests must not be seen.
DEAD = f"dead-{os.getpid()}"


def row(runtime: str = DEAD, kernel: Process | None = None, boot: str | None = None) -> RuntimeRow:
    rest = (NOBODY, NOBODY, kernel, False, 0.0, None, "", True, 0.0)
    here = boot_id() if boot is None else boot
    return RuntimeRow(runtime, os.getuid(), "ann", None, "", "t", "", CardRequest(), "running", 0.0, None, here, *rest)


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str, marker: str = "", session: bool = True) -> subprocess.Popen[bytes]:
        env = {"PATH": os.environ["PATH"]} | ({"OWNLAB_RUNTIME": marker} if marker else {})
        started.append(subprocess.Popen(argv or ("sleep", "60"), env=env, start_new_session=session))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait(20)


def identity(process: subprocess.Popen[bytes], shift: int = 0) -> Process:
    return Process(process.pid, (process_started(process.pid) or 0) + shift)


def test_a_marked_process_is_ended(start: Callable[..., Any]) -> None:
    mine, other, almost = start(marker=DEAD), start(marker=DEAD + "er"), start(marker=DEAD[:-1])
    assert end_orphans([(row(), os.getuid())]) == {}
    assert mine.wait(20) == -signal.SIGKILL
    assert other.poll() is None
    assert almost.poll() is None


def test_a_process_that_the_row_names_is_ended_with_its_session(start: Callable[..., Any]) -> None:
    kernel = start("sh", "-c", "sleep 60 & sleep 60")
    assert end_orphans([(row(kernel=identity(kernel)), os.getuid())]) == {}
    assert kernel.wait(20) == -signal.SIGKILL


def test_a_reused_pid_is_not_killed(start: Callable[..., Any]) -> None:
    kernel = start("sh", "-c", "sleep 60 & sleep 60")
    assert end_orphans([(row(kernel=identity(kernel, shift=-7)), os.getuid())]) == {}
    assert kernel.poll() is None


def test_a_process_of_another_runtime_in_the_session_is_not_killed(start: Callable[..., Any]) -> None:
    kernel = start(marker="another")
    assert end_orphans([(row(kernel=identity(kernel)), os.getuid())]) == {}
    assert kernel.poll() is None


def test_processes_of_another_user_than_the_locks_owner_are_not_killed(start: Callable[..., Any]) -> None:
    marked = start(marker=DEAD)
    for owner in (os.getuid() + 1, None):  # a row in another's name; a row without a lock file
        left = end_orphans([(row(), owner)])
        assert [process.pid for process in left[DEAD]] == [marked.pid]
    assert marked.poll() is None


def test_a_session_without_its_leader_counts_but_is_not_killed(
    start: Callable[..., Any], tmp_path: Path, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    """Its number may belong to another session by now, so it is not killed."""
    leader = start("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; sleep 60")
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    member = int((tmp_path / "pid").read_text())
    kernel = identity(leader)
    try:
        leader.kill()
        leader.wait(20)
        left = end_orphans([(row(kernel=kernel), os.getuid())])
        assert member in [process.pid for process in left[DEAD]]
        assert process_started(member) is not None
    finally:
        for child in left[DEAD]:
            os.kill(child.pid, signal.SIGKILL)
    wait_until(lambda: end_orphans([(row(kernel=kernel), os.getuid())]) == {})


def test_nothing_is_left_of_an_earlier_boot(start: Callable[..., Any]) -> None:
    marked = start(marker=DEAD)
    assert end_orphans([(row(boot="another"), os.getuid())]) == {}
    assert marked.poll() is None


def test_excluded_processes_are_ignored(start: Callable[..., Any]) -> None:
    marked = start(marker=DEAD)
    assert end_orphans([(row(), os.getuid())], but={marked.pid}) == {}
    assert marked.poll() is None


def test_our_own_process_is_never_killed_but_counts() -> None:
    me = Process(os.getpid(), process_started(os.getpid()) or 0)
    left = end_orphans([(row(kernel=me)._replace(keeper=me), os.getuid())], but=_all_but_me())
    assert [process.pid for process in left[DEAD]] == [os.getpid()]
    assert {os.getpid(), os.getppid()} <= own_ancestors()


def _all_but_me() -> set[int]:
    """If pytest leads its session, a test must not end the other processes in it."""
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()} - {os.getpid()}


def test_a_zombie_holds_nothing(start: Callable[..., Any], wait_until: Callable[[Callable[[], object]], None]) -> None:
    child = start("true", marker=DEAD)
    wait_until(lambda: f"{child.pid} (true) Z" in Path(f"/proc/{child.pid}/stat").read_text())
    assert end_orphans([(row(kernel=identity(child)), os.getuid())]) == {}


def test_processes_that_fork_meanwhile_are_all_killed(start: Callable[..., Any]) -> None:
    forking = start("sh", "-c", "while :; do sleep 0.01 & wait; done", marker=DEAD)
    assert end_orphans([(row(), os.getuid())], seconds=20.0) == {}
    assert forking.wait(20) == -signal.SIGKILL


def test_orphans_are_described() -> None:
    some = [Orphan(number, 1, "python", False) for number in range(1, 7)]
    assert describe_orphans(some[:1]) == "its process 1 (python) is still running"
    assert (
        describe_orphans(some)
        == "its processes 1 (python), 2 (python), 3 (python), 4 (python) and 2 more are still running"
    )


def test_in_a_shared_store_a_pid_in_a_row_kills_nothing(start: Callable[..., Any]) -> None:
    named, marked = start(), start(marker=DEAD)
    left = end_orphans([(row(kernel=identity(named)), os.getuid())], shared=True)
    assert [process.pid for process in left[DEAD]] == [named.pid]
    assert marked.wait(20) == -signal.SIGKILL
    assert named.poll() is None
