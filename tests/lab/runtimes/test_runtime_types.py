"""The runtime types of a machine: their order, labels, names and prices."""

from __future__ import annotations

import re
import sys
from typing import Any

from ownlab.config.settings import LabOptions
from ownlab.lab.environments.registry import Environment, own_python
from ownlab.lab.runtimes.runtime_types import runtime_types
from ownlab.lab.store.rows import Device

H200 = "NVIDIA H200"


def cards(count: int, name: str = H200, **fields: Any) -> list[Device]:
    return [Device(f"GPU-{name}-{n}", "nvidia", n, name)._replace(**fields) for n in range(count)]


def test_a_machine_without_a_card_has_the_cpu() -> None:
    (only,) = runtime_types((), (), LabOptions())
    assert (only.name, only.label, only.kind, only.cards) == ("ownlab-cpu", "Python 3 (CPU)", None, 0)
    assert (only.environment, only.python) == ("default", own_python())


def test_the_order_is_cpu_one_card_shares_several_cards() -> None:
    types = runtime_types(cards(6), (), LabOptions(shares=(2, 4)))
    assert [kind.label for kind in types] == [
        "Python 3 (CPU)",
        "Python 3 (1 × NVIDIA H200)",
        "Python 3 (½ × NVIDIA H200)",
        "Python 3 (¼ × NVIDIA H200)",
        "Python 3 (2 × NVIDIA H200)",
        "Python 3 (4 × NVIDIA H200)",
        "Python 3 (6 × NVIDIA H200)",
    ]
    assert [kind.name for kind in types][1:4] == [
        "ownlab-1-nvidia-h200",
        "ownlab-half-nvidia-h200",
        "ownlab-quarter-nvidia-h200",
    ]
    assert [(kind.cards, kind.parts) for kind in types][1:5] == [(1, 12), (1, 6), (1, 3), (2, 12)]


def test_two_cards_are_offered_together_once() -> None:
    assert [kind.cards for kind in runtime_types(cards(2), (), LabOptions(shares=()))] == [0, 1, 2]


def test_each_environment_has_all_types() -> None:
    types = runtime_types(cards(1), [Environment("torch", sys.executable)], LabOptions())
    assert [kind.name for kind in types][3:] == [
        "ownlab-torch-cpu",
        "ownlab-torch-1-nvidia-h200",
        "ownlab-torch-half-nvidia-h200",
    ]
    assert types[4].label == "torch (1 × NVIDIA H200)"
    assert (types[4].environment, types[4].python) == ("torch", sys.executable)


def test_an_environment_whose_interpreter_is_gone_has_no_types() -> None:
    assert len(runtime_types((), [Environment("gone", "/not/there")], LabOptions())) == 1


def test_mig_instances_are_neither_shared_nor_combined() -> None:
    name = "1g.18gb of NVIDIA H200"
    slices = [Device(f"MIG-{n}", "nvidia", 0, name, whole_only=True) for n in range(3)]
    assert [kind.name for kind in runtime_types(slices, (), LabOptions())] == [
        "ownlab-cpu",
        "ownlab-1-1g-18gb-of-nvidia-h200",
    ]


def test_exclusive_cards_are_not_shared() -> None:
    types = runtime_types(cards(2, whole_only=True), (), LabOptions())
    assert [(kind.cards, kind.parts) for kind in types] == [(0, 12), (1, 12), (2, 12)]


def test_names_are_unique_and_valid_in_jupyter() -> None:
    devices = [*cards(1, "GeForce (R) 4090"), *cards(1, "GeForce: R 4090"), *cards(1, "显卡")]
    names = [kind.name for kind in runtime_types(devices, (), LabOptions())]
    assert len(set(names)) == len(names) == 7
    assert all(re.fullmatch(r"ownlab-[a-z0-9-]+", name) for name in names)


def test_prices_are_by_card_and_share() -> None:
    options = LabOptions(units={"cpu": 0.5, "default": 1.0, H200: 4.0})
    prices = {kind.name: kind.units_per_hour for kind in runtime_types(cards(2), (), options)}
    assert prices["ownlab-cpu"] == 0.5
    assert prices["ownlab-half-nvidia-h200"] == 2
    assert prices["ownlab-2-nvidia-h200"] == 8
