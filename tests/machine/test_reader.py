"""The whole machine when a probe never answers."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from ownlab.config.machine_options import MachineOptions
from ownlab.machine.facts import Known, Unknown, unread, value_of
from ownlab.machine.reader import DEADLINES, Probes, collect, start_probes
from ownlab.machine.records import Card, Cpu, Host, Interpreter, Machine, Nvidia, Toolkits
from ownlab.machine.vendors.reader import OtherVendors, unread_vendors
from ownlab.processes.background import BackgroundCall

NOTHING = Unknown("nothing was asked")


@pytest.fixture
def never() -> Iterator[BackgroundCall[Any]]:
    """A call that hangs for as long as the test takes, as one on a dead network mount does."""
    end = threading.Event()
    yield BackgroundCall(lambda: end.wait(60))
    end.set()


def probes(**given: BackgroundCall[Any]) -> Probes:
    made: dict[str, BackgroundCall[Any]] = {
        "interpreter": BackgroundCall(lambda: unread(Interpreter, NOTHING)),
        "nvidia": BackgroundCall(lambda: (unread(Nvidia, NOTHING), Known((), source="NVML"))),
        "others": BackgroundCall(lambda: unread_vendors(NOTHING)._replace(cards=Known((), source="sysfs"))),
        "libraries": BackgroundCall(lambda: NOTHING),
        "host": BackgroundCall(lambda: unread(Host, NOTHING)),
        "toolkits": BackgroundCall(lambda: unread(Toolkits, NOTHING)),
    }
    return Probes(**{**made, **given})


def without(name: str, never: BackgroundCall[Any]) -> Machine:
    return collect(probes(**{name: never}), {**DEADLINES, name: 0.1})


WHY = Unknown("did not answer in 0.1 s")


def test_this_machine() -> None:
    machine = collect(start_probes(MachineOptions(sys.executable, "--python")))
    assert value_of(machine.host.family)
    assert value_of(machine.interpreter.path) == sys.executable
    assert value_of(machine.interpreter.architecture)
    assert isinstance(machine.environment, Known)
    assert isinstance(machine.toolkits.libraries, Known)


def test_a_hanging_host_probe_leaves_the_other_facts_known(never: BackgroundCall[Any]) -> None:
    began = time.monotonic()
    machine = without("host", never)
    assert time.monotonic() - began < 30
    assert (machine.host.kernel, machine.host.cpu.model, machine.host.memory.total) == (WHY, WHY, WHY)
    assert machine.toolkits.nvcc == NOTHING
    assert value_of(machine.cards) == ()


def test_toolkits_and_libraries_that_hang(never: BackgroundCall[Any]) -> None:
    machine = without("toolkits", never)
    assert (machine.toolkits.nvcc, machine.toolkits.libraries) == (WHY, NOTHING)
    machine = without("libraries", never)
    assert (machine.toolkits.nvcc, machine.toolkits.libraries) == (NOTHING, WHY)


def test_an_interpreter_that_hangs(never: BackgroundCall[Any]) -> None:
    assert without("interpreter", never).interpreter.version == WHY


@pytest.mark.parametrize("name", ["nvidia", "others"])
def test_a_hanging_vendor_leaves_the_cards_unknown(name: str, never: BackgroundCall[Any]) -> None:
    machine = without(name, never)
    assert machine.cards == WHY
    assert (machine.nvidia.driver == WHY) is (name == "nvidia")
    assert (machine.amd.driver == WHY) is (name == "others")


def test_cards_of_one_vendor_are_shown_where_another_hangs(never: BackgroundCall[Any]) -> None:
    card = Card("amd", 0)
    seen = OtherVendors(*unread_vendors(NOTHING)[:3], cards=Known((card,), source="sysfs"))
    machine = collect(probes(nvidia=never, others=BackgroundCall(lambda: seen)), {**DEADLINES, "nvidia": 0.1})
    assert value_of(machine.cards) == (card,)


def test_the_health_of_an_apple_card_depends_on_the_interpreter() -> None:
    card = Card("apple", 0, health=Known("OK", source="sysctl.proc_translated"))
    seen = unread_vendors(NOTHING)._replace(cards=Known((card,), source="sysctl"))
    python = replace(unread(Interpreter, NOTHING), architecture=Known("x86_64", source="platform.machine()"))
    machine = collect(probes(others=BackgroundCall(lambda: seen), interpreter=BackgroundCall(lambda: python)))
    assert "Rosetta" in (value_of((value_of(machine.cards) or ())[0].health) or "")


def test_bytes_that_are_not_text_are_replaced() -> None:
    host = replace(unread(Host, NOTHING), system=Known("Linux \udcff", source="/etc"))
    assert value_of(collect(probes(host=BackgroundCall(lambda: host))).host.system) == "Linux ?"


def test_an_unread_record_has_the_same_reason_everywhere() -> None:
    host = unread(Host, WHY)
    assert host.cpu == Cpu(*[WHY] * len(Cpu.__struct_fields__))
    assert host.disks == WHY
    assert unread(Interpreter, WHY).origin == ""
