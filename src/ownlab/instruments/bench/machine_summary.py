"""The summary of a machine for a report, and the card behind a guest's "cuda:0"."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ownlab.catalog import cards as catalogue
from ownlab.instruments.bench.records import CardSummary, MachineSummary
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Framework, FrameworkDevice, Machine
from ownlab.machine.visible_devices import visible_devices
from ownlab.text import listing, text

__all__ = ["catalogue_card", "describe_disk", "find_card", "find_torch", "machine_notes", "summarise"]


def summarise(machine: Machine) -> MachineSummary:
    """Summarise the machine of a measurement."""
    torch, host = find_torch(machine), machine.host
    return MachineSummary(
        cards=tuple(_summarise_card(card) for card in _accelerators(machine)),
        cpu=value_of(host.cpu.model),
        cores=value_of(host.cpu.usable_cores),
        memory_bytes=value_of(host.memory.total),
        system=value_of(host.system),
        kernel=value_of(host.kernel),
        driver=value_of(machine.nvidia.driver),
        python=value_of(machine.interpreter.version),
        torch=None if torch is None else value_of(torch.version),
        cuda=None if torch is None else value_of(torch.cuda),
    )


def find_torch(machine: Machine) -> Framework | None:
    """Return torch as found in the interpreter."""
    frameworks = value_of(machine.interpreter.frameworks) or ()
    return next((framework for framework in frameworks if framework.name == "torch"), None)


def find_card(machine: Machine, device: str, environ: Mapping[str, str] = os.environ) -> Card | None:
    """Return the card behind torch's "cuda:1". CUDA may number cards differently from the driver, so names must agree."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return None
    cards = _accelerators(machine)
    seen = _devices(machine)
    at = int(number) if number.isdigit() else 0
    name = seen[at].name if at < len(seen) else None
    order = visible_devices(environ.get("CUDA_VISIBLE_DEVICES"), cards).order
    if machine.origin == "live" and at < len(order):
        card = next(card for card in cards if card.vendor == "nvidia" and card.index == order[at])
        if name is None or value_of(card.name) == name:
            return card
    alike = [card for card in cards if name is None or value_of(card.name) == name]
    if not alike and len(cards) == len(seen) == 1:  # by any name: AMD's tool and torch use different ones
        return cards[0]
    return alike[min(at, len(alike) - 1)] if alike else None


def describe_disk(machine: Machine, folder: str) -> str:
    """Return the disk of a folder. Results are shared, and paths contain names of people."""
    disks = [disk for disk in value_of(machine.host.disks) or () if _holds(disk.mount, folder)]
    disk = max(disks, key=lambda disk: len(disk.mount), default=None)
    if disk is None:
        return "disk"
    return disk.filesystem if disk.remote else f"{disk.filesystem} on {disk.device}"


def _holds(mount: str, folder: str) -> bool:
    return folder == mount or folder.startswith(mount.rstrip("/") + "/")


def catalogue_card(card: Card) -> catalogue.Card | None:
    """Return the card in the catalogue, with its peak rates."""
    name = value_of(card.name)
    return None if name is None else catalogue.find_card(name, value_of(card.memory_total))


def machine_notes(machine: Machine) -> tuple[str, ...]:
    """Return notes that qualify all results."""
    cards, torch = _accelerators(machine), find_torch(machine)
    notes: list[str] = []
    if cards and torch is not None and not _devices(machine):
        version = value_of(torch.version) or ""
        if value_of(torch.build) == "cpu":
            notes.append(
                text("torch {version} is a CPU build and cannot use the card: see `ownlab doctor`.", version=version)
            )
        else:
            notes.append(text("torch {version} does not see the card: see `ownlab doctor`.", version=version))
    for card in cards:
        processes = value_of(card.processes) or ()
        others = [process for process in processes if process.kind == "compute" and process.pid != os.getpid()]
        if others:
            names = listing(
                sorted({value_of(other.command) or f"process {other.pid}" for other in others}), "{items}, {last}"
            )
            notes.append(
                text(
                    "Other processes use card {index} ({names}): its results are lower.", index=card.index, names=names
                )
            )
    return tuple(notes)


def _accelerators(machine: Machine) -> list[Card]:
    return [card for card in value_of(machine.cards) or () if not card.integrated]


def _devices(machine: Machine) -> tuple[FrameworkDevice, ...]:
    torch = find_torch(machine)
    return () if torch is None else value_of(torch.devices) or ()


def _summarise_card(card: Card) -> CardSummary:
    known = catalogue_card(card)
    return CardSummary(
        name=value_of(card.name) or text("unnamed card"),
        memory_bytes=value_of(card.memory_total),
        catalogue=None if known is None else known.name,
    )
