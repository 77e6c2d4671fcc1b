"""Memory by runtime, from real processes; memory of cards, from a child that reads a fake NVML."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.runtimes.live_usage import UsageSampler
from ownlab.lab.store.rows import Device, Process, RuntimeRow
from ownlab.processes.procfs import all_processes

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
        yield Process(parent.pid, all_processes()[parent.pid].started), child
    finally:
        parent.communicate("\n", timeout=300)


@pytest.fixture
def idler() -> Iterator[Callable[[], Process]]:
    """Starts processes that do nothing."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> Process:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        return Process(started[-1].pid, all_processes()[started[-1].pid].started)

    yield start
    for each in started:
        each.communicate(b"\n", timeout=300)


def meter(environ: dict[str, str], root: Path = Path("/")) -> contextlib.closing[UsageSampler]:
    return contextlib.closing(UsageSampler(environ, root=root))


def with_a_card_open(root: Path, *pids: int) -> Path:
    """A root whose /proc shows these real processes, each with a card's file open."""
    for pid in pids:
        folder = root / "proc" / str(pid)
        (folder / "fd").mkdir(parents=True)
        (folder / "fd" / "9").symlink_to("/dev/nvidia0")
        (folder / "stat").symlink_to(f"/proc/{pid}/stat")
    (root / "proc" / "stat").symlink_to("/proc/stat")
    return root


def test_memory_is_that_of_the_whole_tree(family: tuple[Process, int], row: Callable[..., RuntimeRow]) -> None:
    keeper, _ = family
    with meter({}) as taken:
        figures = taken.sample([row("r", keeper=keeper)], ())
        again = taken.sample([row("r", keeper=keeper)], ())
    assert 96 * MIB < figures.ram["r"] < 160 * MIB
    assert abs(again.ram["r"] - figures.ram["r"]) < 8 * MIB
    assert figures.vram == {}
    assert figures.host.memory is not None
    assert figures.host.memory_used is not None
    assert 0 < figures.host.memory_used < figures.host.memory


def test_a_later_process_with_the_same_pid_is_not_counted(
    family: tuple[Process, int], row: Callable[..., RuntimeRow]
) -> None:
    keeper, _ = family
    with meter({}) as taken:
        assert taken.sample([row("r", keeper=keeper._replace(started=1))], ()).ram == {}


def test_cpu_load_is_known_from_the_second_sample_on(until: Callable[..., Any]) -> None:
    with meter({}) as taken:
        assert taken.sample([], ()).host.cpu is None
        (share,) = until(lambda: [cpu for cpu in (taken.sample([], ()).host.cpu,) if cpu is not None])
    assert 0 <= share <= 100


def test_card_memory_of_a_process_counts_for_its_runtime(
    family: tuple[Process, int],
    row: Callable[..., RuntimeRow],
    fake_nvml: Callable[[dict[str, Any]], dict[str, str]],
    until: Callable[..., Any],
    idler: Callable[[], Process],
    tmp_path: Path,
) -> None:
    keeper, child = family
    idle = idler()
    running = [{"pid": child, "usedGpuMemory": 3 * MIB}, {"pid": idle.pid, "usedGpuMemory": 5 * MIB}]
    now = {"timeStamp": 1, "memUtil": 0, "encUtil": 0, "decUtil": 0}
    card = {
        "nvmlDeviceGetComputeRunningProcesses_v3": running,
        "nvmlDeviceGetMemoryInfo": {"total": 150754820096, "reserved": 0, "used": 9 * MIB},
        "nvmlDeviceGetUtilizationRates": {"gpu": 71, "memory": 0},
        "nvmlDeviceGetProcessUtilization": [{**now, "pid": child, "smUtil": 40}],
        "gpm": {"2": 12.5, "5": 3.0},
    }
    root = with_a_card_open(tmp_path / "root", idle.pid, keeper.pid, child)
    rows = [row("r", keeper=keeper), row("idle", keeper=idle)]
    with meter(fake_nvml({"cards": [card]}), root) as taken:
        figures = until(lambda: (usage := taken.sample(rows, (H200,))).cards and usage)
        later = until(lambda: (usage := taken.sample(rows, (H200,))).verdicts and usage)
    assert figures.vram == {("r", UUID): 3 * MIB, ("idle", UUID): 5 * MIB}
    assert figures.shares == {("r", UUID): 40.0, ("idle", UUID): 0.0}
    assert set(later.cpu) == {"r", "idle"}
    assert (figures.cards[UUID].memory_used, figures.cards[UUID].utilisation) == (9 * MIB, 71)
    assert later.verdicts[UUID].sentence
    assert figures.notices == ()


@pytest.mark.parametrize(
    ("running", "used"),
    [
        pytest.param([{"pid": 2**22 + 1, "usedGpuMemory": MIB}], MIB, id="numbers of another PID namespace"),
        pytest.param([{"pid": "child", "usedGpuMemory": None}], MIB, id="WSL does not tell"),
        pytest.param([], 4096 * MIB, id="a container in which nobody is named"),
    ],
)
def test_unknown_is_not_zero(
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
    with meter(environ) as taken:
        figures = until(lambda: (usage := taken.sample([row("r", keeper=keeper)], (H200,))).cards and usage)
    assert figures.vram == {}


def test_a_recorded_machine_answers_from_its_record() -> None:
    with meter({"OWNLAB_MACHINE": str(MACHINES / "h200.json")}) as taken:
        figures = taken.sample([], (H200,))
    assert figures.cards[UUID].memory_used is not None
    assert figures.notices == ()
