"""Reads the facts of a cluster, as far as they can be known: one that is down, half configured or not there has some, too."""

from __future__ import annotations

import os
import pwd
import re
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ownlab import __version__
from ownlab.config.paths import state_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import OwnlabError
from ownlab.instruments.doctor.cluster.connections import connection_to, connections_to
from ownlab.instruments.doctor.cluster.munge import check_munge
from ownlab.instruments.doctor.cluster.node_jobs import check_nodes
from ownlab.instruments.doctor.cluster.records import ClusterFacts, Controller, NodeFacts, NodeJobs
from ownlab.lab.engines.slurm.commands import Slurm
from ownlab.lab.engines.slurm.readers import munge_socket
from ownlab.lab.engines.slurm.records import ClusterConfig, ClusterNode
from ownlab.machine.facts import Known, Unknown

__all__ = ["read_cluster", "read_configuration_file", "read_ping"]

# Where Slurm's commands look for their configuration; the last is that of "configless" machines.
_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
_USUAL_PORT = 6817  # of slurmctld
_USUAL_NODE_PORT = 6818
_MOST_BYTES = 4 << 20  # of a configuration


def read_cluster(environ: Mapping[str, str], options: LabOptions, node_jobs: NodeJobs) -> ClusterFacts:
    """Read everything. Jobs run on nodes only as `node_jobs` says."""
    slurm = Slurm(environ, options.slurm_deadline_seconds)
    path = _configuration(environ)
    written = read_configuration_file(path)
    facts = ClusterFacts(
        host=socket.gethostname(),
        user=pwd.getpwuid(os.geteuid()).pw_name,
        configuration=path,
        munge=check_munge(munge_socket(written.get("AuthInfo", "")), environ),
        folder=str(state_folder(environ)),
        current_folder=_current_folder(),
        python=sys.executable,
        ownlab=__version__,
        node_jobs=node_jobs,
        read_at=time.time(),
    )
    try:
        version = slurm.check_version()
    except OwnlabError as exc:
        return msgspec.structs.replace(facts, commands=Unknown(exc.message))
    facts = msgspec.structs.replace(
        facts,
        commands=Known("{}.{:02d}".format(*version), source="sinfo --version"),
        controllers=_controllers(slurm, written),
    )
    try:
        config, nodes = slurm.config(), slurm.nodes()
        partitions = slurm.partitions()
    except OwnlabError as exc:
        return msgspec.structs.replace(facts, controller=Unknown(exc.message))
    read = _nodes(nodes, config)
    open_partitions = tuple(each.name for each in partitions if each.is_up)
    if node_jobs != "none":
        read = check_nodes(slurm, read, facts, open_partitions, options, environ, config.socket)
    return msgspec.structs.replace(
        facts,
        controller=Known("{}.{:02d}".format(*config.version), source="scontrol show config"),
        cluster=config.cluster,
        nodes=read,
    )


def read_configuration_file(path: str) -> dict[str, str]:
    """What matters of a slurm.conf: it says where the controllers are if they do not answer. {} if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return {}
    values: dict[str, str] = {}
    for line in content.splitlines():
        name, equals, value = line.partition("#")[0].partition("=")
        if equals:
            # Slurm does not mind the case of names. Of several controllers the first is the primary one.
            known = next((each for each in _NAMES if each.lower() == name.strip().lower()), None)
            if known is not None:
                values.setdefault(known, value.strip())
    return values


_NAMES = ("SlurmctldHost", "SlurmctldPort", "AuthInfo")


def read_ping(printed: str) -> list[tuple[str, bool]]:
    """The controllers of `scontrol ping`: "Slurmctld(primary) at login is UP"."""
    return [(name, state == "UP") for name, state in re.findall(r"Slurmctld\([^)]*\) at (\S+) is (\w+)", printed)]


def _controllers(slurm: Slurm, written: Mapping[str, str]) -> tuple[Controller, ...]:
    try:
        found = read_ping(slurm.ping())
    except OwnlabError:
        found = []
    match = re.match(r"([^\s(]+)(?:\(([^)]+)\))?", written.get("SlurmctldHost", ""))
    if match is not None and match[1] not in [name for name, _ in found]:
        found.append((match[1], False))
    ports = re.match(r"\d+", written.get("SlurmctldPort", ""))
    port = int(ports[0]) if ports else _USUAL_PORT
    controllers = []
    for name, is_up in found:
        address = match[2] if match is not None and match[1] == name and match[2] else name
        connection = connection_to(address, port)
        controllers.append(Controller(name, is_up, address=address, port=port, connection=connection))
    return tuple(controllers)


def _nodes(nodes: tuple[ClusterNode, ...], config: ClusterConfig) -> tuple[NodeFacts, ...]:
    places = [(node.address or node.name, node.port or config.node_port or _USUAL_NODE_PORT) for node in nodes]
    connections = connections_to(places)
    return tuple(
        NodeFacts(
            name=node.name,
            state=node.state,
            flags=tuple(sorted(node.flags)),
            usable=node.is_usable,
            reason=node.reason,
            gpus=sum(each.number for each in node.gpus),
            gpu_types=tuple(each.type for each in node.gpus),
            partitions=node.partitions,
            version=node.version,
            address=address,
            port=port,
            connection=connection,
        )
        for node, (address, port), connection in zip(nodes, places, connections, strict=True)
    )


def _configuration(environ: Mapping[str, str]) -> str:
    named = environ.get("SLURM_CONF", "")
    return next((path for path in (named, *_CONFIGURATIONS) if path and os.path.isfile(path)), "")


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""
