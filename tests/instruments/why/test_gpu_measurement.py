"""The measurement of a GPU from inside of a script, on a stand-in for torch.cuda: marks, windows, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab

SCRIPT = Path(__file__).with_name("fake_gpu_loop.py")


def measured(ownlab: Ownlab, torch_python: str, folder: Path, *arguments: str) -> tuple[dict[str, Any], str, str]:
    """The evidence of the script's process, what it wrote to stdout, and to stderr."""
    saved = folder / "evidence.json"
    ran = ownlab("why", "--save", str(saved), torch_python, str(SCRIPT), *arguments)
    assert ran.returncode == 0, ran.stderr
    (process,) = json.loads(saved.read_text())["processes"]
    assert isinstance(process, dict)
    return process, ran.stdout, ran.stderr


@pytest.fixture(scope="module")
def run(ownlab: Ownlab, torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, str]:
    return measured(ownlab, torch_python, tmp_path_factory.mktemp("run"))


def test_marks_are_read_on_the_gpus_clock_without_waiting(run: tuple[dict[str, Any], str, str]) -> None:
    process, _, _ = run
    gpu = process["gpu"]
    assert process["problems"] == []
    assert len(gpu["steps"]) >= 5  # a busy machine makes marking dear, and fewer steps are marked
    names = process["phases"]
    for row in gpu["steps"]:
        assert len(row) % 3 == 1
        times = row[3::3]
        assert list(times) == sorted(times)
        assert {"forward", "backward", "optimizer"} <= {names[phase] for phase in row[1::3]}


def test_a_step_takes_the_gpu_as_long_as_its_work(run: tuple[dict[str, Any], str, str]) -> None:
    for row in run[0]["gpu"]["steps"]:
        assert row[-1] - row[3] > 8_500_000  # three times 3 ms are sent in each, and waited for at its end


def test_steps_of_windows_are_excluded_and_few(run: tuple[dict[str, Any], str, str]) -> None:
    gpu = run[0]["gpu"]
    marked = {row[0] for row in gpu["steps"]}
    sync, profiler = (
        [4, 5, 6, 7],
        gpu["excluded"][4:],
    )  # three steps of the window and one after it; then one, two or three, and two
    assert gpu["excluded"][:4] == sync
    assert profiler == list(range(12, 12 + gpu["window_steps"] + 2))
    assert len(gpu["excluded"]) <= 8  # a step of this loop takes over 10 ms, so the profiler sees two at most
    assert marked.isdisjoint(gpu["excluded"])
    assert gpu["window_steps"] in (1, 2, 3)


def test_events_are_used_again(run: tuple[dict[str, Any], str, str]) -> None:
    made = int(next(line for line in run[1].splitlines() if "events, mode" in line).split()[0])
    assert made < 150


def test_synchronising_lines_are_noted_without_a_warning(run: tuple[dict[str, Any], str, str]) -> None:
    process, out, err = run
    (line,) = process["gpu"]["syncs"]
    assert line["where"]["function"] == "synchronising_call"
    assert line["count"] == process["gpu"]["sync_steps"] == 3
    assert "events, mode 0" in out  # as it was before
    assert "synchronizing" not in err
    assert "the script's own" in err
    assert "profiler" not in err.lower()


def test_nothing_is_recorded_while_a_graph_is_captured(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    process, _, _ = measured(ownlab, torch_python, tmp_path, "capture")
    marked = {row[0] for row in process["gpu"]["steps"]}
    assert marked.isdisjoint(range(20, 24))
    assert process["problems"] == []


def test_an_error_of_cuda_ends_the_measurement_of_the_gpu_alone(
    ownlab: Ownlab, torch_python: str, tmp_path: Path
) -> None:
    process, out, _ = measured(ownlab, torch_python, tmp_path, "broken")
    assert len(process["steps"]) == 120
    assert any("ZeroDivisionError" in problem for problem in process["problems"])
    assert "events, mode 0" in out


def test_the_scripts_own_profiler_comes_first(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    process, out, _ = measured(ownlab, torch_python, tmp_path, "profiles")
    assert "True own events" in out
    assert process["problems"] == []


def test_modes_that_the_script_has_switched_on_are_noted_with_their_lines(
    ownlab: Ownlab, torch_python: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "torch.set_default_dtype(torch.float64)\n"
        "torch.autograd.set_detect_anomaly(True)\n"
        "model = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "def train(steps):\n"
        "    for _ in range(steps):\n"
        "        optimizer.zero_grad()\n"
        "        model(torch.randn(2, 4)).sum().backward()\n"
        "        optimizer.step()\n"
        "train(10)\n"
        "torch.autograd.set_detect_anomaly(False)\n"
        "with torch.autograd.profiler.profile():\n"
        "    train(4)\n"
    )
    saved = tmp_path / "evidence.json"
    ran = ownlab("why", "--save", str(saved), torch_python, str(script))
    assert ran.returncode == 0, ran.stderr
    (process,) = json.loads(saved.read_text())["processes"]
    assert process["problems"] == []
    modes = {mode["name"]: (mode["backwards"], mode["where"]["line"]) for mode in process["modes"]}
    assert modes == {"float64": (14, 2), "anomaly": (10, 3), "profiler": (4, 13)}


def test_what_an_optimizer_is_given_to_call_is_no_part_of_it(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    process, _, _ = measured(ownlab, torch_python, tmp_path, "closure")
    column = 5 + process["phases"].index("optimizer")
    fastest = min(step[column] for step in process["steps"])
    assert fastest < 20_000_000  # the closure sleeps for 20 ms


def test_workers_that_are_forked_later_live(ownlab: Ownlab, torch_python: str, tmp_path: Path) -> None:
    """CUDA's events abort a forked process that destroys them. Nor is the profiler used where workers are started again."""
    process, out, _ = measured(ownlab, torch_python, tmp_path, "forks")
    assert len(process["steps"]) == 120
    assert "events, mode 0" in out
    assert len(process["loaders"][-1]["epochs"]) >= 10
    assert process["gpu"]["no_profiler"] == "workers"
    assert process["gpu"]["trace"] == ""
