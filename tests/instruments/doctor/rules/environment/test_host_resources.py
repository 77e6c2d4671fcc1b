"""The host: no accelerator, few cores, memory that ran out, disks that are full or slow."""

from __future__ import annotations

from typing import Any

import pytest

from ownlab.instruments.doctor.rules.environment.host_resources import (
    DiskFull,
    FewCpuCores,
    NoAccelerator,
    OomKilled,
    RaidDegraded,
    SlowDisk,
)
from ownlab.machine.facts import Unknown
from ownlab.machine.records import (
    Card,
    Cpu,
    Disk,
    Framework,
    Host,
    Interpreter,
    Machine,
    Memory,
    PciDevice,
    RaidArray,
)
from ownlab.units import GIB, MIB


@pytest.mark.parametrize("rule", [NoAccelerator, FewCpuCores, OomKilled, DiskFull, SlowDisk, RaidDegraded])
def test_a_healthy_machine_has_no_finding(rule: Any, h200: Machine, case: Any, find: Any) -> None:
    assert find(rule, case(h200)) == []


# --- no-accelerator ---------------------------------------------------------------------------------------------------


def test_advice_for_a_cpu_machine(of: Any, case: Any, find: Any) -> None:
    cpu = of(Cpu, model="Intel Xeon Platinum 8488C", usable_cores=7.5, instruction_sets=("AVX2", "AMX BF16"))
    torch = of(Framework, name="torch", version="2.11.0", build="cuda", devices=())
    machine = of(
        Machine,
        cards=(),
        host=of(Host, family="linux", pci=(PciDevice("0000:00:02.0", "1a03", "2000", "display", "ast"),), cpu=cpu),
        interpreter=of(Interpreter, frameworks=(torch,)),
    )
    (finding,) = find(NoAccelerator, case(machine))
    assert (finding.severity, finding.blocks) == ("note", False)
    assert "torch.set_num_threads(7)" in finding.fix[1]
    assert "torch.autocast('cpu', dtype=torch.bfloat16)" in finding.fix[2]
    assert finding.fix[3].startswith("You can keep the CUDA build of torch")


def test_advice_on_colab(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, cards=(), host=of(Host, family="linux", platform="colab", pci=()))
    (finding,) = find(NoAccelerator, case(machine))
    assert finding.fix[-1] == "For a GPU: Runtime → Change runtime type."


def test_other_systems_do_not_need_the_bus(of: Any, case: Any, find: Any) -> None:
    unread = Unknown("there is no /sys here")
    for host in (of(Host, family="windows", pci=unread), of(Host, family="linux", virtualisation="wsl2", pci=())):
        assert len(find(NoAccelerator, case(of(Machine, cards=(), host=host)))) == 1


@pytest.mark.parametrize(
    ("cards", "pci"),
    [
        (Unknown("NVIDIA's driver is here and could not be asked"), ()),
        ((), (PciDevice("0000:01:00.0", "10de", "2684", "display", None),)),  # a card without a driver
        ((), Unknown("/sys/bus/pci is not readable")),
    ],
)
def test_no_accelerator_only_if_all_sources_were_read(cards: Any, pci: Any, of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, cards=cards, host=of(Host, family="linux", pci=pci))
    assert find(NoAccelerator, case(machine)) == []


# --- few-cores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "cards", "count"), [(3.0, 1, 1), (4.0, 1, 0), (16.0, 8, 1), (64.0, 8, 0), (1.5, 1, 1)]
)
def test_few_cores_means_fewer_than_four_per_card(
    cores: float, cards: int, count: int, of: Any, case: Any, find: Any
) -> None:
    machine = of(
        Machine,
        cards=tuple(of(Card, vendor="nvidia", index=index) for index in range(cards)),
        host=of(Host, cpu=of(Cpu, usable_cores=cores)),
    )
    findings = find(FewCpuCores, case(machine))
    assert len(findings) == count
    assert all(f"num_workers={max(1, int(cores))}," in finding.fix[0] for finding in findings)


def test_few_cores_without_a_card_are_no_finding(of: Any, case: Any, find: Any) -> None:
    assert find(FewCpuCores, case(of(Machine, cards=(), host=of(Host, cpu=of(Cpu, usable_cores=1.0))))) == []


def test_too_many_workers_from_torchs_warning(case: Any, find: Any) -> None:
    message = (
        "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in"
        " current system is 2, which is smaller than what this DataLoader is going to create."
    )
    (finding,) = find(FewCpuCores, case(None, message))
    assert finding.severity == "warning"


# --- oom-killed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "[12345.678901] Out of memory: Killed process 4242 (python) total-vm:98765432kB, anon-rss:65432100kB",
        "Memory cgroup out of memory: Killed process 91 (pt_data_worker) total-vm:1kB",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/docker/ab,task=python3,pid=77,uid=0",
        "Out of memory: Kill process 123 (python) score 900 or sacrifice child",
        "$ python train.py\nKilled",
        "./run.sh: line 3: 12345 Killed                  python train.py",
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Killed.",
        "The process exited with code 137",
        "Reason: OOMKilled",
    ],
)
def test_oom_killed_messages(message: str, case: Any, find: Any) -> None:
    (finding,) = find(OomKilled, case(None, message))
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert len(finding.evidence) == 1
    assert "\n" not in finding.evidence[0]


def test_the_containers_limit_is_named(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, host=of(Host, container="docker", memory=of(Memory, total=64 * GIB, cgroup_limit=8 * GIB)))
    (finding,) = find(OomKilled, case(machine, "Killed"))
    assert "the container's limit is 8 GiB" in finding.evidence
    assert any("docker run --memory" in step for step in finding.fix)


@pytest.mark.parametrize(
    "message",
    [
        "Out of memory: Killed process 812 (chrome) total-vm:1kB",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "Killed by the scheduler at 137 percent",
        "RuntimeError: DataLoader worker (pid 1) is killed by signal: Bus error.",
    ],
)
def test_messages_that_are_not_about_host_memory(message: str, case: Any, find: Any) -> None:
    assert find(OomKilled, case(None, message)) == []


# --- disks ------------------------------------------------------------------------------------------------------------


def disk(of: Any, mount: str, free: int, total: int, **values: Any) -> Any:
    return of(Disk, mount=mount, device="/dev/sda1", filesystem="ext4", free=free, total=total, **values)


@pytest.mark.parametrize(
    ("mount", "free", "total", "count"),
    [
        ("/", 1 * GIB, 40 * GIB, 1),
        ("/", 5 * GIB, 40 * GIB, 0),
        ("/home", 15 * GIB, 1000 * GIB, 1),  # 1.5 %
        ("/data", 100 * GIB, 100_000 * GIB, 0),  # 0.1 %, and yet room
        ("/boot", 50 * MIB, 5 * GIB, 0),
        ("/mnt/usb", 100 * MIB, 2 * GIB, 0),  # small by nature
    ],
)
def test_full_disks(mount: str, free: int, total: int, count: int, of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, host=of(Host, disks=(disk(of, mount, free, total),)))
    findings = find(DiskFull, case(machine))
    assert len(findings) == count
    assert all(mount in finding.title for finding in findings)


def test_remote_and_unmeasured_disks_are_ignored(of: Any, case: Any, find: Any) -> None:
    share = disk(of, "/mnt/share", 0, 1000 * GIB, remote=True)
    unmeasured = of(Disk, mount="/", device="overlay", filesystem="overlay", free=Unknown("it did not answer in 2 s"))
    assert find(DiskFull, case(of(Machine, host=of(Host, disks=(share, unmeasured))))) == []


def test_a_rotating_disk_on_a_machine_with_a_card(of: Any, case: Any, find: Any) -> None:
    disks = (
        disk(of, "/", GIB, GIB, rotational=False),
        disk(of, "/data", GIB, GIB, rotational=True),
        disk(of, "/boot", GIB, GIB, rotational=True),
    )
    machine = of(Machine, cards=(of(Card, vendor="nvidia", index=0),), host=of(Host, disks=disks))
    (finding,) = find(SlowDisk, case(machine))
    assert finding.title == "/data is on a rotating hard disk"
    assert finding.fix[0] == "Keep training data on /."


def test_a_rotating_disk_without_a_card_is_no_finding(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, cards=(), host=of(Host, disks=(disk(of, "/", GIB, GIB, rotational=True),)))
    assert find(SlowDisk, case(machine)) == []


def test_raid(of: Any, case: Any, find: Any) -> None:
    arrays = (
        RaidArray("md0", "raid1", "active", ("sda1", "sdb1"), degraded=False),
        RaidArray("md1", "raid5", "active", ("sdc1", "sdd1"), degraded=True),
        RaidArray("md2", "raid0", "inactive", ("sde1",), degraded=False),
    )
    degraded, inactive = find(RaidDegraded, case(of(Machine, host=of(Host, raid=arrays, user_is_root=False))))
    assert degraded.title == "RAID array md1 has lost a disk"
    assert degraded.fix[0].startswith("sudo mdadm --detail /dev/md1")
    assert inactive.title == "RAID array md2 is inactive"
