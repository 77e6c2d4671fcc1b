"""`ownlab bench` on the command line: with a scripted guest, and with the real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from tests.command_line import Ownlab
from tests.instruments.bench.bench_reports import an_h200, lines, product, report

from ownlab.errors import OwnlabError
from ownlab.instruments.bench.cli import command
from ownlab.instruments.bench.records import Done, Event, Plan, Planned, Skip, Started
from ownlab.instruments.bench.report_files import save_report

ROOT = Path(__file__).resolve().parents[3]
GUEST = ROOT / "tests" / "fakes" / "bench" / "guest.py"


class World:
    """A folder with a scripted guest in place of Python, and with the saved results."""

    def __init__(self, folder: Path, machine: Path) -> None:
        self.folder = folder
        self.python = folder / "python"
        self.python.write_text(f'#!/bin/sh\nexec {sys.executable} {GUEST} "$@"\n')
        self.python.chmod(0o700)
        self.env = {
            "OWNLAB_HOME": str(folder / "home"),
            "OWNLAB_MACHINE": str(machine),
            "OWNLAB_PYTHON": str(self.python),
            "OWNLAB_FAKE_BENCH": str(folder / "script"),
        }

    def script(self, *steps: list[Event] | dict[str, Any]) -> None:
        parts = [json.dumps(step) + "\n" if isinstance(step, dict) else lines(step) for step in steps]
        (self.folder / "script").write_text("".join(parts))

    @property
    def saved(self) -> list[Path]:
        return sorted((self.folder / "home" / "bench").glob("*.json"))


@pytest.fixture
def world(tmp_path: Path, machines: Path) -> World:
    return World(tmp_path, machines / "h200.json")


def plan() -> list[Event]:
    tests = tuple(Planned(result.name, result.group) for result in an_h200())
    return [Plan(tests, torch="2.11.0+cu130", cuda="13.0", notes=("Others use this card.",))]


def test_a_run_is_measured_saved_and_drawn(ownlab: Ownlab, world: World, valid: Callable[[str, str], Any]) -> None:
    skipped = Skip("matmul fp8 8192", "out-of-memory", "products", "CUDA out of memory")
    received, drawn, saved = (world.folder / name for name in ("received.json", "one.svg", "mine.json"))
    noise = {"do": "say", "text": "a library talks"}
    world.script({"do": "request", "file": str(received)}, plan(), noise, [Started("x"), *an_h200(), skipped, Done()])
    ran = ownlab(
        "bench", "--quick", "--only", "products,memory", "--only", "cpu", "--device", "cuda:0", "--memory", "4GiB",
        "--save", str(saved), "--plot", str(drawn), "--json", env=world.env,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    request = json.loads(received.read_text())
    assert request["profile"] == "quick"
    assert request["groups"] == ["products", "memory", "cpu"]
    assert request["memory_bytes"] == 4 << 30
    report = valid(ran.stdout, "bench")
    assert report["complete"]
    assert "it was read from OWNLAB_MACHINE" in report["notes"][0]
    assert report["notes"][1:] == ["Others use this card."]
    assert report["machine"]["cards"][0]["catalogue"] == "H200 SXM"
    assert report["skipped"] == [
        {"name": "matmul fp8 8192", "group": "products", "reason": "out-of-memory", "message": "CUDA out of memory"}
    ]
    assert len(report["results"]) == len(an_h200())
    assert [json.loads(path.read_text()) for path in (saved, *world.saved)] == [report, report]
    assert "matmul bf16 8192" in drawn.read_text()


def test_the_report_in_the_terminal(ownlab: Ownlab, world: World) -> None:
    wrong = product("fp32", 800, 2e16)
    world.script(plan(), [*an_h200(), wrong, Done()])
    ran = ownlab("bench", env=world.env)
    assert ran.returncode == 0, ran.stderr
    assert "NVIDIA H200" in ran.stdout
    assert "79 % █" in ran.stdout
    assert "a measurement error" in ran.stdout
    assert "rank" in ran.stdout
    assert str(world.saved[0]) in ran.stderr


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_keeps_its_results(
    world: World, until: Callable[..., Any], valid: Callable[[str, str], Any], sent: signal.Signals, code: int
) -> None:
    waits = world.folder / "waits"
    world.script(plan(), [*an_h200()[:2]], {"do": "wait", "file": str(waits)})
    started = [sys.executable, "-m", "ownlab", "bench", "--json"]
    running = subprocess.Popen(
        started, env={**os.environ, **world.env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: waits.exists() and waits.read_text() == "waits ")
    running.send_signal(sent)
    output, errors = running.communicate(timeout=300)
    assert running.returncode == code, errors
    report = valid(world.saved[0].read_text(), "bench")
    assert (report["complete"], report["trouble"], len(report["results"])) == (False, "it was interrupted", 2)
    assert code != 130 or json.loads(output) == report  # after SIGTERM nothing is printed
    assert waits.read_text() == "waits ended"  # the guest was terminated and could clean up


def test_a_guest_that_dies_leaves_its_results(ownlab: Ownlab, world: World) -> None:
    world.script(plan(), [*an_h200()[:3]], {"do": "die", "signal": "SIGKILL", "words": "CUDA error: device lost"})
    ran = ownlab("bench", env=world.env)
    assert ran.returncode == 1
    assert (
        "Incomplete: the benchmark process died of SIGKILL early: RuntimeError: CUDA error: device lost." in ran.stdout
    )
    assert "matmul fp32 8192" in ran.stdout
    assert len(world.saved) == 1


def test_a_run_without_results_fails(ownlab: Ownlab, world: World, machines: Path) -> None:
    world.script([Plan(()), Skip("products", "no-torch", "products", "this Python has no torch"), Done()])
    ran = ownlab("bench", env={**world.env, "OWNLAB_MACHINE": str(machines / "cpu.json")})
    assert ran.returncode == 1, ran.stderr
    assert "products: no torch in this Python (choose another with --python PATH)" in ran.stdout
    assert world.saved == []


def test_an_unwritable_file_loses_no_results(ownlab: Ownlab, world: World) -> None:
    folder = world.folder / "gone"
    folder.mkdir()
    world.script(plan(), [*an_h200()], {"do": "remove", "folder": str(folder)}, [Done()])
    ran = ownlab("bench", "--save", str(folder / "mine.json"), env=world.env)
    assert ran.returncode == 3
    assert "Cannot write" in ran.stderr
    assert "matmul bf16 8192" in ran.stdout
    assert len(world.saved) == 1


def test_an_unwritable_state_folder_loses_no_results(ownlab: Ownlab, world: World) -> None:
    (world.folder / "home").mkdir(mode=0o700)
    (world.folder / "home" / "bench").write_text("in the way")
    world.script(plan(), [*an_h200(), Done()])
    ran = ownlab("bench", env=world.env)
    assert ran.returncode == 0
    assert "The result was not saved" in ran.stderr
    assert "matmul bf16 8192" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--quick", "--full"), 2, "cannot be combined with --full"),
        (("--only", "produkts"), 2, "Did you mean products?"),
        (("--device", "gpu"), 2, "neither cpu nor a card"),
        (("--memory", "much"), 2, "not a size"),
        (("--memory", "0"), 2, "must be greater than 0"),
        (("--budget", "0"), 2, "0"),
        (("--budget", "nan"), 2, "not a finite number of seconds"),
        (("--only", ","), 2, "contains no group"),
        (("--folder", "nowhere"), 2, "does not exist"),
        (("--save", "nowhere/a.json"), 3, "its folder does not exist"),
        (("--plot", "a.jpg"), 2, ".png, .svg or .html"),
        (("--python", "nowhere/python"), 4, "Cannot run the Python"),
        (("compare", "a.json"), 2, "At least two results"),
        (("compare", "a.json", "b.json"), 3, "does not exist"),
        (("show", "h100"), 3, "No result is called 'h100'"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(
    world: World, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, words: str
) -> None:
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises((OwnlabError, click.UsageError)) as caught:
        command.main([*arguments], standalone_mode=False)
    raised = caught.value
    assert isinstance(raised, (OwnlabError, click.UsageError))
    assert raised.exit_code == code
    assert words in f"{raised.message} {getattr(raised, 'hint', '')}"


def test_a_program_that_is_not_python_is_an_error(ownlab: Ownlab, world: World) -> None:
    ran = ownlab("bench", "--python", "/bin/false", env=world.env)
    assert ran.returncode == 4
    assert "/bin/false: the benchmark process ended with exit code 1" in ran.stderr
    assert world.saved == []


def test_compare_show_and_list(ownlab: Ownlab, world: World, valid: Callable[[str, str], Any]) -> None:
    home = world.folder / "home" / "bench"
    home.mkdir(parents=True)
    (world.folder / "home").chmod(0o700)
    save_report(report(an_h200()), home / "a.json")
    save_report(report(an_h200(1.2)), home / "b.json")
    (home / "damaged.json").write_text("{")
    drawn = world.folder / "both.svg"
    ran = ownlab("bench", "compare", "a", str(home / "b.json"), "--plot", str(drawn), env=world.env)
    assert ran.returncode == 0, ran.stderr
    assert "1.20 ×" in ran.stdout
    assert "<svg" in drawn.read_text()
    comparison = valid(ownlab("bench", "compare", "a", "b", "--json", env=world.env).stdout, "bench-compare")
    assert [side["label"] for side in comparison["sides"]] == ["a", "b"]
    assert "79 %" in ownlab("bench", "show", "a", env=world.env).stdout
    listed = valid(ownlab("bench", "--json", "list", env=world.env).stdout, "bench-list")
    by_name = {entry["name"]: entry for entry in listed["reports"]}
    assert by_name["a"]["results"] == len(an_h200())
    assert "not a result of ownlab bench" in by_name["damaged"]["trouble"]
    assert "damaged" in ownlab("bench", "list", env=world.env).stdout


def test_the_real_guest_on_a_cpu(
    ownlab: Ownlab, tmp_path: Path, machines: Path, valid: Callable[[str, str], Any]
) -> None:
    ran = ownlab(
        "bench", "--quick", "--only", "cpu,products", "--budget", "0.5", "--no-keep", "--python", sys.executable, "--json",
        env={"OWNLAB_HOME": str(tmp_path), "OWNLAB_MACHINE": str(machines / "cpu.json")},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    report = valid(ran.stdout, "bench")
    names = [measure["name"] for measure in report["results"]]
    assert "cpu matmul fp32 2048 numpy" in names
    assert all(measure["median"] > 0 and measure["device"] == "cpu" for measure in report["results"])
    assert report["machine"]["numpy"]
    assert ("products", "no-torch") in [(skip["name"], skip["reason"]) for skip in report["skipped"]]
