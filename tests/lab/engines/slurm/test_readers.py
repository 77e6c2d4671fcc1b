"""The readers of Slurm's output: recorded from 22.05.8, and written after the manuals of other versions."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from ownlab.errors import LabError
from ownlab.lab.engines.slurm.readers import (
    expand_hosts,
    read_config,
    read_gpus,
    read_job,
    read_nodes,
    read_partitions,
    read_queue,
    read_submitted,
    read_time,
    read_version,
)
from ownlab.lab.engines.slurm.records import Gpus

RECORDED = Path(__file__).resolve().parent / "recordings" / "22.05.8-debian"

# Not recorded: written after the manual pages and the source of these versions. What differs from 22.05 is in them.
NODE_20_11 = (
    "NodeName=g1 Arch=x86_64 CoresPerSocket=16 CPUAlloc=8 CPUTot=64 CPULoad=3.10 AvailableFeatures=v100,nvlink "
    "ActiveFeatures=v100,nvlink Gres=gpu:v100:4(S:0-1) GresDrain=N/A GresUsed=gpu:v100:3(IDX:0,2-3) NodeAddr=g1 "
    "NodeHostName=g1 Version=20.11.9 OS=Linux 3.10.0-1160.el7.x86_64 #1 SMP Mon Oct 19 16:18:59 UTC 2020 "
    "RealMemory=384000 AllocMem=65536 FreeMem=120000 Sockets=2 Boards=1 State=MIXED ThreadsPerCore=2 TmpDisk=0 "
    "Weight=1 Owner=N/A MCS_label=N/A Partitions=gpu,debug BootTime=2022-01-10T10:00:00 "
    "SlurmdStartTime=2022-01-10T10:01:00 CfgTRES=cpu=64,mem=375G,billing=64,gres/gpu=4 AllocTRES=cpu=8,gres/gpu=3 "
    "CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s Comment=(null)"
)
NODES_24_05 = (
    "NodeName=h1 Arch=x86_64 CoresPerSocket=48  CPUAlloc=0 CPUEfctv=92 CPUTot=96 CPULoad=0.02 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:h100:4(S:0),gpu:l4:2(S:1),shard:16 GresDrain=N/A "
    "GresUsed=gpu:h100:1(IDX:3),gpu:l4:0(IDX:N/A),shard:0 NodeAddr=h1 NodeHostName=h1 Version=24.05.3 "
    "OS=Linux 5.14.0 #1 SMP PREEMPT_DYNAMIC State=MIXED+PLANNED Partitions=gpu  Comment=rack = 7, row 2\n"
    "NodeName=cloud1 CPUTot=8 Gres=gpu:2 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud \n"
    "NodeName=dead CPUTot=8 Gres=(null) State=DOWN* Partitions=gpu Reason=Not responding [slurm@2024-07-01T00:00:00]\n"
    "NodeName=busy CPUTot=8 Gres=gpu:a:1 GresUsed=gpu:a:1(IDX:0) State=ALLOCATED+DRAIN Partitions=gpu Reason=kill task failed\n"
)
JOB_24_05 = (
    "JobId=88 ArrayJobId=80 ArrayTaskId=8 JobName=x UserId=ann(1000) GroupId=ann(1000) JobState=OUT_OF_MEMORY Reason=OutOfMemory "
    "ExitCode=0:125 StartTime=2024-07-01T10:00:00 EndTime=Unknown NodeList=h[1-2] ReqTRES=cpu=2,gres/gpu=4 "
    "AllocTRES=cpu=2,gres/gpu=4,gres/gpu:h100=4 JOB_GRES=gpu:h100:4 Nodes=h1 CPU_IDs=0-3 Mem=0 GRES=gpu:h100:2(IDX:0,3) "
    "Nodes=h2 CPU_IDs=0 Mem=0 GRES=gpu:h100:2(IDX:1-2) Comment= TresPerNode=gres/gpu:2"
)


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("slurm 20.11.9", (20, 11)),
        ("slurm-wlm 21.08.5", (21, 8)),
        ("slurm 23.11.4-1.rc2", (23, 11)),
        ("slurm 25.05.0\n", (25, 5)),
    ],
)
def test_versions(printed: str, version: tuple[int, int]) -> None:
    assert read_version(printed) == version
    assert read_version(recorded("version")) == (22, 5)


@pytest.mark.parametrize("printed", ["", "sinfo 1.0", "System Information Viewer", "slurm"])
def test_another_program_of_the_same_name_is_no_slurm(printed: str) -> None:
    with pytest.raises(LabError, match="not the version of a Slurm"):
        read_version(printed)


def test_the_recorded_queue() -> None:
    jobs = {job.number: job for job in read_queue(recorded("squeue"))}
    assert list(jobs) == ["5", "2", "3", "1", "4_1", "4_2", "4_3"]
    running = jobs["1"]
    assert (running.state, running.nodes, running.reason) == ("RUNNING", "n[1-2]", "")
    assert running.comment == "ownlab:7f3a|with a bar"
    assert (running.starts_at, running.ends_at) == (1795039825.0, 1795040125.0)
    assert (jobs["2"].reason, jobs["2"].starts_at, jobs["2"].nodes) == ("Resources", 1795040125.0, "")
    assert (jobs["5"].reason, jobs["5"].starts_at, jobs["5"].comment) == ("PartitionDown", None, "")


def test_the_recorded_queue_in_local_time_has_the_same_jobs() -> None:
    jobs = {job.number: job for job in read_queue(recorded("squeue-standard-time"))}
    assert jobs["1"].starts_at == datetime(2026, 11, 18, 22, 10, 25).timestamp()  # local time is meant
    assert jobs["3"].starts_at is None


def test_lines_of_a_wrapper_around_squeue_are_passed_over() -> None:
    assert read_queue("Welcome | to | the | cluster | a | b | c | d\n\n" + recorded("squeue")) == read_queue(
        recorded("squeue")
    )
    assert read_queue("") == ()


def test_the_recorded_jobs() -> None:
    running = read_job(recorded("job-running"))
    assert (running.number, running.user, running.state, running.nodes) == ("1", "root", "RUNNING", "n[1-2]")
    assert (running.cards, running.comment) == ((0, 1), "ownlab:7f3a|with a bar")
    pending = read_job(recorded("job-pending"))
    assert (pending.state, pending.reason, pending.cards, pending.starts_at) == (
        "PENDING",
        "Resources",
        (),
        1795040125.0,
    )
    cancelled = read_job(recorded("job-cancelled"))
    assert (cancelled.state, cancelled.exit_code, cancelled.signal) == ("CANCELLED", 0, 15)
    assert read_job(recorded("job-array")).number == "4_1"


def test_a_job_as_24_05_shows_it() -> None:
    job = read_job(JOB_24_05)
    assert (job.number, job.state, job.reason) == ("80_8", "OUT_OF_MEMORY", "OutOfMemory")
    assert (job.exit_code, job.signal, job.cards, job.ends_at, job.comment) == (0, 125, (0, 3), None, "")


def test_the_recorded_nodes() -> None:
    first, second = read_nodes(recorded("nodes"))
    assert (first.name, first.state, first.gpus) == ("n1", "MIXED", (Gpus("fake", 4),))
    assert (first.used_gpus, first.free_gpus, first.is_usable) == (2, 2, True)
    assert (first.partitions, second.partitions) == (("gpu", "one", "short"), ("gpu", "closed"))
    drained, down = read_nodes(recorded("nodes-down"))
    assert (drained.state, drained.flags, drained.is_usable) == ("IDLE", frozenset({"DRAIN"}), False)
    assert drained.reason.startswith("bad disk = /dev/sda, ask ann [root@")
    assert (down.state, down.is_usable) == ("DOWN", False)


def test_nodes_as_other_versions_show_them() -> None:
    (old,) = read_nodes(NODE_20_11)
    assert (old.gpus, old.used_gpus, old.cpus, old.partitions) == ((Gpus("v100", 4),), 3, 64, ("gpu", "debug"))
    mixed, asleep, dead, busy = read_nodes(NODES_24_05)
    assert mixed.gpus == (Gpus("h100", 4), Gpus("l4", 2))
    assert (mixed.used_gpus, mixed.free_gpus, mixed.is_usable, mixed.flags) == (1, 5, True, frozenset({"PLANNED"}))
    assert (asleep.gpus, asleep.is_usable) == ((Gpus("", 2),), True)
    assert (dead.state, dead.is_usable, dead.reason) == ("DOWN", False, "Not responding [slurm@2024-07-01T00:00:00]")
    assert (busy.is_usable, busy.free_gpus) == (False, 0)


def test_the_recorded_partitions_and_configuration() -> None:
    partitions = {partition.name: partition for partition in read_partitions(recorded("partitions"))}
    gpu, closed, short = partitions["gpu"], partitions["closed"], partitions["short"]
    assert (gpu.is_default, gpu.is_up, gpu.time_limit, gpu.default_time) == (True, True, 2 * 86400.0, 3600.0)
    assert (closed.is_up, closed.time_limit, closed.nodes, closed.most_nodes) == (False, 1800.0, "n2", None)
    assert (short.time_limit, short.most_nodes, short.default_time) == (300.0, 1, None)
    assert partitions["one"].time_limit is None
    config = read_config(recorded("config"))
    assert (config.cluster, config.version, config.kill_wait, config.keeps_ended) == ("test", (22, 5), 30.0, 300.0)


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:4", [Gpus("", 4)]),
        ("gpu", [Gpus("", 1)]),
        ("gpu:a100", [Gpus("a100", 1)]),
        ("gpu:a100:4(S:0-1)", [Gpus("a100", 4)]),
        ("gpu:nvidia_a100-sxm4-80gb:8(S:0,1)", [Gpus("nvidia_a100-sxm4-80gb", 8)]),
        ("gpu:1g.5gb:7,gpu:a100:1", [Gpus("1g.5gb", 7), Gpus("a100", 1)]),
        ("gpu:0(IDX:N/A)", [Gpus("", 0)]),
        ("craynetwork:4,gpu:2,license:3", [Gpus("", 2)]),
        ("gpumem:40", []),
        ("(null)", []),
        ("", []),
    ],
)
def test_gpus(gres: str, gpus: list[Gpus]) -> None:
    assert list(read_gpus(gres)) == gpus


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-11],login", ["n08", "n09", "n10", "n11", "login"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_host_lists(hosts: str, names: list[str]) -> None:
    assert list(expand_hosts(hosts)) == names


@pytest.mark.parametrize("hosts", ["n[", "n]1", "n[a-b]", "n[1-]", "n[1-999999999]"])
def test_what_is_no_host_list_is_refused(hosts: str) -> None:
    with pytest.raises(LabError, match="cannot be read"):
        expand_hosts(hosts)


@pytest.mark.parametrize("given", ["N/A", "Unknown", "(null)", "", "0", "soon", "4294967294x"])
def test_what_is_no_time_is_none(given: str) -> None:
    assert read_time(given) is None


@pytest.mark.parametrize(
    ("printed", "number"), [("12", "12"), ("12;north\n", "12;north"), ("Hello!\nquota: 3\n12\n", "12")]
)
def test_the_number_of_a_submitted_job(printed: str, number: str) -> None:
    assert read_submitted(printed) == number


@pytest.mark.parametrize("printed", ["", "Submitted", "-1", "12 13", "12;bad name"])
def test_what_is_no_number_of_a_job_is_refused(printed: str) -> None:
    with pytest.raises(LabError, match="What sbatch printed cannot be read"):
        read_submitted(printed)


@pytest.mark.parametrize("printed", ["", "garbage", "JobId=1", "{}", "\0\0"])
def test_garbage_instead_of_a_job_is_refused(printed: str) -> None:
    with pytest.raises(LabError, match="cannot be read"):
        read_job(printed)
    assert read_nodes(printed) == ()
    assert read_partitions(printed) == ()
    with pytest.raises(LabError, match="cannot be read"):
        read_config(printed)
