"""Reads the whole machine: every probe beside the others, each with its own deadline."""

from __future__ import annotations

import os
from datetime import datetime, timezone

import msgspec

import ownlab
from ownlab.guests.beside import Beside
from ownlab.machine import toolkits, vendors
from ownlab.machine.environment import read_environment
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.frameworks import read_interpreter
from ownlab.machine.host import read_host
from ownlab.machine.nvidia import read_nvidia
from ownlab.machine.recorded import load_machine
from ownlab.machine.records import Card, Machine
from ownlab.options import MachineOptions, resolve_machine_options

__all__ = ["read_machine"]


def read_machine(options: MachineOptions | None = None) -> Machine:
    """This machine, or the saved one that stands in for it. Needs no root, and hangs on nothing."""
    options = options or resolve_machine_options()
    if options.machine_file is not None:
        return load_machine(options.machine_file)
    # The slowest first: importing a framework takes seconds, everything else is done meanwhile.
    interpreter = Beside(lambda: read_interpreter(options.python, options.python_origin))
    nvidia = Beside(read_nvidia)
    others = Beside(vendors.read_others)
    libraries = Beside(lambda: toolkits.read_libraries(options.python))
    host = read_host()
    installed = toolkits.read_toolkits()
    driver, nvidia_cards = nvidia.result()
    other = others.result()
    cards = _all_cards(nvidia_cards, other.cards)
    return Machine(
        origin="live",
        taken_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        ownlab=ownlab.__version__,
        host=host,
        cards=cards,
        nvidia=driver,
        amd=other.amd,
        tpu=other.tpu,
        ascend=other.ascend,
        toolkits=msgspec.structs.replace(installed, libraries=libraries.result()),
        interpreter=interpreter.result(),
        environment=read_environment(os.environ, cards.value if isinstance(cards, Known) else ()),
    )


def _all_cards(nvidia: tuple[Card, ...] | None, others: tuple[Card, ...]) -> Fact[tuple[Card, ...]]:
    if nvidia is None and not others:
        return Unknown("NVIDIA's driver is here and could not be asked")
    return Known((*(nvidia or ()), *others), source="the vendors' drivers")
