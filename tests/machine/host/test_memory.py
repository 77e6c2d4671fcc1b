"""Memory, and the limit of the control groups above this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.memory import read_memory
from ownlab.units import GIB

Tree = Callable[[Mapping[str, str | bytes]], Path]


def test_kilobytes_are_1024_bytes(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    memory = read_memory(tree(h200_files))
    assert memory.total == Known(131980916 * 1024, source="/proc/meminfo", unit="B")
    assert memory.available == Known(131499248 * 1024, source="/proc/meminfo", unit="B")
    assert memory.swap_total == Known(0, source="/proc/meminfo", unit="B")
    assert memory.cgroup_limit == Unknown("no limit")


def test_the_smallest_limit_on_the_way_up_counts(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    root = tree(
        h200_files
        | {
            "sys/fs/cgroup/process_api/2ffe6532b24a63d44517d0b86290dd6d/memory.max": "max\n",
            "sys/fs/cgroup/process_api/memory.max": str(8 * GIB),
            "sys/fs/cgroup/memory.max": str(16 * GIB),
        }
    )
    assert read_memory(root).cgroup_limit == Known(8 * GIB, source="/sys/fs/cgroup/process_api/memory.max", unit="B")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("9223372036854771712", None), (str(4 * GIB), 4 * GIB), (str(900 * GIB), None), ("", None)],
)
def test_version_1_limits(tree: Tree, h200_files: dict[str, str | bytes], limit: str, expected: int | None) -> None:
    root = tree(
        h200_files
        | {
            "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": "4:memory:/job\n0::/\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": limit,
        }
    )
    assert value_of(read_memory(root).cgroup_limit) == expected


def test_shm_is_measured(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    root = tree(h200_files)
    space = os.statvfs(root / "dev/shm")
    assert value_of(read_memory(root).shm_total) == space.f_blocks * space.f_frsize


def test_no_shm(tree: Tree) -> None:
    memory = read_memory(tree({"proc/meminfo": "MemTotal: lots\n"}))
    assert memory.shm_total == memory.shm_free == Unknown("there is no /dev/shm here")
    assert memory.total == Unknown("/proc/meminfo says MemTotal: lots")
    assert memory.available == Unknown("/proc/meminfo has no MemAvailable")
