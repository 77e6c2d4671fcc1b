"""`ownlab run SCRIPT` as a process: ranks by the real torchrun on the CPU, leases of fake cards, signals, and the background."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.guest.conftest import torch_python  # noqa: F401  # a fixture

from ownlab.lab.cli.run import command

if TYPE_CHECKING:
    from tests.command_line import World

Valid = Callable[[str, str], Any]

GREETS = """
import os, sys
print("cards", os.environ["CUDA_VISIBLE_DEVICES"], "arguments", sys.argv[1:], flush=True)
sys.stderr.write("on stderr\\n")
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
WAITS = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("at work", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
while not os.path.exists("finish"): time.sleep(0.02)
child.kill()
"""
RANKS = """
import os, signal, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
print("rank", rank, "of", dist.get_world_size(), "total", total.item(), flush=True)
what = sys.argv[1] if len(sys.argv) > 1 else ""
if what == "fail" and rank == 1: raise ValueError("rank one is broken")
if what == "exit" and rank == 1: sys.exit(9)
if what == "kill" and rank == 1: os.kill(os.getpid(), signal.SIGKILL)
if what == "wait":
    print("at work", flush=True)
    while True: time.sleep(0.02)
dist.barrier()
dist.destroy_process_group()
"""


def script(world: World, source: str, name: str = "train.py") -> str:
    path = world.root / name
    path.write_text(source)
    return str(path)


def runtimes(world: World) -> list[dict[str, Any]]:
    return json.loads(world.run("runtimes", "--json").stdout)["runtimes"]  # type: ignore[no-any-return]


def log(world: World, folder: str = "train-run", rank: int = 0) -> str:
    path = world.root / folder / f"rank-{rank}.log"
    return path.read_text() if path.exists() else ""


def nothing_left(world: World) -> bool:
    """Whether no process, lock or lease of a runtime is left."""
    locks = world.root / "store" / "locks"
    return not world.processes() and (not locks.exists() or os.listdir(locks) == [])


@pytest.fixture
def started(world: World) -> Any:
    """Start `ownlab run` in a group of its own, and end what a failed test leaves."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "ownlab", "run", *arguments],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=world.env, cwd=world.root,
            )
        )  # fmt: skip
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 60
    while world.processes() and time.monotonic() < deadline:
        for pid in world.processes():
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def test_a_script_gets_its_arguments_and_the_cards_that_it_leases(world: World, valid: Valid) -> None:
    path = script(world, GREETS)
    ran = world.run("run", "--gpus", "3", "--nproc", "1", path, "0", "--gpus", "--json", "-h")
    assert (ran.returncode, ran.stdout) == (0, "cards 0,1,2 arguments ['0', '--gpus', '--json', '-h']\non stderr\n")
    assert "Done in" in ran.stderr
    assert "--nproc stands behind" not in ran.stderr
    ran = world.run("run", "-o", "late", path, "0", "--nproc=2")
    assert (ran.returncode, "--nproc stands behind the script and is passed to it" in ran.stderr) == (0, True)
    ran = world.run("run", "--json", path, "7")
    report = valid(ran.stdout, "run-script")
    assert (ran.returncode, report["exit_code"], report["status"]) == (7, 7, "failed")
    assert report["folder"] == str(world.root / "train-run-2")
    assert log(world, "train-run-2") == "cards  arguments ['7']\non stderr\n"
    assert nothing_left(world)


def test_a_script_runs_as_python_would_run_it(world: World) -> None:
    (world.root / "package").mkdir()
    (world.root / "package" / "helper.py").write_text("value = 41")
    (world.root / "package" / "__init__.py").touch()
    source = """
import multiprocessing, pickle, sys
import helper
class Config: value = helper.value
def work(number): return number + Config.value
if __name__ == "__main__":
    assert isinstance(pickle.loads(pickle.dumps(Config())), Config)
    with multiprocessing.get_context("spawn").Pool(1) as pool: print(pool.map(work, [1]), __file__)
    assert 1 / 0
"""
    (world.root / "package" / "train.py").write_text(source)
    ran = world.run("run", "package/train.py")
    assert ran.stdout.startswith("[42] package/train.py\nTraceback (most recent call last):\n  File"), ran.stderr
    assert ran.stdout.endswith("ZeroDivisionError: division by zero\n")
    assert "rank.py" not in ran.stdout
    assert ran.returncode == 1
    assert "ZeroDivisionError: division by zero" in ran.stderr
    (world.root / "package" / "train.py").write_text(
        "import package.helper, sys; print(package.helper.value, sys.argv[1:])"
    )
    ran = world.run("run", "-m", "package.train", "-m", "x")
    assert ran.stdout == "41 ['-m', 'x']\n", ran.stderr


def test_two_ranks_and_what_each_prints(world: World, torch_python: str) -> None:  # noqa: F811
    ran = world.run("run", "--python", torch_python, "--gpus", "2", script(world, RANKS))
    assert ran.returncode == 0, ran.stderr + log(world, "train-run") + log(world, "train-run", 1)
    assert ran.stdout == "rank 0 of 2 total 3.0\n"
    assert log(world, rank=1) == "rank 1 of 2 total 3.0\n"
    assert "2 ranks on venv-torch (2 × NVIDIA GeForce GTX 1080 Ti), GPU 0 and 1;" in ran.stderr
    assert nothing_left(world)


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("fail", 1, "rank 1 of 2 failed first: ValueError: rank one is broken"),
        ("exit", 9, "rank 1 of 2 failed first, with exit code 9"),
        ("kill", 137, "rank 1 of 2 failed first: it was killed by SIGKILL"),
    ],
)
def test_the_first_failure_is_shown(world: World, torch_python: str, what: str, code: int, words: str) -> None:  # noqa: F811
    ran = world.run("run", "--quiet", "--python", torch_python, "--nproc", "2", script(world, RANKS), what)
    assert words in ran.stderr
    assert "Its log: train-run/rank-1.log" in ran.stderr
    assert ("raise ValueError" in ran.stderr) == (what == "fail")
    assert ran.returncode == code
    assert ran.stdout == ""
    assert nothing_left(world)


def test_without_torch_the_reason_is_said(world: World) -> None:
    import shutil

    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("no other Python")
    ran = world.run("run", "--python", "/usr/bin/python3", "--nproc", "2", script(world, RANKS))
    assert "There is no torch in /usr/bin/python3. Choose an environment" in ran.stderr
    assert ran.returncode not in (0, 1)


def test_one_waits_in_the_queue_until_the_other_has_ended(
    world: World, started: Any, until: Callable[..., Any]
) -> None:
    path = script(world, WAITS)
    first = started("--gpus", "3", "--nproc", "1", path)
    until(lambda: "at work 0,1,2" in log(world))
    second = started("--gpus", "2", "--nproc", "1", path)
    rows = until(lambda: [row for row in runtimes(world) if row["state"] == "waiting"])
    assert rows[0]["notebook"] == path
    assert "train.py" in rows[0]["why"]
    assert rows[0]["label"] == "Python 3 (2 × NVIDIA GeForce GTX 1080 Ti)"
    assert log(world, "train-run-2") == ""
    (world.root / "finish").touch()
    assert first.wait(180) == 0
    assert second.wait(180) == 0
    assert "at work 0,1" in log(world, "train-run-2")
    assert "Waiting for Python 3 (2 ×" in second.stderr.read()
    refused = world.run("run", "--gpus", "5", path)
    assert "has 4 × NVIDIA GeForce GTX 1080 Ti, but 5" in refused.stderr
    assert not (world.root / "train-run-3").exists()


def test_no_wait_is_refused_and_leaves_no_folder(world: World, started: Any, until: Callable[..., Any]) -> None:
    path = script(world, WAITS)
    started("--gpus", "4", "--nproc", "1", path)
    until(lambda: "at work" in log(world))
    ran = world.run("run", "--gpus", "1", "--no-wait", path)
    assert ran.returncode == 1
    assert "train.py" in ran.stderr
    assert not (world.root / "train-run-2").exists()


@pytest.mark.parametrize("ranks", [1, 2])
def test_ctrl_c_in_a_terminal_ends_all_ranks(
    world: World, torch_python: str, until: Callable[..., Any], ranks: int  # noqa: F811
) -> None:  # fmt: skip
    import fcntl
    import termios

    ours, theirs = os.openpty()
    path = script(
        world, RANKS.replace("dist.init_process_group(", "dist.init_process_group(init_method='env://', backend=")
    )
    alone = {} if ranks > 1 else {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-m", "ownlab", "run", "--python", torch_python, "--nproc", str(ranks), path, "wait"],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env={**world.env, **alone}, cwd=world.root, text=True,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    until(lambda: "at work" in log(world, rank=ranks - 1))
    os.write(ours, b"\x03")
    _, errors = process.communicate(timeout=180)
    os.close(ours)
    assert process.returncode == 130, errors
    assert "Interrupting" in errors
    assert "KeyboardInterrupt" in log(world, rank=0)
    until(lambda: nothing_left(world))


def test_a_second_ctrl_c_ends_a_script_that_ignores_the_first(
    world: World, started: Any, until: Callable[..., Any]
) -> None:
    path = script(world, "import signal\nsignal.signal(signal.SIGINT, lambda *_: print('ignored', flush=True))" + WAITS)
    process = started(path)
    until(lambda: "at work" in log(world))
    process.send_signal(signal.SIGINT)
    until(lambda: "ignored" in log(world))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(180) == 130
    until(lambda: nothing_left(world))


def test_nothing_outlives_a_command_that_is_killed(
    world: World, started: Any, torch_python: str, until: Callable[..., Any]  # noqa: F811
) -> None:  # fmt: skip
    process = started("--python", torch_python, "--gpus", "2", script(world, RANKS), "wait")
    until(lambda: "at work" in log(world, rank=1))
    process.kill()
    until(lambda: nothing_left(world))
    end = json.loads((world.root / "train-run" / "end.json").read_text())
    assert end["stopped"] == "the process that started it is gone"
    assert world.run("run", "--gpus", "4", "--nproc", "1", "--no-wait", script(world, GREETS, "b.py")).returncode == 0


def test_stop_gives_the_ranks_time_to_save(
    world: World, started: Any, torch_python: str, until: Callable[..., Any]  # noqa: F811
) -> None:  # fmt: skip
    saving = "import signal, sys\ndef save(*_):\n    print('saved', flush=True); sys.exit(0)\nsignal.signal(signal.SIGTERM, save)"
    process = started("--python", torch_python, "--nproc", "2", script(world, saving + RANKS), "wait")
    until(lambda: "at work" in log(world, rank=1) and "at work" in log(world))
    stopped = world.run("runtimes", "stop", "train.py")
    assert stopped.returncode == 0, stopped.stderr
    assert process.wait(180) == 143
    assert "saved" in log(world)
    assert "saved" in log(world, rank=1)
    assert "it was stopped by hand" in process.stderr.read()
    assert nothing_left(world)


def test_a_run_in_the_background_outlives_its_command(world: World, started: Any, until: Callable[..., Any]) -> None:
    path = script(world, WAITS)
    ran = world.run("run", "--gpus", "2", "--nproc", "1", "--detach", path)
    assert ran.returncode == 0, ran.stderr
    assert "The script has started, as runtime" in ran.stdout
    until(lambda: "at work 0,1" in log(world))
    row = until(
        lambda: next((each for each in runtimes(world) if each["busy"]), None)
    )  # its state is written a moment later
    assert (row["notebook"], row["state"], len(row["cards"])) == (path, "running", 2)
    shown = world.run("runtimes", "log", row["id"][:8])
    assert shown.stdout.startswith("at work 0,1\n"), shown.stderr
    following = started_log(world, row["id"])
    (world.root / "finish").touch()
    _, errors = following.communicate(timeout=180)
    assert (following.returncode, "Done in" in errors) == (0, True), errors
    until(lambda: nothing_left(world))
    report = json.loads(world.run("runtimes", "log", "train.py", "--json").stdout)
    assert (report["status"], report["exit_code"]) == ("done", 0)


def started_log(world: World, runtime: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ownlab", "runtimes", "log", "-f", runtime[:8]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=world.env, cwd=world.root,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-p", "x=1", "train.py"), "-p is for notebooks"),
        (("--keep", "train.py"), "--keep is for notebooks"),
        (("--gpus", "2", "a.ipynb"), "--gpus is for scripts"),
        (("nothing.py",), "There is no script nothing.py"),
        (("folder.py",), "folder.py is a folder"),
        (("pipe.py",), "pipe.py is not a file"),
        (("-m", "1x"), "-m takes the name of a module"),
        (("--gpus", "0", "train.py"), "--gpus"),
        (("--python", "/nothing", "train.py"), "/nothing is missing"),
        (("-o", "taken", "train.py"), "taken is not empty"),
        (("-t", "unknown", "train.py"), "Unknown runtime type"),
    ],
)
def test_wrong_usage(world: World, arguments: tuple[str, ...], words: str) -> None:
    script(world, GREETS)
    (world.root / "taken").mkdir()
    (world.root / "taken" / "mine").touch()
    (world.root / "folder.py").mkdir()
    os.mkfifo(world.root / "pipe.py")
    ran = world.run("run", *arguments)
    assert ran.returncode in (2, 3, 4)
    assert words in ran.stderr
    assert not (world.root / "train-run").exists()


def test_an_older_run_in_the_folder_is_replaced_by_force_alone(world: World) -> None:
    path = script(world, GREETS)
    assert world.run("run", "-o", "out", path).returncode == 0
    assert world.run("run", "-o", "out", path, "3").returncode == 2
    assert world.run("run", "-o", "out", "--force", path, "3").returncode == 3
    assert log(world, "out").splitlines()[0] == "cards  arguments ['3']"


def test_the_help_names_both(tmp_path: Path) -> None:
    from click.testing import CliRunner

    shown = CliRunner().invoke(command, ["--help"]).output
    assert "SCRIPT.py" in shown
    assert "--gpus" in shown


def notebook(world: World, *sources: str) -> Path:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        for source in ("%load_ext ownlab", *sources)
    ]
    path = world.root / "work" / "nb.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}))
    return path


def test_a_cell_trains_on_cards_of_its_own(
    world: World, torch_python: str, until: Callable[..., Any]  # noqa: F811
) -> None:  # fmt: skip
    (world.root / "work" / "helper.py").write_text("name = 'beside the notebook'")
    path = notebook(
        world,
        f"%%train --gpus 2 --python {torch_python} -- one 'two three'\nimport helper\nprint(helper.name)\n" + RANKS
        + "print(os.environ['CUDA_VISIBLE_DEVICES'], sys.argv[1:])",
        "%%train\nimport sys\nprint('last'); sys.exit(5)",
    )  # fmt: skip
    ran = world.run("run", str(path))
    assert "beside the notebook\nrank 0 of 2 total 3.0\n0,1 ['one', 'two three']\n" in ran.stdout, ran.stderr
    assert ran.returncode == 1, ran.stderr
    assert "the script ended with exit code 5" in ran.stderr
    assert "rank 1" not in ran.stdout
    assert (world.root / "work" / "train-run" / "rank-1.log").exists()
    until(lambda: nothing_left(world))


def test_a_cell_does_not_wait_for_the_cards_of_its_own_kernel(world: World) -> None:
    path = notebook(world, "%%train --gpus 4 --nproc 1\nprint('trained')")
    ran = world.run("run", "-t", "ownlab-1-nvidia-geforce-gtx-1080-ti", str(path))
    assert ran.returncode == 1
    assert "holds 1 of the 4 × NVIDIA GeForce GTX 1080 Ti: the run would wait for it for ever" in ran.stderr
    path = notebook(world, "%%train --gpus 3 --nproc 1\nimport os; print(os.environ['CUDA_VISIBLE_DEVICES'])")
    ran = world.run("run", "-t", "ownlab-1-nvidia-geforce-gtx-1080-ti", str(path))
    assert (ran.returncode, ran.stdout.startswith("1,2,3\n")) == (0, True), ran.stdout + ran.stderr


def test_an_interrupt_of_the_cell_ends_the_ranks(
    world: World, started: Any, torch_python: str, until: Callable[..., Any]  # noqa: F811
) -> None:  # fmt: skip
    path = notebook(world, f"%%train --nproc 2 --python {torch_python} -- wait\n" + RANKS)
    process = started(str(path))
    until(lambda: "at work" in log(world, "work/train-run", 1) and "at work" in log(world, "work/train-run"))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 130, errors
    assert "KeyboardInterrupt" in log(world, "work/train-run", 1)
    until(lambda: nothing_left(world))


def test_a_kernel_that_is_stopped_takes_its_training_with_it(
    world: World, started: Any, until: Callable[..., Any]
) -> None:
    path = notebook(world, "%%train --gpus 2 --nproc 1\n" + WAITS)
    started(str(path))
    until(lambda: "at work 0,1" in log(world, "work/train-run"))
    assert world.run("runtimes", "stop", "--now", "nb-run.ipynb").returncode == 0
    until(lambda: not world.processes())
    assert world.run("run", "--gpus", "4", "--nproc", "1", "--no-wait", script(world, GREETS)).returncode == 0


@pytest.mark.parametrize("victim", ["supervisor", "keeper"])
def test_a_runtime_whose_own_process_is_killed_leaves_nothing(
    world: World, started: Any, until: Callable[..., Any], victim: str
) -> None:
    process = started("--gpus", "2", "--nproc", "1", script(world, WAITS))
    until(lambda: "at work 0,1" in log(world))
    # It may be written a moment after the script has started.
    [state] = until(lambda: list((world.root / "home" / "runtimes").glob("*/state.json")))
    os.kill(json.loads(state.read_text())[victim]["pid"], signal.SIGKILL)
    _, errors = process.communicate(timeout=180)
    assert process.returncode in (1, 143)
    assert "died" in errors or "killed" in errors
    until(lambda: nothing_left(world))
