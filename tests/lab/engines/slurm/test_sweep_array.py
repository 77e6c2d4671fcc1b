"""A sweep of a script as a job array of a real cluster: its results, and what remains when the sweep is interrupted or killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.command_line import World
    from tests.lab.engines.slurm.cluster import Cluster

Until = Callable[..., Any]
Valid = Callable[[str, str], Any]
Start = Callable[..., "subprocess.Popen[str]"]

# Waits for a file of its value if it is to wait; the last line is its result.
TRAINS = """
import os, sys, time
value = sys.argv[-1].partition("=")[2]
print("job", os.environ["SLURM_ARRAY_JOB_ID"], "task", os.environ["SLURM_ARRAY_TASK_ID"],
      "cards", repr(os.environ["CUDA_VISIBLE_DEVICES"]), flush=True)
with open("starts", "a") as file: file.write(value + "\\n")
while "wait" in sys.argv and not os.path.exists("go-" + value): time.sleep(0.02)
if value == "9": raise ValueError("nine is too much")
print("loss=" + value)
"""
SWEEP = ("run", "--engine", "slurm", "--python", sys.executable, "--partition", "one")


@pytest.fixture
def path(member: World) -> str:
    """A script that is swept."""
    file = member.root / "train.py"
    file.write_text(TRAINS)
    return str(file)


@pytest.fixture
def start(member: World, cluster: Cluster) -> Iterator[Start]:
    """Start `ownlab run`; afterwards no job is left."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> subprocess.Popen[str]:
        running.append(member.start(*SWEEP, *arguments))
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
    cluster.ask("scancel", "--full", "--signal=KILL", "--state=RUNNING", "-u", "root")
    cluster.ask("scancel", "-u", "root")


def rank_log(member: World, value: str) -> str:
    file = member.root / "train.py-sweep" / f"lr={value}" / "rank-0.log"
    return file.read_text() if file.exists() else ""


def queue(cluster: Cluster) -> list[str]:
    """The numbers and states of all jobs that have not ended."""
    return [line for line in cluster.ask("squeue", "-h", "-r", "-o", "%i %T").splitlines() if line.strip()]


def references(member: World) -> dict[str, str]:
    """The number of the job of each combination."""
    runs = sorted((member.root / "train.py-sweep").glob("lr=*/run.json"))
    return {run.parent.name: json.loads(run.read_text())["reference"] for run in runs}


def test_all_combinations_are_one_array(member: World, path: str, valid: Valid, cluster: Cluster) -> None:
    ran = member.run(*SWEEP, "--gpus", "1", "--sweep", "lr=1,2,9", "--json", path)
    report = valid(ran.stdout, "run-sweep")
    assert ran.returncode == 1, ran.stderr
    trials = {trial["parameters"]["lr"]: trial for trial in report["trials"]}
    assert {lr: (trial["status"], trial["metrics"]) for lr, trial in trials.items()} == {
        "1": ("done", {"loss": 1.0}), "2": ("done", {"loss": 2.0}), "9": ("failed", {}),
    }  # fmt: skip
    assert trials["9"]["reason"] == "ValueError: nine is too much"
    first = [rank_log(member, lr).split() for lr in ("1", "2", "9")]
    assert len({line[1] for line in first}) == 1, "one job"
    assert [line[3] for line in first] == ["0", "1", "2"]
    assert {line[5] for line in first} <= {"'0'", "'1'", "'2'", "'3'"}
    assert sorted(references(member).values()) == [f"{first[0][1]}_{task}" for task in range(3)]
    assert not list((member.root / "train.py-sweep").glob("array-*")), "its own files are removed"
    again = valid(member.run(*SWEEP, "--gpus", "1", "--sweep", "lr=1,2,9,4", "--json", path).stdout, "run-sweep")
    assert [(trial["status"], trial["kept"]) for trial in again["trials"]] == [
        ("done", True), ("done", True), ("failed", False), ("done", False),
    ]  # fmt: skip
    assert sorted((member.root / "starts").read_text().split()) == ["1", "2", "4", "9", "9"]


def test_a_killed_sweep_goes_on_and_is_taken_up_again(
    member: World, path: str, start: Start, cluster: Cluster, valid: Valid, until: Until
) -> None:
    given = ("--sweep", "lr=1,2,3", "--jobs", "2", path, "wait")
    process = start(*given)
    until(lambda: "job" in rank_log(member, "1") and "job" in rank_log(member, "2"))
    before = references(member)
    process.kill()
    process.communicate()
    assert [line.split()[1] for line in sorted(queue(cluster))] == ["RUNNING", "RUNNING", "PENDING"], "two at a time"
    (member.root / "go-1").touch()
    until(lambda: (member.root / "train.py-sweep" / "lr=1" / "end.json").exists())
    # As if it had been killed before it could write the numbers of the jobs down.
    run = member.root / "train.py-sweep" / "lr=2" / "run.json"
    run.write_text(json.dumps({**json.loads(run.read_text()), "reference": ""}))
    process = start(*given[:-2], "--json", *given[-2:])
    for value in ("2", "3"):
        (member.root / f"go-{value}").touch()
    stdout, stderr = process.communicate(timeout=300)
    report = valid(stdout, "run-sweep")
    assert process.returncode == 0, stderr
    assert [(trial["status"], trial["metrics"]["loss"]) for trial in report["trials"]] == [
        ("done", 1.0), ("done", 2.0), ("done", 3.0),
    ]  # fmt: skip
    assert sorted((member.root / "starts").read_text().split()) == ["1", "2", "3"], "nothing ran twice"
    assert {**references(member), "lr=2": before["lr=2"]} == before


def test_control_c_ends_the_array_and_the_same_command_continues(
    member: World, path: str, start: Start, cluster: Cluster, until: Until
) -> None:
    given = ("--sweep", "lr=1,2,3", "--jobs", "1", path, "wait")
    process = start(*given)
    until(lambda: "job" in rank_log(member, "1"))
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 130, stderr
    assert "3 combinations are not finished. The same command continues." in stdout
    until(lambda: not queue(cluster))
    for value in ("1", "2", "3"):
        (member.root / f"go-{value}").touch()
    process = start(*given)
    stdout, stderr = process.communicate(timeout=300)
    assert (process.returncode, stdout.count("done")) == (0, 3), stderr
    assert (member.root / "starts").read_text().split() == ["1", "1", "2", "3"]


def test_a_cancelled_task_has_failed_and_the_others_go_on(
    member: World, path: str, start: Start, cluster: Cluster, until: Until
) -> None:
    process = start("--sweep", "lr=1,2", "--jobs", "1", path, "wait")
    until(lambda: "job" in rank_log(member, "1"))
    cluster.ask("scancel", references(member)["lr=1"])
    (member.root / "go-2").touch()
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 1, stderr
    assert "its Slurm job was cancelled, not by ownlab" in stdout
    assert "loss=2" in Path(member.root / "train.py-sweep" / "lr=2" / "rank-0.log").read_text()


def test_an_array_that_slurm_refuses_leaves_nothing(member: World, path: str, cluster: Cluster) -> None:
    member.env["OWNLAB_SLURM_OPTIONS"] = "--constraint=warp-drive"
    ran = member.run(*SWEEP, "--sweep", "lr=1,2", path)
    assert (ran.returncode, "can ever meet this request" in ran.stderr) == (1, True), ran.stderr
    assert not list((member.root / "train.py-sweep").glob("*=*"))
    assert not list((member.root / "train.py-sweep").glob("array-*"))
    assert queue(cluster) == []
