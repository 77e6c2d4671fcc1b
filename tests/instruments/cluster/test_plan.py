"""From saved machines to the files of a cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from ownlab.errors import UsageError
from ownlab.instruments.cluster.commands import setup_script
from ownlab.instruments.cluster.plan import plan_cluster
from ownlab.instruments.cluster.records import ClusterPlan, PlannedGpus, PlannedNode
from ownlab.instruments.cluster.slurm_files import gres_conf, slurm_conf
from ownlab.machine.facts import Known
from ownlab.machine.machine_file import load_machine
from ownlab.machine.records import Card, Machine

if TYPE_CHECKING:
    from tests.command_line import World


@pytest.fixture
def h200(machines: Path) -> Machine:
    return load_machine(machines / "h200.json")


def with_cards(machine: Machine, *cards: Card) -> Machine:
    return msgspec.structs.replace(machine, cards=Known(cards, "test"))


def test_a_recorded_machine_becomes_a_node(h200: Machine) -> None:
    plan, notes = plan_cluster("lab", "box", {"box": h200}, {"box": "10.0.0.1"})
    assert plan.nodes == (PlannedNode("box", "10.0.0.1", 16, 125020, (PlannedGpus("h200", ("/dev/nvidia0",)),)),)
    assert notes == ()
    written = slurm_conf(plan)
    assert "NodeName=box NodeAddr=10.0.0.1 CPUs=16 RealMemory=125020 Gres=gpu:h200:1 State=UNKNOWN\n" in written
    assert "SlurmctldHost=box(10.0.0.1)\n" in written


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA GeForce GTX 1080 Ti", "gtx-1080-ti"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla V100-PCIE-32GB", "v100-pcie-32gb"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("GeForce 9800", "gpu-9800"),
        ("", "gpu"),
        ("é $(reboot)\nNodeName=x", "reboot-nodename-x"),
    ],
)
def test_names_of_types(h200: Machine, name: str, kind: str) -> None:
    machine = with_cards(h200, Card("nvidia", 0, name=Known(name, "test")))
    plan, _ = plan_cluster("lab", "box", {"box": machine}, {})
    assert plan.nodes[0].gpus[0].type == kind


def test_several_types_and_gaps_in_the_numbers(h200: Machine) -> None:
    names = {0: "NVIDIA L4", 1: "NVIDIA L4", 2: "NVIDIA H100", 3: "NVIDIA L4"}
    cards = [Card("nvidia", index, name=Known(name, "test")) for index, name in names.items()]
    plan, _ = plan_cluster("lab", "box", {"box": with_cards(h200, *cards)}, {})
    assert "Gres=gpu:l4:3,gpu:h100:1 " in slurm_conf(plan)
    assert gres_conf(plan).splitlines()[2:] == [
        "NodeName=box Name=gpu Type=l4 File=/dev/nvidia[0-1]",
        "NodeName=box Name=gpu Type=l4 File=/dev/nvidia3",
        "NodeName=box Name=gpu Type=h100 File=/dev/nvidia2",
    ]


def test_what_is_left_out_is_said(h200: Machine) -> None:
    amd = Card("amd", 0, name=Known("AMD Instinct MI300A", "test"))
    mig = Card("nvidia", 0, name=Known("NVIDIA A100", "test"), mig=Known(True, "test"))
    plan, notes = plan_cluster("lab", "one", {"one": with_cards(h200, amd), "two": with_cards(h200, mig)}, {})
    assert plan.nodes[0].gpus == ()
    assert ["not NVIDIA" in notes[0], "MIG" in notes[1]] == [True, True]


def test_only_the_controller_runs_slurmctld() -> None:
    node = PlannedNode("box", "box", 8, 1000)
    plan = ClusterPlan("lab", "head", "head", (node,))
    head, box = setup_script(plan, "head"), setup_script(plan, "box")
    assert ("restart slurmctld" in head, "restart slurmd\n" in head) == (True, False)
    assert ("restart slurmctld" in box, "restart slurmd\n" in box) == (False, True)
    assert "Gres=" not in slurm_conf(plan)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\nNodeName=x", "a;reboot", "10.0.0.1", "x" * 64])
def test_names_that_are_none(h200: Machine, name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a host"):
        plan_cluster("lab", name, {name: h200}, {})
    with pytest.raises(UsageError, match="is not the name of a host"):
        plan_cluster(name, "box", {"box": h200}, {})


@pytest.mark.parametrize("address", ["", "a b", "a)", "x\ny", "-"])
def test_addresses_that_are_none(h200: Machine, address: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        plan_cluster("lab", "box", {"box": h200}, {"box": address})


def test_machines_of_which_too_little_is_known(machines: Path) -> None:
    with pytest.raises(UsageError, match="the number of its cores"):
        plan_cluster("lab", "box", {"box": load_machine(machines / "gtx1080ti-x4.json")}, {})


def test_the_command(world: World, machines: Path, valid: Callable[[str, str], Any]) -> None:
    one = world.root / "box1.json"
    shutil.copy(machines / "h200.json", one)
    ran = world.run("cluster", "write", str(one), f"box2={machines}/cpu.json", "-o", "files", "--json")
    document = valid(ran.stdout, "cluster-write")
    assert [node["name"] for node in document["plan"]["nodes"]] == ["box1", "box2"]
    assert sorted(path.name for path in (world.root / "files").iterdir()) == sorted(document["files"])
    ran = world.run("cluster", "write", str(one), "-o", "files")
    assert (ran.returncode, "ssh root@box1 sh" in ran.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("box1.json", "-o", "files"), "box1.json does not exist"),
        (("box={h200}", "box={h200}", "-o", "files"), "Two machines have the name box"),
        (("box={h200}", "-o", "files", "--address", "other=10.0.0.1"), "names other, which is none of the machines"),
        (("box={h200}", "-o", "files", "--address", "box"), "it is written NAME=ADDRESS"),
        (("box={h200}", "-o", "{h200}/files"), "Cannot write to"),
    ],
)
def test_wrong_arguments(world: World, machines: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = world.run("cluster", "write", *(each.format(h200=machines / "h200.json") for each in arguments))
    assert ran.returncode in (2, 3)
    assert said in ran.stderr
    assert json.loads(world.run("cluster", "write", "x", "-o", "y", "--json").stdout)["error"]["message"]
