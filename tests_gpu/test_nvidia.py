"""read_nvidia() on a real card against what nvidia-smi prints at the same time.

Plain functions without fixtures, so that they run where pytest is not installed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

from ownlab.machine.facts import Known, value_of
from ownlab.machine.nvidia import nvidia_smi
from ownlab.machine.nvidia.reader import read_nvidia
from ownlab.machine.records import Card, Nvidia

# What does not change while a card is idle or at work.
STEADY = (
    "index",
    "name",
    "uuid",
    "bus_id",
    "architecture",
    "memory_total",
    "power_limit",
    "mig",
    "persistence",
    "compute_mode",
    "health",
)


def read_both() -> tuple[Nvidia, tuple[Card, ...], Nvidia, tuple[Card, ...]]:
    nvidia, cards = read_nvidia()
    assert cards, nvidia.nvml
    xml = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, check=True, timeout=60).stdout
    smi, smi_cards = nvidia_smi.parse(xml)
    return nvidia, cards, smi, smi_cards


def test_driver_is_the_same() -> None:
    nvidia, cards, smi, smi_cards = read_both()
    assert nvidia.driver == Known(value_of(smi.driver), source="NVML")
    assert nvidia.cuda == Known(value_of(smi.cuda), source="NVML")
    assert value_of(nvidia.module_version) == value_of(smi.driver)
    assert value_of(nvidia.library_version) == value_of(smi.driver)
    assert isinstance(nvidia.module_flavour, Known)
    assert isinstance(nvidia.profiling_restricted, Known)
    assert len(cards) == len(smi_cards)


def test_steady_facts_are_the_same() -> None:
    _, cards, _, smi_cards = read_both()
    for card, other in zip(cards, smi_cards, strict=True):
        for field in STEADY:
            mine, theirs = getattr(card, field), getattr(other, field)
            same = mine == theirs if field == "index" else value_of(mine) == value_of(theirs)
            # nvidia-smi rounds to whole MiB
            close = field == "memory_total" and abs(mine.value - theirs.value) <= 2**20
            assert same or close, (field, mine, theirs)
        for group in ("clocks", "pcie", "ecc"):
            for field in getattr(card, group).__struct_fields__:
                if field in ("sm", "memory", "generation"):  # these follow the load
                    continue
                mine, theirs = getattr(getattr(card, group), field), getattr(getattr(other, group), field)
                assert value_of(mine) == value_of(theirs), (group, field, mine, theirs)


def test_changing_facts_are_near() -> None:
    _, cards, _, smi_cards = read_both()
    for card, other in zip(cards, smi_cards, strict=True):
        for field, margin in (("memory_used", 2**28), ("temperature", 5), ("power_draw", 100.0)):
            mine, theirs = value_of(getattr(card, field)), value_of(getattr(other, field))
            assert mine is not None, getattr(card, field)
            assert abs(mine - theirs) <= margin, (field, mine, theirs)
        assert isinstance(card.utilisation, Known)
        assert isinstance(card.throttle_reasons, Known)
        assert isinstance(card.processes, Known)
        assert isinstance(card.compute_capability, Known)


def test_device_files_are_there_and_may_be_opened() -> None:
    nvidia, _ = read_nvidia()
    files = value_of(nvidia.device_files)
    assert files is not None
    assert {"/dev/nvidia0", "/dev/nvidiactl"} <= {file.path for file in files}
    assert all(file.readable and file.writable for file in files if file.path.startswith("/dev/nvidia"))


def test_nvidia_smi_serves_where_the_bindings_are_broken() -> None:
    with tempfile.TemporaryDirectory() as broken:
        (Path(broken) / "pynvml.py").write_text("raise ImportError('broken on purpose')\n")
        nvidia, cards = read_nvidia(env={"PYTHONPATH": os.pathsep.join((broken, os.environ.get("PYTHONPATH", "")))})
    assert "broken on purpose" in getattr(nvidia.nvml, "reason", "")
    assert isinstance(nvidia.smi, Known)
    assert cards
    assert isinstance(cards[0].memory_total, Known)


def test_speed() -> None:
    read_nvidia()
    began = time.perf_counter()
    read_nvidia()
    assert time.perf_counter() - began < 1.0
