"""`ownlab run --engine slurm` as a process, on a real cluster: what people see, and how a job ends."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.guest.conftest import torch_python  # noqa: F401  # a fixture

from ownlab.lab.engines.registry import find_engine

if TYPE_CHECKING:
    from tests.command_line import World
    from tests.lab.engines.slurm.cluster import Cluster

Valid = Callable[[str, str], Any]
Started = Callable[..., "subprocess.Popen[str]"]

GREETS = """
import os, sys
print("cards", os.environ["CUDA_VISIBLE_DEVICES"], "arguments", sys.argv[1:])
print("secret", os.environ.get("MY_SECRET"), file=sys.stderr)
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
WAITS = """
import os, time
print("at work", flush=True)
while not os.path.exists("finish"): time.sleep(0.02)
"""
RANKS = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
print("rank", rank, "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], "total", total.item(),
      "cards", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
if "fail" in sys.argv and rank == 3: raise ValueError("rank three is broken")
dist.barrier()
dist.destroy_process_group()
"""
SLURM = ("run", "--engine", "slurm", "--python", sys.executable)


def script(world: World, source: str, name: str = "train.py") -> str:
    path = world.root / name
    path.write_text(source)
    return str(path)


def log(world: World, folder: str = "train-run", rank: int = 0) -> str:
    path = world.root / folder / f"rank-{rank}.log"
    return path.read_text() if path.exists() else ""


@pytest.fixture
def started(member: World) -> Iterator[Started]:
    """Start `ownlab run --engine slurm`, and end what a failed test leaves."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        running.append(member.start(*SLURM, *arguments))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.terminate()
        process.communicate()


def number_of(world: World, folder: str = "train-run") -> str:
    """The number of the Slurm job of a run."""
    path = world.root / folder / "run.json"
    return str(json.loads(path.read_text()).get("reference", "")) if path.exists() else ""


def test_a_script_runs_on_a_node_with_its_cards(member: World, valid: Valid, monkeypatch: pytest.MonkeyPatch) -> None:
    member.env["MY_SECRET"] = "do-not-export"
    path = script(member, GREETS)
    ran = member.run(*SLURM, "--gpus", "2", "--nproc", "1", path, "0", "two words")
    assert (ran.returncode, ran.stdout) == (0, "cards 0,1 arguments ['0', 'two words']\nsecret None\n"), ran.stderr
    assert "2 × fake on 1 node of partition gpu" in ran.stderr
    assert "Done in" in ran.stderr
    ran = member.run(*SLURM, "--json", path, "7")
    report = valid(ran.stdout, "run-script")
    assert (ran.returncode, report["exit_code"], report["status"], report["engine"]) == (7, 7, "failed", "slurm")
    assert report["reference"].isdigit()
    assert log(member, "train-run-2") == "cards  arguments ['7']\nsecret None\n"


def test_nothing_secret_is_in_a_command_line_or_the_batch_script(member: World, started: Started, until: Any) -> None:
    member.env["MY_SECRET"] = "do-not-export"
    process = started(script(member, WAITS), "--token=of-the-script")
    until(lambda: "at work" in log(member))
    environments = [
        path.read_bytes() for path in map(Path, job_environments(member)) if os.access(path, os.R_OK)
    ]  # fmt: skip
    assert environments
    assert not [each for each in environments if b"do-not-export" in each]
    kept = (member.root / "train-run" / "job.sh").read_text()
    assert "of-the-script" not in kept
    assert "do-not-export" not in kept
    (member.root / "finish").touch()
    assert process.wait(180) == 0


def job_environments(world: World) -> list[str]:
    """The environ files of the processes of the job."""
    mark = f"OWNLAB_FOLDER={world.root / 'train-run'}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(str(path))
        except OSError:  # noqa: PERF203  # it has ended
            continue
    return found


def test_two_nodes_meet_by_torchrun(member: World, torch_python: str) -> None:  # noqa: F811
    ran = member.run(
        "run", "--engine", "slurm", "--python", torch_python, "--nodes", "2", "--gpus", "2", script(member, RANKS)
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "rank 0 of 4 local 0 total 10.0 cards 0,1\n"
    assert "4 ranks on n1 and n2" in ran.stderr
    assert log(member, rank=3) == "rank 3 of 4 local 1 total 10.0 cards 0,1\n"


def test_the_first_failure_of_several_nodes_is_shown(member: World, torch_python: str, valid: Valid) -> None:  # noqa: F811
    arguments = ("--python", torch_python, "--nodes", "2", "--nproc", "2", "--json", script(member, RANKS), "fail")
    ran = member.run("run", "--engine", "slurm", *arguments)
    report = valid(ran.stdout, "run-script")
    assert (ran.returncode, report["status"], report["ranks"], report["nodes"]) == (1, "failed", 4, 2)
    assert (report["failure"]["rank"], report["failure"]["value"]) == (3, "rank three is broken")


def test_control_c_interrupts_the_ranks(member: World, started: Started, until: Any) -> None:
    process = started(script(member, WAITS))
    until(lambda: "at work" in log(member))
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert (process.returncode, "Interrupting" in stderr) == (130, True)
    assert "KeyboardInterrupt" in log(member)


def test_a_run_in_the_background_is_followed_and_stopped(member: World, cluster: Cluster, until: Any) -> None:
    ran = member.run(*SLURM, "--detach", script(member, WAITS))
    assert ran.returncode == 0, ran.stderr
    number = number_of(member)
    assert f"The script is job {number}" in ran.stdout
    until(lambda: "at work" in log(member))
    assert member.run("runtimes", "log", "train.py").stdout == "at work\n"
    assert json.loads(member.run("runtimes", "log", "--json", "train.py").stdout)["status"] == "running"
    stopped = member.run("runtimes", "stop", "train.py")
    assert (stopped.returncode, "has stopped" in stopped.stdout) == (0, True), stopped.stderr
    report = json.loads(member.run("runtimes", "log", "--json", "train.py").stdout)
    assert (report["status"], report["reason"], report["cause"]) == ("stopped", "it was stopped by hand", "cancelled")
    again = member.run("runtimes", "stop", "train.py")
    assert (again.returncode, "has ended already" in again.stderr) == (3, True)
    assert number not in cluster.ask("squeue", "-h", "-o", "%i").split()


def test_jobs_of_scripts_are_listed(member: World, started: Started, valid: Valid, until: Any) -> None:
    process = started("--partition", "one", "--gpus", "1", "--nproc", "1", script(member, WAITS))
    until(lambda: "at work" in log(member))
    assert (
        member.run(*SLURM, "--partition", "closed", "--detach", "-o", "second", script(member, WAITS)).returncode == 0
    )
    snapshot = valid(member.run("runtimes", "--json").stdout, "runtimes")
    first, second = snapshot["jobs"]
    assert (first["state"], first["nodes"], first["reference"]) == ("running", ["n1"], number_of(member))
    assert first["ends_at"] > snapshot["at"]
    assert (second["state"], second["why"]) == (
        "waiting", "the partition is closed; it starts when the administrators open it",
    )  # fmt: skip
    shown = " ".join(member.run("runtimes").stdout.split())
    assert f"slurm job {first['reference']} · 1 × fake on 1 node of partition one · node n1" in shown
    assert "the partition is closed" in shown
    assert "No runtime is running" not in shown
    assert member.run("runtimes", "stop", second["id"][:8]).returncode == 0
    (member.root / "finish").touch()
    assert process.wait(180) == 0
    assert valid(member.run("runtimes", "--json").stdout, "runtimes")["jobs"] == []


def test_a_killed_terminal_leaves_no_doubt(member: World, started: Started, until: Any) -> None:
    """Slurm does not notice that ownlab was killed: the job goes on, and its end is known afterwards."""
    process = started(script(member, WAITS))
    until(lambda: "at work" in log(member))
    process.kill()
    process.communicate()
    (member.root / "finish").touch()
    followed = member.run("runtimes", "log", "-f", "train.py")
    assert (followed.returncode, followed.stdout) == (0, "at work\n")
    assert "Done in" in followed.stderr


def test_scancel_by_others_is_named(member: World, started: Started, cluster: Cluster, until: Any) -> None:
    process = started(script(member, WAITS))
    until(lambda: "at work" in log(member))
    cluster.ask("scancel", number_of(member))
    _, stderr = process.communicate(timeout=300)
    assert (process.returncode, "its Slurm job was cancelled, not by ownlab" in stderr) == (143, True), stderr


def test_the_time_limit_is_named(member: World, started: Started, cluster: Cluster, until: Any) -> None:
    """Slurm looks at time limits every half minute; scontrol sets one that is over."""
    process = started("--time", "2", script(member, WAITS))
    until(lambda: "at work" in log(member))
    cluster.ask("scontrol", "update", f"JobId={number_of(member)}", "TimeLimit=0:01")
    _, stderr = process.communicate(timeout=300)
    assert (process.returncode, "it has reached its time limit" in stderr) == (143, True), stderr


def test_a_run_goes_on_while_the_controller_is_restarted(
    member: World, started: Started, cluster: Cluster, until: Any
) -> None:
    process = started(script(member, WAITS))
    until(lambda: "at work" in log(member))
    cluster.end("slurmctld")
    until(lambda: "DOWN" in cluster.ask("scontrol", "ping"))
    assert process.poll() is None
    cluster.start_controller()
    until(lambda: "RUNNING" in cluster.ask("squeue", "-h", "-j", number_of(member), "-o", "%T"))
    (member.root / "finish").touch()
    stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stdout, "Done in" in stderr) == (0, "at work\n", True), stderr


def test_a_folder_that_is_not_on_the_node_is_named(member: World, cluster: Cluster, until: Any) -> None:
    cluster.ask("scontrol", "update", "PartitionName=one", "State=DOWN")
    try:
        ran = member.run(*SLURM, "--partition", "one", "--detach", script(member, WAITS))
        assert ran.returncode == 0, ran.stderr
        folder = member.root / "train-run"
        os.rename(folder, member.root / "elsewhere")
    finally:
        cluster.ask("scontrol", "update", "PartitionName=one", "State=UP")
    number = number_of(member, "elsewhere")
    until(lambda: "JobState=FAILED" in cluster.ask("scontrol", "show", "job", number))
    os.rename(member.root / "elsewhere", folder)
    report = json.loads(member.run("runtimes", "log", "--json", "train.py").stdout)
    assert report["status"] == "failed"
    assert "cannot write to the folder of its logs" in report["reason"]


def test_a_python_that_is_not_on_the_node_is_named(member: World, cluster: Cluster, until: Any) -> None:
    python = member.root / "python"
    python.symlink_to(sys.executable)
    cluster.ask("scontrol", "update", "PartitionName=one", "State=DOWN")
    try:
        ran = member.run("run", "--engine", "slurm", "--python", str(python), "--partition", "one", "--detach",
                         script(member, WAITS))  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        python.unlink()
    finally:
        cluster.ask("scontrol", "update", "PartitionName=one", "State=UP")
    followed = member.run("runtimes", "log", "-f", "train.py")
    assert followed.returncode != 0
    assert "its Python, or ownlab itself, is not on the node n1" in followed.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--partition", "nowhere"), "There is no partition nowhere; the cluster has gpu, closed, one and short."),
        (("--gpus", "9"), "A node of partition gpu has 4 × fake; 9 × GPU were requested"),
        (("-t", "a100", "--gpus", "1"), "A node of partition gpu has 4 × fake; 1 × a100 were requested"),
        (("--nodes", "3"), "Partition gpu gives a job at most 2 such nodes; 3 were requested."),
        (("--partition", "short", "--nodes", "2"), "at most 1 such nodes; 2 were requested."),
        (("--partition", "short", "--time", "1:00:00"), "Partition short lets jobs run for 5 min"),
        (("--time", "soon"), "--time must be minutes, hours:minutes:seconds or days-hours:minutes:seconds"),
    ],
)  # fmt: skip
def test_what_the_cluster_does_not_have_is_refused_before_anything_is_submitted(
    member: World, cluster: Cluster, options: tuple[str, ...], said: str
) -> None:
    ran = member.run(*SLURM, *options, script(member, WAITS))
    assert ran.returncode in (1, 2)
    assert said in " ".join(ran.stderr.split()), ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (member.root / "train-run").exists()
    assert cluster.ask("squeue", "-h", "-o", "%k").strip() == ""


def test_what_sbatch_refuses_is_told_with_its_reason(member: World) -> None:
    member.env["OWNLAB_SLURM_OPTIONS"] = "--constraint=warp-drive"
    ran = member.run(*SLURM, script(member, WAITS))
    assert (ran.returncode, "can ever meet this request: Invalid feature specification" in ran.stderr) == (1, True), (
        ran.stderr
    )
    member.env["OWNLAB_SLURM_OPTIONS"] = "--mem='1G"
    ran = member.run(*SLURM, script(member, WAITS))
    assert (ran.returncode, "slurm.options cannot be read" in ran.stderr) == (2, True), ran.stderr
    assert not (member.root / "train-run").exists()


def test_a_closed_partition_is_waited_for_with_its_reason(member: World, started: Started, until: Any) -> None:
    process = started("--partition", "closed", script(member, WAITS))
    assert process.stderr is not None
    line = process.stderr.readline()
    assert "Waiting for 1 node of partition closed, CPU: the partition is closed" in line
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130, stderr


def test_a_script_from_standard_input_runs_on_a_node(member: World) -> None:
    """As `%%train` starts it, if the setting run.engine is slurm."""
    member.env["OWNLAB_RUN_ENGINE"] = "slurm"
    command = [sys.executable, "-m", "ownlab", "run", "--python", sys.executable, "-", "x"]
    source = "import os, sys\nprint(sys.argv[1:], os.environ['SLURMD_NODENAME'])\n"
    ran = subprocess.run(
        command, input=source, capture_output=True, text=True, env=member.env, cwd=member.root, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "['x'] n1\n"), ran.stderr


def test_the_partitions_are_listed_with_what_is_free(member: World, started: Started, valid: Valid, until: Any) -> None:
    process = started("--partition", "one", "--gpus", "4", "--nproc", "1", script(member, WAITS))
    until(lambda: "at work" in log(member))
    listed = valid(member.run("types", "--engine", "slurm", "--json").stdout, "types-offers")
    offers = {(each["partition"], each["type"]["kind"]): each for each in listed["offers"]}
    assert set(offers) == {(name, kind) for name in ("gpu", "one", "closed", "short") for kind in (None, "fake")}
    on_one, on_both = offers["one", "fake"], offers["gpu", "fake"]
    assert (on_one["type"]["cards"], on_one["nodes"], on_one["type"]["free"]) == (4, 1, False)
    assert (on_both["nodes"], on_both["type"]["free"], on_both["time_limit"]) == (2, True, 172800.0)
    assert offers["closed", None]["type"]["why_not"] == "the partition is closed"
    shown = member.run("types", "--engine", "slurm").stdout
    assert "4 × fake on each of 2 nodes of partition gpu" in shown
    assert "at most 2 d" in shown
    (member.root / "finish").touch()
    assert process.wait(180) == 0


def test_without_slurm_it_says_so(world: World) -> None:
    world.env["PATH"] = str(world.root)
    ran = world.run(*SLURM, script(world, WAITS))
    assert (ran.returncode, "Slurm is not available here: sinfo is not installed" in ran.stderr) == (3, True), (
        ran.stderr
    )
    assert "Slurm is not available here" in world.run("types", "--engine", "slurm").stderr
    assert "There is no engine cloud" in world.run("types", "--engine", "cloud").stderr
    ran = world.run("run", "--partition", "gpu", script(world, WAITS))
    assert (ran.returncode, "--partition is for a cluster" in ran.stderr) == (2, True)


def test_what_is_not_free_says_when_it_would_start(member: World, cluster: Cluster, until: Any) -> None:
    """Both nodes are taken for an hour."""
    for _ in range(2):
        given = ["--partition=gpu", "--gres=gpu:fake:4", "--time=60", "--output=/dev/null", "--wrap", "sleep 600"]
        cluster.ask("sbatch", *given)
    try:
        until(lambda: cluster.ask("squeue", "-h", "-t", "running", "-o", "%i").split()[1:])
        engine = find_engine("slurm")
        types = {(each.kind, each.cards): each for each in engine.notebook_types() if each.partition == "gpu"}
        assert types[None, 0].free
        assert types[None, 0].starts_at is None
        taken = types["fake", 4]
        assert not taken.free
        assert taken.starts_at is not None
        assert 50 < (taken.starts_at - time.time()) / 60 < 62
        closed = [each for each in engine.notebook_types() if each.partition == "closed"]
        assert {(each.free, each.starts_at, each.why_not) for each in closed} == {
            (False, None, "the partition is closed")
        }
        printed = member.run("types", "--engine", "slurm").stdout
        assert time.strftime("no node is free, expected start %F %H:%M", time.localtime(taken.starts_at)) in printed
    finally:
        cluster.ask("scancel", "-u", getpass.getuser())
        until(lambda: not cluster.ask("squeue", "-h").strip())
