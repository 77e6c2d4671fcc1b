"""Reads the whole machine: every probe beside the others, each with its own deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

import ownlab
from ownlab.config.target import MachineOptions, resolve_machine_options
from ownlab.errors import DeadlineError
from ownlab.machine import toolkits
from ownlab.machine.environment_variables import read_environment
from ownlab.machine.facts import Fact, Known, Unknown, unread, value_of
from ownlab.machine.host.reader import read_host
from ownlab.machine.interpreter import read_interpreter
from ownlab.machine.machine_file import encodable, load_machine
from ownlab.machine.nvidia.reader import read_nvidia
from ownlab.machine.records import Card, Host, Interpreter, Library, Machine, Nvidia, Toolkits
from ownlab.machine.vendors import reader as vendors
from ownlab.machine.vendors.apple import judge_python
from ownlab.processes.background import BackgroundCall

__all__ = ["DEADLINES", "Probes", "collect", "read_machine", "start_probes"]

T = TypeVar("T")

# In seconds. What a probe starts has a deadline of its own, and all of them end well within these, unless the kernel
# itself does not answer: a folder of PATH lies on a dead network mount, say.
DEADLINES: Mapping[str, float] = {
    "host": 20.0,
    "toolkits": 15.0,
    "libraries": 20.0,
    "others": 30.0,
    "nvidia": 75.0,
    "interpreter": 95.0,
    "environment": 10.0,
}


class Probes(Struct, frozen=True):
    """What was started, each beside the others."""

    interpreter: BackgroundCall[Interpreter]
    nvidia: BackgroundCall[tuple[Nvidia, Fact[tuple[Card, ...]]]]
    others: BackgroundCall[vendors.Others]
    libraries: BackgroundCall[Fact[tuple[Library, ...]]]
    host: BackgroundCall[Host]
    toolkits: BackgroundCall[Toolkits]


def read_machine(options: MachineOptions | None = None) -> Machine:
    """This machine, or the saved one that stands in for it. Needs no root, and hangs on nothing."""
    options = options or resolve_machine_options()
    if options.machine_file is not None:
        return load_machine(options.machine_file)
    return collect(start_probes(options))


def start_probes(options: MachineOptions) -> Probes:
    """Begin to read this machine. The slowest first: importing a framework takes seconds."""
    return Probes(
        interpreter=BackgroundCall(partial(read_interpreter, options.python, options.python_origin)),
        nvidia=BackgroundCall(_read_nvidia),
        others=BackgroundCall(vendors.read_others),
        libraries=BackgroundCall(partial(toolkits.read_libraries, options.python)),
        host=BackgroundCall(read_host),
        toolkits=BackgroundCall(toolkits.read_toolkits),
    )


def _read_nvidia() -> tuple[Nvidia, Fact[tuple[Card, ...]]]:
    driver, cards = read_nvidia()
    if cards is None:
        return driver, Unknown("NVIDIA's driver is here and could not be asked")
    return driver, Known(cards, source="NVIDIA's driver")


def collect(probes: Probes, deadlines: Mapping[str, float] = DEADLINES) -> Machine:
    """What the probes found. One that does not answer in its time has its record all the same, with the reason in it."""
    begun = time.monotonic()

    def answer(name: str, call: BackgroundCall[T], otherwise: Callable[[Unknown], T]) -> T:
        try:
            return call.result(max(0.0, begun + deadlines[name] - time.monotonic()))
        except DeadlineError:
            return otherwise(Unknown(f"did not answer in {deadlines[name]:g} s"))

    host = answer("host", probes.host, partial(unread, Host))
    installed = answer("toolkits", probes.toolkits, partial(unread, Toolkits))
    libraries = answer("libraries", probes.libraries, lambda why: why)
    other = answer("others", probes.others, vendors.no_others)
    driver, found = answer("nvidia", probes.nvidia, lambda why: (unread(Nvidia, why), why))
    interpreter = answer("interpreter", probes.interpreter, partial(unread, Interpreter))
    cards = _all_cards(found, other.cards, interpreter=interpreter)
    begun = time.monotonic()
    variables = BackgroundCall(partial(read_environment, os.environ, value_of(cards) or ()))
    machine = Machine(
        origin="live",
        taken_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        ownlab=ownlab.__version__,
        host=host,
        cards=cards,
        nvidia=driver,
        amd=other.amd,
        tpu=other.tpu,
        ascend=other.ascend,
        toolkits=replace(installed, libraries=libraries),
        interpreter=interpreter,
        environment=answer("environment", variables, lambda why: why),
    )
    return encodable(machine)


def _all_cards(*found: Fact[tuple[Card, ...]], interpreter: Interpreter) -> Fact[tuple[Card, ...]]:
    """The cards of every vendor; not known where one could not list its own and the others have none."""
    cards = tuple(card for fact in found for card in value_of(fact) or ())
    reason = next((fact for fact in found if isinstance(fact, Unknown)), None)
    if reason is not None and not cards:
        return reason
    return Known(tuple(judge_python(card, interpreter.architecture) for card in cards), source="the vendors' drivers")
