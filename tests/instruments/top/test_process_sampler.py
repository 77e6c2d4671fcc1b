"""Processes on cards: real ones, with their runtimes, users and containers; and those of other PID namespaces."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.top.process_sampler import ProcessSampler
from ownlab.instruments.top.records import CardProcess, CardSample, Owner, ProcessSample

MIB = 1024**2
ANN = Owner("r1", "train.ipynb", "ann")
Stage = Callable[..., Path]

# A parent, and its child, which takes 48 MiB, works on request, and writes 8 MiB to a file.
FAMILY = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline(), flush=True)
for line in sys.stdin:
    child.stdin.write(line); child.stdin.flush()
    print(child.stdout.readline(), flush=True)
"""
CHILD = """
import os, sys, time
held = bytearray(os.urandom(1) * (48 << 20))
print("ready", flush=True)
for line in sys.stdin:
    until = time.process_time() + 0.3
    while time.process_time() < until: pass
    with open(sys.argv[1], "wb") as file:
        file.write(bytes(8 << 20)); file.flush(); os.fsync(file.fileno())
    print("worked", flush=True)
"""


class Family:
    def __init__(self, folder: Path) -> None:
        self.parent = subprocess.Popen(
            [sys.executable, "-u", "-c", FAMILY, CHILD, str(folder / "written")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.parent.stdout is not None
        self.child = int(self.parent.stdout.readline().split()[0])

    @property
    def pid(self) -> int:
        return self.parent.pid

    def work(self) -> None:
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        self.parent.stdin.write("\n")
        self.parent.stdin.flush()
        while "worked" not in self.parent.stdout.readline():
            pass


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path)
    try:
        yield made
    finally:
        made.parent.communicate(timeout=300)


def card(*pids: int) -> list[CardSample]:
    return [CardSample("GPU-1", 0, processes=tuple(CardProcess(pid, memory=MIB) for pid in pids))]


def test_a_process_on_a_card_has_user_and_command(family: Family, staged: Stage) -> None:
    (process,) = ProcessSampler(root=staged(family.child)).read(card(family.child))
    assert (process.pid, process.here, process.owner, process.processes) == (family.child, True, None, 1)
    assert process.command == sys.executable  # what follows -c may be secret
    assert process.user == pwd.getpwuid(os.geteuid()).pw_name
    assert process.memory is not None
    assert 48 * MIB < process.memory < 128 * MIB
    assert process.started is not None
    assert (process.cpu, process.disk_read) == (None, None)  # rates need two readings


def test_a_process_tree_counts_all_its_processes(family: Family, staged: Stage) -> None:
    processes = ProcessSampler(root=staged(family.pid, family.child))
    (first,) = processes.read(card(family.pid))
    family.work()
    (then,) = processes.read(card(family.pid))
    assert (then.pid, then.processes, then.started) == (family.pid, 2, first.started)
    assert then.cpu is not None
    assert then.cpu > 0
    assert then.disk_written is not None
    assert first.memory is not None
    assert first.memory > 48 * MIB


def test_processes_that_start_later_are_found() -> None:
    processes = ProcessSampler(lambda: {os.getpid(): ANN})
    (before,) = processes.read([])
    started = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (then,) = processes.read([])
    assert then.processes == before.processes + 1
    started.communicate()
    (last,) = processes.read([])
    assert last.processes == before.processes


def test_a_runtime_is_one_entry_with_its_kernel_and_owns_all_descendants(family: Family, staged: Stage) -> None:
    # A keeper that is this very process, and a kernel below it with a worker of its own on the card.
    root = staged(os.getpid(), family.pid, family.child)
    processes = ProcessSampler(lambda: {os.getpid(): ANN, family.pid: ANN}, root)
    kernel, worker = processes.read(card(family.child))
    assert (kernel.pid, kernel.owner, kernel.processes) == (family.pid, ANN, 3)
    assert (worker.pid, worker.owner, worker.processes) == (family.child, ANN, 1)
    assert {stat.pid for stat in processes.members["r1"]} == {os.getpid(), family.pid, family.child}


def test_a_runtime_without_a_card_is_listed_and_one_that_has_ended_is_not(family: Family, staged: Stage) -> None:
    owners = {family.pid: ANN, 2**22 + 1: Owner("r2", "old.ipynb", "ben")}
    (process,) = ProcessSampler(lambda: owners, staged(family.pid)).read([])
    assert (process.pid, process.owner) == (family.pid, ANN)


@pytest.mark.parametrize(
    ("groups", "container"),
    [
        ("0::/user.slice/user-1000.slice\n", ""),
        ("0::/\n", ""),
        (f"0::/system.slice/docker-{'3f4a5b6c7d8e' + '0' * 52}.scope\n", "docker 3f4a5b6c7d8e"),
        (f"12:devices:/docker/{'a' * 64}\n0::/\n", "docker aaaaaaaaaaaa"),
        (f"0::/machine.slice/libpod-{'b' * 64}.scope/container\n", "podman bbbbbbbbbbbb"),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{'c' * 64}.scope\n", "kubernetes cccccccccccc"),
        ("0::/lxc.payload.web1/init.scope\n", "lxc web1"),
    ],
)
def test_containers_are_named(groups: str, container: str, staged: Stage) -> None:
    pid = os.getpid()
    (process,) = ProcessSampler(root=staged(pid, **{f"pid_{pid}": groups})).read(card(pid))
    assert process.container == container


def test_a_pid_of_another_namespace_is_not_confused_with_a_local_one(family: Family, staged: Stage) -> None:
    root = staged(family.pid)
    for link in (root / "proc" / str(family.pid) / "fd").iterdir():
        link.unlink()  # the process here of that number uses no card
    processes = ProcessSampler(root=root).read(card(family.pid, 2**22 + 1))
    assert processes == (ProcessSample(family.pid, here=False), ProcessSample(2**22 + 1, here=False))


def test_a_known_kernel_is_found_when_it_starts_to_use_a_card(family: Family, staged: Stage) -> None:
    root = staged(family.pid)
    link = root / "proc" / str(family.pid) / "fd" / "9"
    link.unlink()
    processes = ProcessSampler(lambda: {family.pid: ANN}, root)
    (before,) = processes.read([])
    link.symlink_to("/dev/nvidia0")
    (after,) = processes.read(card(family.pid))
    assert (before.pid, after.pid, after.owner, after.here) == (family.pid, family.pid, ANN, True)


def test_processes_of_another_machine_keep_their_recorded_properties(staged: Stage) -> None:
    pid = os.getpid()
    there = ProcessSample(pid, command="python train.py", user="ann", here=False)
    assert ProcessSampler(root=staged(pid)).read(card(pid), {pid: there}) == (there,)


def test_without_processes_of_interest_proc_is_not_read(tmp_path: Path) -> None:
    assert ProcessSampler(root=tmp_path).read([]) == ()
    assert ProcessSampler(root=tmp_path).read(card(1)) == (ProcessSample(1, here=False),)


def test_ended_processes_are_forgotten(tmp_path: Path, staged: Stage, until: Callable[..., Any]) -> None:
    family = Family(tmp_path)
    root = staged(family.child)
    processes: Any = ProcessSampler(root=root)
    processes.read(card(family.child))
    family.parent.communicate(timeout=300)
    until(lambda: processes.read(card(family.child)) == (ProcessSample(family.child, here=False),))
    assert (processes._properties, processes._before, processes._on_cards) == ({}, {}, set())
