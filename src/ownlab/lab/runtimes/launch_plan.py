"""plan.json: the supervisor's instructions, written by the process that starts a runtime and readable only by its owner.

It never holds the environment, which the supervisor inherits. Standard library only.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ownlab.config.limits import Limits
from ownlab.config.settings import LabOptions
from ownlab.errors import LabError
from ownlab.lab.store.rows import CardRequest, Device
from ownlab.lab.transport.endpoints import Endpoint, unix_endpoint
from ownlab.text import text

__all__ = ["NodeRequest", "Plan", "plan_from", "read_plan"]


class NodeRequest(NamedTuple):
    """What a runtime on a node of a cluster asks its engine for."""

    engine: str
    partition: str
    kind: str | None  # the type of its cards, as the cluster names it; None: no cards
    cards: int
    argv: list[str]  # starts the kernel there


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
    # As a Jupyter connection file. transport "ipc": sockets in the folder above. "tcp": these ports, 0 for any free one; with
    # curve keys, clients must encrypt and have the same keys.
    connection: dict[str, Any]
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
    backlog_mb: int = LabOptions().backlog_mb  # output that waits in memory for a client that does not read
    # The URLs of the control socket and of the journal socket; "" in plans of older versions: in the folder above.
    control_url: str = ""
    journal_url: str = ""
    # Of a script, which is no kernel: the folder of its logs, in which its end is recorded. "": a kernel.
    script_folder: str = ""
    # Beside the server, of a runtime on a node of a cluster: what its relay asks for. None: it runs on this machine.
    node: NodeRequest | None = None
    # On the node: the folder of its job, which all machines share. "": it is not in a job.
    job_folder: str = ""

    @property
    def is_job(self) -> bool:
        """Whether it runs in a job of a cluster, which has its cards and its end from there."""
        return bool(self.job_folder)

    @property
    def control_endpoint(self) -> Endpoint:
        """Where commands are sent to."""
        return Endpoint(self.control_url) if self.control_url else unix_endpoint(self.sockets, "control")

    @property
    def journal_endpoint(self) -> Endpoint:
        """Where the journal is followed. On TCP it has the keys of the connection."""
        if not self.journal_url:
            return unix_endpoint(self.sockets, "line")
        endpoint = Endpoint(self.journal_url)
        if endpoint.is_unix:
            return endpoint
        keys = [str(self.connection.get(f"curve_{name}key") or "") for name in ("public", "secret")]
        if not all(keys):
            raise LabError(text("The journal is not served on TCP without keys: {url}.", url=self.journal_url))
        return Endpoint(self.journal_url, *keys)

    def to_json(self) -> str:
        """The content of plan.json."""
        nested: dict[str, Any] = {"want": self.want._asdict(), "limits": self.limits._asdict()}
        if self.node is not None:
            nested["node"] = self.node._asdict()
        return json.dumps({**self._asdict(), **nested, "devices": [device._asdict() for device in self.devices]})


def read_plan(path: str) -> Plan:
    """Read a plan that `Plan.to_json` wrote."""
    with open(path, encoding="utf-8") as file:
        return plan_from(json.load(file))


def plan_from(given: dict[str, Any]) -> Plan:
    """A plan from the object that `Plan.to_json` wrote. ValueError, KeyError or TypeError if it is something else."""
    given["want"] = CardRequest(**given["want"])
    given["limits"] = Limits(**given["limits"])
    given["node"] = NodeRequest(**given["node"]) if given.get("node") else None
    given["devices"] = tuple(
        Device(**{**device, "strangers": tuple(device["strangers"])}) for device in given["devices"]
    )
    return Plan(**given)
