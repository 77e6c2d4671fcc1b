"""Memory by runtime, from real processes; memory of cards, from a child that asks a stand-in of NVML."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.runtimes.figures import Sampler
from ownlab.lab.runtimes.readings import CardReading, NvmlWatch
from ownlab.lab.store.proc import everyone
from ownlab.lab.store.rows import Device, Process, RuntimeRow

MACHINES = Path(__file__).resolve().parents[2] / "machines"
MIB = 1024**2
UUID = "GPU-00000000-1111-2222-3333-444444444444"
H200 = Device(UUID, "nvidia", 0, "NVIDIA H200", 150754820096)

# A parent that touches 32 MiB, and its child that touches 64 MiB.
FAMILY = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "x = bytearray(os.urandom(1) * (64 << 20)) if (os := __import__('os')) else 0; print('ready', flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
x = bytearray(os.urandom(1) * (32 << 20))
print(child.pid, flush=True)
input()
child.communicate()
"""


@pytest.fixture
def family() -> Iterator[tuple[Process, int]]:
    """A process with its start time, and its child's number."""
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield Process(parent.pid, everyone()[parent.pid].started), child
    finally:
        parent.communicate("\n", timeout=30)


@pytest.fixture
def watches() -> Iterator[Callable[[dict[str, str]], NvmlWatch]]:
    with contextlib.ExitStack() as stack:

        def start(environ: dict[str, str]) -> NvmlWatch:
            return stack.enter_context(contextlib.closing(NvmlWatch(environ)))

        yield start


def sampler(environ: dict[str, str]) -> contextlib.closing[Sampler]:
    return contextlib.closing(Sampler(environ))


def test_memory_is_that_of_the_whole_tree(family: tuple[Process, int], row: Callable[..., RuntimeRow]) -> None:
    keeper, _ = family
    with sampler({}) as taken:
        figures = taken.sample([row("r", keeper=keeper)], ())
        again = taken.sample([row("r", keeper=keeper)], ())
    assert 96 * MIB < figures.ram["r"] < 160 * MIB
    assert abs(again.ram["r"] - figures.ram["r"]) < 8 * MIB
    assert figures.vram == {}
    assert figures.host.memory is not None
    assert figures.host.memory_used is not None
    assert 0 < figures.host.memory_used < figures.host.memory


def test_a_later_process_of_the_same_number_is_not_taken(
    family: tuple[Process, int], row: Callable[..., RuntimeRow]
) -> None:
    keeper, _ = family
    with sampler({}) as taken:
        assert taken.sample([row("r", keeper=keeper._replace(started=1))], ()).ram == {}


def test_the_load_of_the_cores_is_told_from_the_second_sample_on(until: Callable[..., Any]) -> None:
    with sampler({}) as taken:
        assert taken.sample([], ()).host.cpu is None
        (share,) = until(lambda: [cpu for cpu in (taken.sample([], ()).host.cpu,) if cpu is not None])
    assert 0 <= share <= 100


def test_memory_of_a_card_goes_to_the_runtime_whose_process_has_it(
    family: tuple[Process, int],
    row: Callable[..., RuntimeRow],
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]],
    until: Callable[..., Any],
) -> None:
    keeper, child = family
    running = [{"pid": child, "usedGpuMemory": 3 * MIB}, {"pid": os.getpid(), "usedGpuMemory": 5 * MIB}]
    card = {
        "nvmlDeviceGetComputeRunningProcesses_v3": running,
        "nvmlDeviceGetMemoryInfo": {"total": 150754820096, "reserved": 0, "used": 9 * MIB},
        "nvmlDeviceGetUtilizationRates": {"gpu": 71, "memory": 0},
    }
    with sampler(fake_nvml({"cards": [card]})) as taken:
        figures = until(lambda: (found := taken.sample([row("r", keeper=keeper)], (H200,))).cards and found)
    assert figures.vram == {("r", UUID): 3 * MIB}
    assert figures.cards[UUID].memory_used == 9 * MIB
    assert figures.cards[UUID].utilisation == 71
    assert figures.notices == ()


@pytest.mark.parametrize(
    ("running", "used"),
    [
        pytest.param([{"pid": 2**22 + 1, "usedGpuMemory": MIB}], MIB, id="numbers of another PID namespace"),
        pytest.param([{"pid": "child", "usedGpuMemory": None}], MIB, id="WSL does not tell"),
        pytest.param([], 4096 * MIB, id="a container in which nobody is named"),
    ],
)
def test_what_cannot_be_told_is_not_nothing(
    running: list[dict[str, Any]],
    used: int,
    family: tuple[Process, int],
    row: Callable[..., RuntimeRow],
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]],
    until: Callable[..., Any],
) -> None:
    keeper, child = family
    running = [{**each, "pid": child if each["pid"] == "child" else each["pid"]} for each in running]
    memory = {"total": 150754820096, "reserved": 0, "used": used}
    card = {"nvmlDeviceGetComputeRunningProcesses_v3": running, "nvmlDeviceGetMemoryInfo": memory}
    environ = fake_nvml({"cards": [card]})
    with sampler(environ) as taken:
        figures = until(lambda: (found := taken.sample([row("r", keeper=keeper)], (H200,))).cards and found)
    assert figures.vram == {}


def test_mig_instances_are_read_one_by_one(
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]],
    watches: Callable[[dict[str, str]], NvmlWatch],
    until: Callable[..., Any],
) -> None:
    slices = [{"nvmlDeviceGetUUID": f"MIG-{number}"} for number in range(2)]
    watch = watches(fake_nvml({"cards": [{"nvmlDeviceGetMigMode": [1, 1], "mig": slices}]}))
    cards, _ = until(lambda: (found := watch.ask())[0] and found)
    assert [card.uuid for card in cards] == [UUID, "MIG-0", "MIG-1"]
    assert cards[1] == CardReading("MIG-0", 0, 0, {})


@pytest.mark.parametrize(("init", "said"), [(18, "version mismatch"), ("crash", "SIGSEGV")])
def test_a_driver_that_fails_is_told_and_asked_again_later(
    init: object,
    said: str,
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]],
    watches: Callable[[dict[str, str]], NvmlWatch],
    until: Callable[..., Any],
) -> None:
    watch = watches(fake_nvml({"init": init, "cards": [{}]}))
    until(lambda: said in watch.ask()[1])
    assert said in watch.ask()[1]  # at once, and without a new child
    fake_nvml({"cards": [{}]})
    cards, trouble = until(lambda: (found := watch.ask())[0] and found)
    assert (len(cards), trouble) == (1, "")


def test_a_driver_that_hangs_keeps_nobody_waiting(
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]], watches: Callable[[dict[str, str]], NvmlWatch]
) -> None:
    watch = watches(fake_nvml({"init": "hang", "cards": [{}]}))
    assert watch.ask(within=0.2) == ((), "NVML has not answered yet")


def test_a_child_that_was_killed_is_started_again(
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]],
    watches: Callable[[dict[str, str]], NvmlWatch],
    until: Callable[..., Any],
) -> None:
    watch = watches(fake_nvml({"cards": [{}]}))
    until(lambda: watch.ask()[0])
    (pid,) = [pid for pid, entry in everyone().items() if entry.parent == os.getpid() and _watches(pid)]
    os.kill(pid, signal.SIGKILL)
    until(lambda: "SIGKILL" in watch.ask()[1])
    until(lambda: watch.ask()[0])


def _watches(pid: int) -> bool:
    return b"probe.watch" in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_the_child_ends_when_its_host_is_killed(
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]], until: Callable[..., Any]
) -> None:
    code = (
        "import time; from ownlab.lab.runtimes.readings import NvmlWatch; w = NvmlWatch()\n"
        "while not w.ask()[0]: pass\n"
        "print(w._child.pid, flush=True); time.sleep(60)"
    )
    environ = fake_nvml({"cards": [{}]})
    host = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    host.kill()
    host.communicate()
    until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_a_recorded_machine_answers_from_its_record() -> None:
    with sampler({"OWNLAB_MACHINE": str(MACHINES / "h200.json")}) as taken:
        figures = taken.sample([], (H200,))
    assert figures.cards[UUID].memory_used is not None
    assert figures.notices == ()
