"""plan.json: the supervisor's instructions, written by the process that starts a runtime and readable only by its owner.

It never holds the environment, which the supervisor inherits. Standard library only.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ownlab.config.limits import Limits
from ownlab.config.settings import LabOptions
from ownlab.lab.store.rows import CardRequest, Device

__all__ = ["Plan", "read_plan"]


class Plan(NamedTuple):
    """One runtime, before it starts."""

    runtime: str  # the kernel's id
    home: str  # the runtime's own folder (0700): plan.json, state.json, kernel.json, log
    sockets: str  # the folder of its sockets: `home`, or one under /tmp if that path is too long for a socket
    store: str  # the store's folder
    type: str
    label: str
    argv: list[str]  # starts the kernel; "{connection_file}" is replaced
    cwd: str
    connection: dict[
        str, Any
    ]  # as a Jupyter connection file; port 0: any free port. With curve keys, clients must encrypt
    want: CardRequest = CardRequest()
    devices: tuple[Device, ...] = ()  # the candidates when this was written
    probe: list[str] | None = None  # prints the devices again, as JSON; None: they never change (a recorded machine)
    lab: str | None = None
    notebook: str = ""
    detached: bool = False  # True: outlives its starter. False: ends when its stdin is closed
    wait: bool = False  # True: waits in the queue if no card is free. False: ends with state "refused"
    limits: Limits = Limits()
    units_per_hour: float = 0.0
    host: str = ""  # the host that it runs on: several hosts may share a home
    journal: str = ""  # the folder of its journal; "": none is written
    cell_mb: int = LabOptions().cell_mb  # limit for the outputs that are kept of a cell

    def to_json(self) -> str:
        """The content of plan.json."""
        nested = {"want": self.want._asdict(), "limits": self.limits._asdict()}
        return json.dumps({**self._asdict(), **nested, "devices": [device._asdict() for device in self.devices]})


def read_plan(path: str) -> Plan:
    """Read a plan that `Plan.to_json` wrote."""
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    given["want"] = CardRequest(**given["want"])
    given["limits"] = Limits(**given["limits"])
    given["devices"] = tuple(
        Device(**{**device, "strangers": tuple(device["strangers"])}) for device in given["devices"]
    )
    return Plan(**given)
