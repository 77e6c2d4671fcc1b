"""What a supervisor is told: one file, written by whoever starts a runtime, readable by its owner alone.

It never holds the environment: that is passed on as the supervisor's own environment. Standard library only.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ownlab.config.limits import Limits
from ownlab.config.settings import LabOptions
from ownlab.lab.store.rows import Device, Want

__all__ = ["Plan", "read_plan"]


class Plan(NamedTuple):
    """One runtime, before it has anything."""

    runtime: str  # the kernel's id
    home: str  # the runtime's own folder (0700): plan.json, state.json, kernel.json, log
    sockets: str  # where its sockets are: `home`, or a folder under /tmp where that path is too long for a socket
    store: str  # the store's folder
    type: str
    label: str
    argv: list[str]  # starts the kernel; "{connection_file}" in it is replaced
    cwd: str
    connection: dict[
        str, Any
    ]  # as a Jupyter connection file; port 0: any free one. With curve keys: clients must use them
    want: Want = Want()
    devices: tuple[Device, ...] = ()  # the candidates, as they were when this was written
    probe: list[str] | None = None  # prints the devices anew, as JSON; None: they never change (a recorded machine)
    lab: str | None = None
    notebook: str = ""
    detached: bool = False  # True: outlives its starter. False: ends when its stdin is closed
    wait: bool = False  # True: waits in the queue where no card is free. False: ends with state "refused"
    limits: Limits = Limits()
    units_per_hour: float = 0.0
    host: str = ""  # where it runs: several hosts may share a home
    journal: str = ""  # the folder in which what it says is kept; "": nothing is
    cell_mb: int = LabOptions().cell_mb  # of a cell's outputs no more is kept

    def to_json(self) -> str:
        """As it is written to disk."""
        nested = {"want": self.want._asdict(), "limits": self.limits._asdict()}
        return json.dumps({**self._asdict(), **nested, "devices": [one._asdict() for one in self.devices]})


def read_plan(path: str) -> Plan:
    """Read a plan that `Plan.to_json` wrote."""
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    given["want"] = Want(**given["want"])
    given["limits"] = Limits(**given["limits"])
    given["devices"] = tuple(Device(**{**one, "strangers": tuple(one["strangers"])}) for one in given["devices"])
    return Plan(**given)
