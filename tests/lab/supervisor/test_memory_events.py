"""Whether memory ran out: by control groups of both versions and the kernel log, as files of recorded machines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.lab.supervisor.memory_events import MemoryGroup, find_out_of_memory, machine_memory

EVENTS = "low 0\nhigh 0\nmax {kills}\noom {kills}\noom_kill {kills}\noom_group_kill 0\n"
KILLED = "6,840,12120219611,-;Memory cgroup out of memory: Killed process 22471 (python) total-vm:1124912kB, UID:0\n"


def proc_of(folder: Path, cgroup: str) -> str:
    (folder / "proc" / "4711").mkdir(parents=True)
    (folder / "proc" / "4711" / "cgroup").write_text(cgroup)
    return str(folder / "proc")


def group_v2(folder: Path, path: str = "user.slice/lab.scope") -> Path:
    group = folder / "cgroup" / path
    group.mkdir(parents=True)
    (group / "memory.events").write_text(EVENTS.format(kills=2))
    (group / "memory.max").write_text("max\n")
    (group / "cgroup.procs").write_text("4711\n")
    return group


def test_version_2(tmp_path: Path) -> None:
    group, proc = group_v2(tmp_path), proc_of(tmp_path, "0::/user.slice/lab.scope\n")
    (group.parent / "memory.max").write_text("536870912\n")
    (group.parent / "cgroup.procs").touch()
    found = MemoryGroup.read(4711, str(tmp_path / "cgroup"), proc)
    assert found == (str(group), 2, 2)
    assert found.new_kills() == 0
    assert find_out_of_memory(4711, 0.0, found, "/nowhere") == ("", 512 << 20)
    (group / "memory.events").write_text(EVENTS.format(kills=3))
    assert find_out_of_memory(4711, 0.0, found, "/nowhere") == ("cgroup", 512 << 20)


def test_version_1(tmp_path: Path) -> None:
    group = tmp_path / "cgroup" / "memory" / "docker" / "b1"
    group.mkdir(parents=True)
    (group / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    (group / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (group / "cgroup.procs").touch()
    proc = proc_of(tmp_path, "5:cpu,cpuacct:/docker/b1\n4:memory:/docker/b1\n0::/\n")
    found = MemoryGroup.read(4711, str(tmp_path / "cgroup"), proc)
    assert found == (str(group), 1, 0)
    assert found.limit_bytes() is None


@pytest.mark.parametrize("cgroup", ["", "nonsense\n", "0::/../elsewhere\n", "0::/missing\n", "3:memory:/missing\n"])
def test_what_cannot_be_read_is_unknown(tmp_path: Path, cgroup: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "memory.events").write_text(EVENTS.format(kills=1))
    (tmp_path / "cgroup").mkdir()
    assert MemoryGroup.read(4711, str(tmp_path / "cgroup"), proc_of(tmp_path, cgroup)) is None
    assert MemoryGroup.read(4712, str(tmp_path / "cgroup"), str(tmp_path / "proc")) is None
    assert find_out_of_memory(4711, 0.0, None, "/nowhere") == ("", None)


@pytest.mark.skipif(
    os.readlink("/proc/self/ns/pid") != "pid:[4026531836]", reason="process ids of the log are of another namespace"
)
def test_the_kernel_log_names_the_process(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(f"4,839,12120219556,-;oom-kill:constraint=CONSTRAINT_MEMCG,pid=22471\n{KILLED}")
    assert find_out_of_memory(22471, 12000.5, None, str(log)).source == "kernel-log"
    assert find_out_of_memory(2247, 12000.5, None, str(log)).source == ""
    assert find_out_of_memory(22471, 13000.0, None, str(log)).source == "", "an earlier process with this id"
    log.write_bytes(b"\xff\xfe;;;\n,,;Killed process 22471 \n")
    assert find_out_of_memory(22471, 0.0, None, str(log)).source == ""


def test_the_memory_of_this_machine_is_known() -> None:
    assert (machine_memory() or 0) > 64 << 20
