"""Samples of this machine, with a fake NVML where cards are needed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.instruments.top.nvml_child import GPM_PENDING, PENDING, NvmlChild
from ownlab.instruments.top.records import Owner
from ownlab.instruments.top.sampler import Sampler
from ownlab.instruments.top.source import settle

MIB = 1024**2
Fake = Callable[[dict[str, Any]], dict[str, str]]
PRODUCT = {"1": 100.0, "2": 96.0, "3": 14.0, "5": 93.0, "10": 17.0, "20": 2.0, "21": 3.0}


def sampler(*arguments: Any, **named: Any) -> contextlib.closing[Sampler]:
    return contextlib.closing(Sampler(*arguments, **named))


def test_the_first_complete_sample_has_saturation_and_rates(fake_nvml: Fake) -> None:
    card = {"gpm": PRODUCT, "nvmlDeviceGetUtilizationRates": {"gpu": 99, "memory": 20}}
    environ = fake_nvml({"cards": [card]})
    child = NvmlChild(environ)
    child.begin()
    with sampler(environ=environ, child=child) as source:
        sample = settle(source)
    (seen,) = sample.cards
    assert seen.saturation is not None
    assert (seen.utilisation, seen.saturation.sm, seen.saturation.tensor, seen.saturation.dram) == (
        99,
        96.0,
        93.0,
        17.0,
    )
    assert seen.saturation.fp64 is None  # this driver does not measure it
    assert (seen.pcie_sent, seen.pcie_received) == (2 * MIB, 3 * MIB)
    assert (seen.power, seen.power_limit, seen.energy) == (129.85, 700.0, 8123.456)
    assert sample.trouble == ""
    assert sample.seconds is not None
    assert sample.host.cpu is not None


def test_a_card_without_gpm_gives_the_reason(fake_nvml: Fake) -> None:
    with sampler(environ=fake_nvml({"cards": [{"gpm": None}]})) as source:
        (seen,) = settle(source).cards
    assert seen.saturation is None
    assert "Hopper" in seen.no_saturation


def test_a_process_on_a_card_belongs_to_its_notebook(fake_nvml: Fake, staged: Callable[..., Path]) -> None:
    ann = Owner("r1", "train.ipynb", "ann")
    running = [{"pid": os.getpid(), "usedGpuMemory": 3 * MIB}, {"pid": 2**22 + 1, "usedGpuMemory": MIB}]
    environ = fake_nvml({"cards": [{"nvmlDeviceGetComputeRunningProcesses_v3": running}]})
    with sampler(lambda: {os.getpid(): ann}, environ, root=staged(os.getpid())) as source:
        sample = settle(source)
    mine, other = sample.processes
    assert (mine.pid, mine.owner, mine.here) == (os.getpid(), ann, True)
    assert mine.command.startswith(sys.executable)
    assert mine.cpu is not None
    assert (other.pid, other.here) == (2**22 + 1, False)
    assert [each.memory for each in sample.cards[0].processes or ()] == [3 * MIB, MIB]


def test_a_machine_without_a_card_has_a_host(fake_nvml: Fake, tmp_path: Path, until: Callable[..., Any]) -> None:
    environ = {**fake_nvml({"init": 12, "cards": []}), "PATH": str(tmp_path)}
    root = tmp_path / "root"
    with sampler(environ=environ, root=root) as source:
        sample = until(lambda: (latest := source.take()).trouble != "NVML has not answered yet" and latest)
    assert sample.trouble == "no GPU was found on this machine"
    assert sample.cards == ()


@pytest.mark.parametrize(("vendor", "name"), [("0x1002", "2 × AMD"), ("0x8086", "2 × Intel")])
def test_cards_of_other_vendors_are_named(
    vendor: str, name: str, fake_nvml: Fake, tmp_path: Path, until: Callable[..., Any]
) -> None:
    for number in range(2):
        folder = tmp_path / "root/sys/bus/pci/devices" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        for file, content in (("class", "0x038000"), ("vendor", vendor), ("device", "0x74a1")):
            (folder / file).write_text(f"{content}\n")
    environ = {**fake_nvml({"init": 12, "cards": []}), "PATH": str(tmp_path)}
    with sampler(environ=environ, root=tmp_path / "root") as source:
        sample = until(lambda: (latest := source.take()).trouble != "NVML has not answered yet" and latest)
    assert name in sample.trouble


def test_the_error_of_an_installed_driver_is_passed_on(
    fake_nvml: Fake, tmp_path: Path, until: Callable[..., Any]
) -> None:
    (tmp_path / "root/proc/driver/nvidia").mkdir(parents=True)
    with sampler(environ=fake_nvml({"init": 18, "cards": []}), root=tmp_path / "root") as source:
        until(lambda: "version mismatch" in source.take().trouble)


def test_a_first_sample_says_that_saturation_follows(fake_nvml: Fake, until: Callable[..., Any]) -> None:
    with sampler(environ=fake_nvml({"cards": [{"gpm": PRODUCT}]})) as source:
        first = until(lambda: (latest := source.take()).trouble != PENDING and latest)
    assert [card.no_saturation for card in first.cards] == [GPM_PENDING]
