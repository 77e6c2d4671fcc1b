"""`ownlab run --sweep` as a process: leases, a combination that fails, continuing, interrupts, kills, and the background."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.cli.test_run import FORM, write

if TYPE_CHECKING:
    from tests.command_line import World

Valid = Callable[[str, str], Any]

TRAINS = """
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--bs", type=int)
parser.add_argument("--base", type=int, default=0)
given = parser.parse_args()
with open("starts", "a") as file: file.write(f"{given.lr} {given.bs} {os.environ['CUDA_VISIBLE_DEVICES']}\\n")
print("at work", flush=True)
while given.bs == 7 and not os.path.exists("finish"): time.sleep(0.02)
print(f"loss={given.lr * 1000 + given.base} accuracy: {1 - given.lr}")
if given.bs == 64 and given.lr == 0.001 and not os.path.exists("fixed"): raise ValueError("a bad combination")
"""


def trains(world: World) -> str:
    path = world.root / "train.py"
    path.write_text(TRAINS)
    return str(path)


def starts(world: World) -> list[str]:
    path = world.root / "starts"
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def clean(world: World) -> Iterator[World]:
    """The world, in which nothing goes on after the test."""
    yield world
    deadline = time.monotonic() + 60
    while (pids := world.processes()) and time.monotonic() < deadline:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def test_a_grid_with_a_failure_is_continued(clean: World, valid: Valid) -> None:
    world, path = clean, trains(clean)
    command = (
        "run",
        "--gpus",
        "2",
        "--nproc",
        "1",
        "--sweep",
        "lr=1e-3,1e-4",
        "--sweep",
        "bs=32,64",
        path,
        "--base",
        "1",
    )
    ran = world.run(*command)
    assert ran.returncode == 1, ran.stderr
    assert sorted(line.split()[0] + line.split()[1] for line in starts(world)) == [
        "0.000132",
        "0.000164",
        "0.00132",
        "0.00164",
    ]
    assert {line.split()[2] for line in starts(world)} <= {"0,1", "2,3"}
    table = ran.stdout.splitlines()
    assert table[0].split() == ["lr", "bs", "state", "time", "loss", "accuracy", "loss"]
    assert table[1].split()[:3] == ["1e-3", "32", "done"]
    assert table[2].split()[:3] == ["1e-3", "64", "failed"]
    assert "lr=1e-3 bs=64: ValueError: a bad combination" in ran.stdout
    assert "4 combinations on Python 3 (2 ×" in ran.stderr
    (world.root / "fixed").touch()
    again = world.run(*command[:1], "--json", *command[1:])
    assert again.returncode == 0
    report = valid(again.stdout, "run-sweep")
    assert [trial["status"] for trial in report["trials"]] == ["done"] * 4
    assert report["trials"][2]["metrics"] == {"loss": 1.1, "accuracy": 0.9999}
    assert len(starts(world)) == 5
    assert "3 of them are finished already" in again.stderr
    assert len(world.run(*command[:-1], "2").stdout) > 0  # another argument: other results
    assert len(starts(world)) == 9
    assert world.run(*command[:1], "--force", *command[1:]).returncode == 0
    assert len(starts(world)) == 13
    assert not world.processes()


def test_a_notebook_with_its_fields(clean: World) -> None:
    path = write(clean.folder, "a.ipynb", FORM, "print(f'score: {epochs * 2}', mode)")
    ran = clean.run("run", "--sweep", "epochs=3,5", str(path), "-p", "mode=a=b", "--jobs", "2")
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[:2] + line.split()[-2:-1] for line in ran.stdout.splitlines()[1:3]] == [
        ["3", "done", "6"], ["5", "done", "10"],
    ]  # fmt: skip
    output = json.loads((clean.root / "a.ipynb-sweep" / "epochs=5.ipynb").read_text())
    assert "score: 10 a=b" in json.dumps(output)
    refused = clean.run("run", "--sweep", "epoch=3", str(path))
    assert (refused.returncode, "Did you mean epochs?" in refused.stderr) == (2, True)
    refused = clean.run("run", "--sweep", "epochs=many", str(path))
    assert (refused.returncode, "epochs must be" in refused.stderr) == (2, True)
    assert clean.run("run", "--jobs", "2", str(path)).returncode == 2
    assert clean.run("run", "--sweep", "epochs=1", "--inplace", str(path)).returncode == 2


def test_ctrl_c_keeps_what_is_finished(clean: World, until: Callable[..., Any]) -> None:
    world, path = clean, trains(clean)
    command = ("run", "--gpus", "4", "--nproc", "1", "--sweep", "bs=1,7,9", path, "--lr", "1")
    process = world.start(*command)
    until(lambda: len(starts(world)) == 2)
    until(lambda: "at work" in (world.root / "train.py-sweep" / "bs=7" / "rank-0.log").read_text())
    process.send_signal(signal.SIGINT)
    table, errors = process.communicate(timeout=180)
    assert process.returncode == 130, errors
    assert [line.split()[:2] for line in table.splitlines()[1:4]] == [
        ["1", "done"],
        ["7", "interrupted"],
        ["9", "queued"],
    ]
    assert "2 combinations are not finished" in table
    until(lambda: not world.processes())
    (world.root / "finish").touch()
    assert world.run(*command).returncode == 0
    assert [line.split()[1] for line in starts(world)] == ["1", "7", "7", "9"]


def test_a_second_ctrl_c_ends_what_ignores_the_first(clean: World, until: Callable[..., Any]) -> None:
    ignores = "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('ignored', flush=True))"
    Path(trains(clean)).write_text(ignores + TRAINS)
    process = clean.start("run", "--sweep", "bs=7", "train.py")
    log = clean.root / "train.py-sweep" / "bs=7" / "rank-0.log"
    until(lambda: log.exists() and "at work" in log.read_text())
    process.send_signal(signal.SIGINT)
    until(lambda: "ignored" in log.read_text())
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=180)
    assert process.returncode == 130
    until(lambda: not clean.processes())


def test_nothing_outlives_a_sweep_that_is_killed(clean: World, until: Callable[..., Any]) -> None:
    process = clean.start("run", "--gpus", "2", "--nproc", "1", "--sweep", "bs=7", trains(clean))
    until(lambda: starts(clean))
    process.kill()
    process.communicate()
    until(lambda: not clean.processes())
    assert os.listdir(clean.root / "store" / "locks") == []


def test_a_sweep_in_the_background(clean: World, until: Callable[..., Any]) -> None:
    world, path = clean, trains(clean)
    command = ("run", "--gpus", "4", "--nproc", "1", "--sweep", "bs=7,8", path, "--lr", "1")
    ran = world.run(command[0], "--detach", *command[1:])
    assert (ran.returncode, "2 combinations run in the background." in ran.stdout) == (0, True), ran.stderr
    until(lambda: starts(world))
    so_far = world.run(*command)
    assert "This sweep is running. So far:" in so_far.stdout
    assert [line.split()[1] for line in so_far.stdout.splitlines()[2:4]] == ["running", "queued"]
    (world.root / "finish").touch()
    log = world.root / "train.py-sweep" / "sweep.log"
    until(lambda: "Results:" in log.read_text())
    until(lambda: not world.processes())
    assert len(starts(world)) == 2
    assert subprocess.run(["cat", str(log)], capture_output=True, text=True, check=True).stdout.count("done") == 4


def test_a_damaged_record_is_run_again(clean: World) -> None:
    command = ("run", "--sweep", "bs=1", trains(clean), "--lr", "1")
    assert clean.run(*command).returncode == 0
    Path(clean.root, "train.py-sweep", "bs=1.json").write_text("{")
    assert clean.run(*command).returncode == 0
    assert len(starts(clean)) == 2
