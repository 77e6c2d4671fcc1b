"""The sampler on a real NVIDIA card: against nvidia-smi at the same time, with a verdict for each kind of work.

Plain functions without fixtures. Needs msgspec beside torch. Saturation needs a card with GPM (Hopper and newer).
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ownlab.instruments.top.nvml_child import NvmlChild
from ownlab.instruments.top.records import CardSample, Sample
from ownlab.instruments.top.sampler import Sampler
from ownlab.instruments.top.source import settle
from ownlab.instruments.top.verdict_window import Window

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 6
MIB = 1024**2
# What each load of loads.py is.
VERDICTS = {
    "held": "held",
    "tiny": "small",
    "bf16": "tensor",
    "copy": "memory",
    "starved": "starved",
    "upload": "pcie",
    "fp32": "off-tensor",
}


@contextlib.contextmanager
def load(name: str) -> Iterator[int]:
    """Start the work in its own process and return its pid."""
    command = [sys.executable, "-m", "tests_gpu.loads", name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as working:
        try:
            assert working.stdout is not None
            assert working.stdout.readline().strip() == "ready", name
            yield working.pid
        finally:
            working.kill()


@contextlib.contextmanager
def sampling() -> Iterator[Sampler]:
    with contextlib.closing(Sampler()) as sampler:
        first = settle(sampler)
        assert first.cards, first.trouble
        yield sampler


def follow(sampler: Sampler, seconds: int = SECONDS) -> list[Sample]:
    sampler.take()  # what was before is not asked for
    found = []
    for _ in range(2 * seconds):
        time.sleep(0.5)
        found.append(sampler.take())
    return found


def smi(*fields: str) -> list[list[str]]:
    """Return the values of these fields by card, as nvidia-smi reports them."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [line.split(", ") for line in ran.stdout.splitlines()]


def test_what_stands_still_is_what_nvidia_smi_says() -> None:
    with sampling() as sampler:
        cards = sampler.take().cards
    rows = smi("uuid", "name", "pci.bus_id", "memory.total", "power.limit", "clocks.max.sm", "pcie.link.width.current")
    whole = [card for card in cards if not card.parent]
    assert len(whole) == len(rows)
    for card, (uuid, name, bus, memory, limit, clock, width) in zip(whole, rows, strict=True):
        assert (card.uuid, card.name, card.bus_id) == (uuid, name, bus)
        assert abs((card.memory_total or 0) / MIB - float(memory)) <= 1
        assert (card.power_limit, card.clock_sm_max, card.pcie_width) == (float(limit), float(clock), int(width))


def test_what_changes_is_near_what_nvidia_smi_says() -> None:
    with load("bf16"), sampling() as sampler:
        time.sleep(2)
        (card,), (row,) = sampler.take().cards[:1], smi("memory.used", "power.draw", "temperature.gpu")[:1]
        assert abs((card.memory_used or 0) / MIB - float(row[0])) <= 1
        assert abs((card.power or 0) - float(row[1])) < 0.1 * float(row[1])
        assert abs((card.temperature or 0) - float(row[2])) <= 5


def test_saturation_is_what_dmon_measures() -> None:
    """Both over the same seconds; dmon's first rows are empty."""
    for name in ("tiny", "bf16", "copy"):
        with load(name), sampling() as sampler:
            time.sleep(1)
            # GPM's numbers: SM activity, occupancy, tensor cores, memory bandwidth.
            dmon = ["nvidia-smi", "dmon", "-i", "0", "--gpm-metrics", "2,3,5,10", "-d", "1", "-c", str(SECONDS + 2)]
            with subprocess.Popen(dmon, stdout=subprocess.PIPE, text=True) as beside:
                samples = follow(sampler)
                output, _ = beside.communicate(timeout=60)
        ours = [sample.cards[0].saturation for sample in samples]
        rows = [line.split()[-4:] for line in output.splitlines() if not line.startswith("#")]
        theirs = [[float(word) for word in row] for row in rows if "-" not in row]
        assert theirs, output
        for place, figure in enumerate(("sm", "occupancy", "tensor", "dram")):
            mine = statistics.median(getattr(each, figure) or 0.0 for each in ours if each is not None)
            assert abs(mine - statistics.median(row[place] for row in theirs)) < 3, (name, figure, output)


def test_each_kind_of_work_gets_its_verdict() -> None:
    for name, expected in VERDICTS.items():
        window = Window()
        with load(name) as pid, sampling() as sampler:
            for sample in follow(sampler):
                window.add(sample)
        verdict = window.verdicts()[0]
        assert verdict.code == expected, (name, verdict)
        assert name != "held" or str(pid) in verdict.sentence or "another container" in verdict.sentence, verdict


def test_a_process_is_known_with_its_command_and_user() -> None:
    with load("held") as pid, sampling() as sampler:
        sample = sampler.take()
        running = {each.pid: each for each in sample.cards[0].processes or ()}
        if pid not in running:  # a container whose driver counts in the host's numbers: then nobody here is meant
            assert all(not process.here for process in sample.processes)
            return
        assert (running[pid].memory or 0) > 20 * 1024 * MIB
        (process,) = [each for each in sample.processes if each.pid == pid]
        assert process.here
        assert process.command.endswith("-m tests_gpu.loads")


def test_a_child_that_was_killed_is_started_again() -> None:
    with contextlib.closing(NvmlChild()) as child:
        first = answer(child)
        assert child.pid is not None
        os.kill(child.pid, 9)
        assert "SIGKILL" in child.ask()[1]
        assert [card.uuid for card in answer(child)] == [card.uuid for card in first]


def answer(child: NvmlChild) -> tuple[CardSample, ...]:
    deadline = time.monotonic() + 60
    while not (cards := child.ask()[0]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return cards


def test_the_child_takes_less_than_a_hundredth_of_a_core() -> None:
    with contextlib.closing(NvmlChild()) as child, load("bf16"):
        answer(child)
        before, began = ticks(child), time.monotonic()
        for number in range(1, 21):
            time.sleep(max(0.0, began + number - time.monotonic()))
            assert child.ask()[0]
        used = (ticks(child) - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - began)
        cards = len(child.ask()[0])
    assert used / cards < 0.01, used


def ticks(child: NvmlChild) -> int:
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.takes_the_card
def test_watch_reports_on_the_block_and_puts_its_card_first() -> None:
    import torch

    import ownlab

    side = torch.ones(8192, 8192, device="cuda", dtype=torch.bfloat16)
    with ownlab.watch(every=0.5) as watched:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            for _ in range(20):
                side @ side
            torch.cuda.synchronize()
    card = watched.summary().cards[0]
    assert card.means["sm"] > 80, card
    assert card.means["tensor"] > 60, card
    assert 2.5 < card.seconds < 4, card
