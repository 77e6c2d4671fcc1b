"""Reads the whole machine: all probes run at once, each with its own deadline."""

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
from ownlab.config.machine_options import MachineOptions, resolve_machine_options
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
from ownlab.machine.vendors.apple import with_python_health
from ownlab.processes.background import BackgroundCall
from ownlab.text import text

__all__ = ["DEADLINES", "Probes", "collect", "read_machine", "start_probes"]

T = TypeVar("T")

# In seconds. The programs that a probe starts have their own deadlines and end well within these, unless the kernel
# itself does not answer, for example because a folder of PATH lies on a dead network mount.
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
    """The running probes."""

    interpreter: BackgroundCall[Interpreter]
    nvidia: BackgroundCall[tuple[Nvidia, Fact[tuple[Card, ...]]]]
    others: BackgroundCall[vendors.OtherVendors]
    libraries: BackgroundCall[Fact[tuple[Library, ...]]]
    host: BackgroundCall[Host]
    toolkits: BackgroundCall[Toolkits]


def read_machine(options: MachineOptions | None = None) -> Machine:
    """Read this machine, or load the saved one given in the options. Needs no root, and never hangs."""
    options = options or resolve_machine_options()
    if options.machine_file is not None:
        return load_machine(options.machine_file)
    return collect(start_probes(options))


def start_probes(options: MachineOptions) -> Probes:
    """Start to read this machine. The slowest probe comes first: importing a framework takes seconds."""
    return Probes(
        interpreter=BackgroundCall(partial(read_interpreter, options.python, options.python_origin)),
        nvidia=BackgroundCall(_read_nvidia),
        others=BackgroundCall(vendors.read_other_vendors),
        libraries=BackgroundCall(partial(toolkits.read_libraries, options.python)),
        host=BackgroundCall(read_host),
        toolkits=BackgroundCall(toolkits.read_toolkits),
    )


def _read_nvidia() -> tuple[Nvidia, Fact[tuple[Card, ...]]]:
    driver, cards = read_nvidia()
    if cards is None:
        return driver, Unknown(text("the NVIDIA driver is installed but cannot be queried"))
    return driver, Known(cards, source=text("NVIDIA's driver"))


def collect(probes: Probes, deadlines: Mapping[str, float] = DEADLINES) -> Machine:
    """Collect the results of the probes. A probe that misses its deadline leaves a record with the reason."""
    started = time.monotonic()

    def result(name: str, probe: BackgroundCall[T], unknown: Callable[[Unknown], T]) -> T:
        try:
            return probe.result(max(0.0, started + deadlines[name] - time.monotonic()))
        except DeadlineError:
            return unknown(Unknown(text("did not answer in {seconds:g} s", seconds=deadlines[name])))

    host = result("host", probes.host, partial(unread, Host))
    installed = result("toolkits", probes.toolkits, partial(unread, Toolkits))
    libraries = result("libraries", probes.libraries, lambda reason: reason)
    other = result("others", probes.others, vendors.unread_vendors)
    driver, nvidia_cards = result("nvidia", probes.nvidia, lambda reason: (unread(Nvidia, reason), reason))
    interpreter = result("interpreter", probes.interpreter, partial(unread, Interpreter))
    cards = _all_cards(nvidia_cards, other.cards, interpreter=interpreter)
    started = time.monotonic()
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
        environment=result("environment", variables, lambda reason: reason),
    )
    return encodable(machine)


def _all_cards(*by_vendor: Fact[tuple[Card, ...]], interpreter: Interpreter) -> Fact[tuple[Card, ...]]:
    """Join the cards of all vendors; unknown where one could not list its cards and the others have none."""
    cards = tuple(card for fact in by_vendor for card in value_of(fact) or ())
    reason = next((fact for fact in by_vendor if isinstance(fact, Unknown)), None)
    if reason is not None and not cards:
        return reason
    return Known(
        tuple(with_python_health(card, interpreter.architecture) for card in cards), source=text("the vendors' drivers")
    )
