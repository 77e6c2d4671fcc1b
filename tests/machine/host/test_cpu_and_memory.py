"""The CPU and memory, and what affinity, cpuset and quota leave of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ownlab.machine.facts import Known, Unknown, value_of
from ownlab.machine.host.cpu_and_memory import read_cpu, read_memory
from ownlab.units import GIB

Tree = Callable[[Mapping[str, str | bytes]], Path]

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
)


def test_intel(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    cpu = read_cpu(tree(h200_files))
    assert cpu.model == Known("Intel(R) Xeon(R) Processor", source="/proc/cpuinfo")
    assert (value_of(cpu.architecture), value_of(cpu.physical_cores), value_of(cpu.logical_cores)) == ("x86_64", 16, 16)
    sets = value_of(cpu.instruction_sets) or ()
    assert {"AVX2", "AVX-512", "AVX-512 VNNI", "AVX-VNNI", "AVX-512 BF16", "AMX", "FMA"} <= set(sets)
    assert "NEON" not in sets


def test_hyperthreads_share_a_core(tree: Tree) -> None:
    blocks = [f"processor : {n}\nphysical id : {n % 2}\ncore id : {n // 2 % 2}\nflags : avx2" for n in range(8)]
    cpu = read_cpu(tree({"proc/cpuinfo": "\n\n".join(blocks)}))
    assert (value_of(cpu.physical_cores), value_of(cpu.logical_cores)) == (4, 8)


@pytest.mark.parametrize(
    ("implementer", "part", "model"),
    [("0x41", "0xd4f", "ARM Neoverse-V2"), ("0x99", "0x123", "ARM implementer 0x99 part 0x123")],
)
def test_arm_cores_have_numbers(tree: Tree, implementer: str, part: str, model: str) -> None:
    block = (
        f"processor\t: {{}}\nFeatures\t: fp asimd sve bf16 i8mm\nCPU implementer\t: {implementer}\nCPU part\t: {part}"
    )
    files: dict[str, str | bytes] = {"proc/cpuinfo": "\n\n".join(block.format(number) for number in range(4))}
    for number in range(4):
        siblings = f"sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list"
        files[siblings] = f"{number}\n"
    cpu = read_cpu(tree(files))
    assert value_of(cpu.model) == model
    assert value_of(cpu.physical_cores) == 4
    assert value_of(cpu.instruction_sets) == ("NEON", "SVE", "BF16", "I8MM")


def test_a_quota_of_a_parent_group_counts(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    root = tree(
        h200_files
        | {
            "proc/self/mountinfo": V2,
            "proc/self/cgroup": "0::/user.slice/job\n",
            "sys/fs/cgroup/user.slice/job/cpu.max": "max 100000\n",
            "sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
        }
    )
    assert read_cpu(root).usable_cores == Known(
        1.5, source="cgroup quota (/sys/fs/cgroup/user.slice/cpu.max: 150000 100000)"
    )


def test_a_container_sees_its_quota_below_the_mount(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    """Without a cgroup namespace /proc/self/cgroup has the host's path, and the mount begins at it."""
    mount = "40 31 0:29 /docker/4f1c /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
    root = tree(
        h200_files
        | {
            "proc/self/mountinfo": mount,
            "proc/self/cgroup": "5:cpu,cpuacct:/docker/4f1c\n1:name=systemd:/docker/4f1c\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "400000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        }
    )
    usable = read_cpu(root).usable_cores
    assert value_of(usable) == 4.0
    assert isinstance(usable, Known)
    assert "cpu.cfs_quota_us" in usable.source


@pytest.mark.parametrize("quota", ["-1", "3200000", "nonsense"])
def test_no_quota_or_one_beyond_the_cores_changes_nothing(
    tree: Tree, h200_files: dict[str, str | bytes], quota: str
) -> None:
    root = tree(
        h200_files
        | {
            "proc/self/mountinfo": V1,
            "proc/self/cgroup": "1:cpu,cpuacct:/\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": quota,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        }
    )
    assert read_cpu(root).usable_cores == Known(16.0, source="all cores: no affinity, cpuset or quota limits them")


def test_affinity_and_cpuset_are_distinguished(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    files = h200_files | {
        "proc/self/mountinfo": V1,
        "proc/self/cgroup": "3:cpuset:/job\n",
        "proc/self/status": "Cpus_allowed_list:\t2-3,8\n",
    }
    usable = read_cpu(tree(files)).usable_cores
    assert usable == Known(3.0, source="affinity (/proc/self/status: Cpus_allowed_list)")
    usable = read_cpu(tree({"sys/fs/cgroup/cpuset/job/cpuset.effective_cpus": "2-3,8\n"})).usable_cores
    assert usable == Known(3.0, source="cpuset (/sys/fs/cgroup/cpuset/job/cpuset.effective_cpus)")


def test_cores_that_are_not_plugged_in_do_not_count(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    root = tree(h200_files | {"proc/self/status": "Cpus_allowed_list:\t0-127\n"})
    assert value_of(read_cpu(root).usable_cores) == 16.0


def test_without_cpuinfo_all_is_unknown(tree: Tree) -> None:
    cpu = read_cpu(tree({"proc/self/status": "Cpus_allowed_list:\t0\n"}))
    assert cpu.usable_cores == cpu.model == Unknown("/proc/cpuinfo does not exist")


@pytest.mark.parametrize("cores", ["0-999999999", "0-1,5-99999999999", "123456", "0-"])
def test_an_impossible_list_of_cores_does_not_fill_the_memory(
    tree: Tree, h200_files: dict[str, str | bytes], cores: str
) -> None:
    root = tree(h200_files | {"proc/self/status": f"Cpus_allowed_list:\t{cores}\n"})
    assert isinstance(read_cpu(root).usable_cores, Unknown)


def test_kilobytes_are_1024_bytes(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
    memory = read_memory(tree(h200_files))
    assert memory.total == Known(131980916 * 1024, source="/proc/meminfo", unit="B")
    assert memory.available == Known(131499248 * 1024, source="/proc/meminfo", unit="B")
    assert memory.swap_total == Known(0, source="/proc/meminfo", unit="B")
    assert memory.cgroup_limit == Unknown("no limit")


def test_the_smallest_limit_of_all_parent_groups_counts(tree: Tree, h200_files: dict[str, str | bytes]) -> None:
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
    assert memory.shm_total == memory.shm_free == Unknown("/dev/shm does not exist")
    assert memory.total == Unknown("/proc/meminfo has MemTotal: lots, which is not a number")
    assert memory.available == Unknown("/proc/meminfo has no MemAvailable")
