"""From saved machines to the nodes of a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ownlab.errors import UsageError
from ownlab.instruments.cluster.records import ClusterPlan, PlannedGpus, PlannedNode
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Machine
from ownlab.text import Text, text
from ownlab.units import MIB

__all__ = ["plan_cluster"]

# slurmd reports a little less than /proc/meminfo after an update of the kernel, and drains a node that has less than configured.
_MEMORY_SHARE = 0.97
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_ADDRESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?")
_MAKERS = re.compile(r"\b(?:nvidia|amd|geforce|tesla|quadro|radeon|instinct|graphics|generation)\b", re.IGNORECASE)


def plan_cluster(
    name: str, controller: str, machines: Mapping[str, Machine], addresses: Mapping[str, str]
) -> tuple[ClusterPlan, tuple[Text, ...]]:
    """A cluster of these machines, and what was assumed. UsageError for what cannot be one."""
    _check(name, controller, machines, addresses)
    notes: list[Text] = []
    nodes = tuple(_node(host, addresses.get(host, host), machine, notes) for host, machine in machines.items())
    return ClusterPlan(name, controller, addresses.get(controller, controller), nodes), tuple(notes)


def _check(name: str, controller: str, machines: Mapping[str, Machine], addresses: Mapping[str, str]) -> None:
    for each in (name, controller, *machines):
        if not _NAME.fullmatch(each):
            message = text("{name!r} is not the name of a host or of a cluster.", name=each)
            raise UsageError(
                message, hint=text("Letters, digits and hyphens. NAME=FILE gives a machine another name than its file.")
            )
    for host, address in addresses.items():
        if host not in machines and host != controller:
            raise UsageError(text("--address names {host}, which is none of the machines.", host=host))
        if not _ADDRESS.fullmatch(address):
            raise UsageError(text("{address!r} is not an address.", address=address))


def _node(host: str, address: str, machine: Machine, notes: list[Text]) -> PlannedNode:
    cpus = value_of(machine.host.cpu.logical_cores)
    memory = value_of(machine.host.memory.total)
    if cpus is None or memory is None:
        message = text(
            "The file of {host} does not have the number of its cores and the size of its memory.", host=host
        )
        raise UsageError(message, hint=text("Save the machine there: ownlab machine --save FILE"))
    cards = value_of(machine.cards)
    if cards is None:
        notes.append(text("The GPUs of {host} are unknown; it gets none.", host=host))
    if any(value_of(card.mig) for card in cards or ()):
        notes.append(
            text("{host} has cards with MIG: they are configured whole; see gres.conf(5) for slices.", host=host)
        )
    usable = [card for card in cards or () if card.vendor == "nvidia" and not card.integrated]
    if len(usable) < len([card for card in cards or () if not card.integrated]):
        notes.append(text("{host} has accelerators that are not NVIDIA GPUs; they are left out.", host=host))
    return PlannedNode(host, address, cpus, int(memory / MIB * _MEMORY_SHARE), _gpus(usable))


def _gpus(cards: Sequence[Card]) -> tuple[PlannedGpus, ...]:
    devices: dict[str, list[str]] = {}
    for card in cards:
        devices.setdefault(_type(value_of(card.name) or "gpu"), []).append(f"/dev/nvidia{card.index}")
    return tuple(PlannedGpus(kind, tuple(files)) for kind, files in devices.items())


def _type(name: str) -> str:
    """The type of a GPU for Slurm: "NVIDIA GeForce GTX 1080 Ti" -> "gtx-1080-ti". One of digits alone would be read as a number."""
    short = "-".join(re.findall(r"[a-z0-9]+", _MAKERS.sub(" ", name).lower()))
    return short if re.search(r"[a-z]", short) else f"gpu-{short}" if short else "gpu"
