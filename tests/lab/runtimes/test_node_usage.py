"""The process that measures a runtime on its node, on a recorded machine with four cards, and what is made of its answers."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.runtimes.launch_plan import NodeRequest, Plan
from ownlab.lab.runtimes.runtimes_on_nodes import on_node
from ownlab.lab.supervisor.process_tree import identify
from ownlab.lab.supervisor.usage_child import UsageChild

PATIENCE = 90.0
MACHINES = Path(__file__).parents[2] / "machines"
NODE = NodeRequest("slurm", "gpu", "a100", 2, [sys.executable])
HOLDS = "import sys\nkept = b'x' * (200 << 20)\nprint(flush=True)\nsys.stdin.read()"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    plan = Plan(
        runtime="r.node", home=str(tmp_path), sockets=str(tmp_path), store="", type="", label="", argv=[],
        cwd=str(tmp_path), connection={},
    )  # fmt: skip
    (tmp_path / "plan.json").write_text(plan.to_json())
    return plan


@pytest.fixture
def kernel(plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """A process with 200 MiB, which state.json names as the kernel."""
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        state = {"state": "running", "kernel": identify(process.pid)._asdict()}
        Path(plan.home, "state.json").write_text(json.dumps(state))
        yield process
        process.kill()


@pytest.fixture
def child(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> Iterator[UsageChild]:
    monkeypatch.setenv("OWNLAB_MACHINE", str(MACHINES / "gtx1080ti-x4.json"))
    monkeypatch.setenv("SLURM_JOB_GPUS", "6,7")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    child = UsageChild(os.path.join(plan.home, "plan.json"))
    yield child
    for descriptor in (child._out, child._requests):
        if descriptor >= 0:
            os.close(descriptor)
    if child.pid:
        os.waitpid(child.pid, 0)  # it ends when its stdin is closed


def measure(child: UsageChild, times: int = 1) -> dict[str, Any]:
    """Ask until it has measured so many times more. Return the last figures."""
    wanted, deadline = child.ask()["number"] + times, time.monotonic() + PATIENCE
    while (answer := child.ask())["number"] < wanted:
        assert time.monotonic() < deadline, answer
        assert child.descriptors(), "it has ended"
        if select.select(child.descriptors(), [], [], 1.0)[0]:
            child.serve()
    figures: dict[str, Any] = answer["usage"]
    return figures


def test_it_measures_the_kernel_and_the_cards_of_the_job(
    child: UsageChild, kernel: subprocess.Popen[bytes], plan: Plan
) -> None:
    assert child.ask() == {"usage": None, "number": 0}
    usage = measure(child, 2)
    assert usage["ram"] > 200 << 20
    assert usage["host"]["memory"] > usage["ram"]
    shown = on_node(plan._replace(node=NODE), {"node": "n1", "usage": usage})
    assert [(card.index, card.name) for card in shown.cards] == [
        (6, "NVIDIA GeForce GTX 1080 Ti"),
        (7, "NVIDIA GeForce GTX 1080 Ti"),
    ], "by the numbers that Slurm gave them"
    assert shown.usage is not None
    assert shown.usage.host.disk


def test_without_a_driver_the_numbers_of_the_cards_are_known(
    child: UsageChild, kernel: subprocess.Popen[bytes], plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNLAB_MACHINE", str(MACHINES / "cpu.json"))
    shown = on_node(plan._replace(node=NODE), {"node": "n1", "usage": measure(child)})
    assert [(card.index, card.name, card.vram) for card in shown.cards] == [(6, "a100", None), (7, "a100", None)]


def test_it_ends_with_its_supervisor_and_is_started_again(child: UsageChild, kernel: subprocess.Popen[bytes]) -> None:
    measure(child)
    first = child.pid
    os.kill(first, 9)
    os.waitpid(first, 0)
    child.pid = 0  # as the supervisor notes
    while child.descriptors():
        select.select(child.descriptors(), [], [], PATIENCE)
        child.serve()
    assert child.ask()["usage"] is None, "figures of the past are not shown"
    measure(child)
    assert child.pid != first


def test_without_a_kernel_nothing_is_said_of_it(child: UsageChild) -> None:
    usage = measure(child)
    assert (usage["ram"], usage["cpu"]) == (None, None)


def test_odd_answers_show_nothing(plan: Plan) -> None:
    waiting = plan._replace(node=NODE)
    assert on_node(waiting, {}).cards == ()
    assert on_node(waiting, {"node": None, "cards": None, "usage": None}).node == ""
    assert on_node(waiting, {"node": "n1", "cards": ["x", 3], "usage": {"at": "never"}}).usage is None
    assert [card.index for card in on_node(waiting, {"node": "n1", "cards": ["x", 3]}).cards] == [3]
