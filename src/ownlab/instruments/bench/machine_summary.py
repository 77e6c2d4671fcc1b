"""A machine in few words, and the card that a guest's "cuda:0" means."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ownlab.catalog import cards as catalogue
from ownlab.instruments.bench.records import CardSummary, MachineSummary
from ownlab.machine.facts import value_of
from ownlab.machine.records import Card, Framework, FrameworkDevice, Machine
from ownlab.machine.visible_devices import visible_devices

__all__ = ["card_of", "disk_of", "known_card", "notes_on", "summarise", "torch_of"]


def summarise(machine: Machine) -> MachineSummary:
    """What a report says of the machine on which it was made."""
    torch, host = torch_of(machine), machine.host
    return MachineSummary(
        cards=tuple(_card(card) for card in _accelerators(machine)),
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


def torch_of(machine: Machine) -> Framework | None:
    """torch, as it answered in the interpreter that was asked."""
    return next((each for each in value_of(machine.interpreter.frameworks) or () if each.name == "torch"), None)


def card_of(machine: Machine, device: str, environ: Mapping[str, str] = os.environ) -> Card | None:
    """The card behind "cuda:1": torch's second device. CUDA may count otherwise than the driver, so names must agree."""
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
    if not alike and len(cards) == len(seen) == 1:  # by whatever name: AMD's tool and torch do not agree on it
        return cards[0]
    return alike[min(at, len(alike) - 1)] if alike else None


def disk_of(machine: Machine, folder: str) -> str:
    """The disk that a folder is on: results are passed on, and paths hold people's names."""
    disks = [disk for disk in value_of(machine.host.disks) or () if _holds(disk.mount, folder)]
    disk = max(disks, key=lambda each: len(each.mount), default=None)
    if disk is None:
        return "disk"
    return disk.filesystem if disk.remote else f"{disk.filesystem} on {disk.device}"


def _holds(mount: str, folder: str) -> bool:
    return folder == mount or folder.startswith(mount.rstrip("/") + "/")


def known_card(card: Card) -> catalogue.Card | None:
    """The same card in the catalogue, with its peaks."""
    name = value_of(card.name)
    return None if name is None else catalogue.find_card(name, value_of(card.memory_total))


def notes_on(machine: Machine) -> tuple[str, ...]:
    """What is to be known before any figure is looked at."""
    cards, torch = _accelerators(machine), torch_of(machine)
    notes = []
    if cards and torch is not None and not _devices(machine):
        built = value_of(torch.build)
        why = "is built for the CPU alone" if built == "cpu" else "sees no card"
        notes.append(
            f"There is a card, and torch {value_of(torch.version) or ''} {why}: `ownlab doctor` says what to mend."
        )
    for card in cards:
        others = [each for each in value_of(card.processes) or () if each.kind == "compute" and each.pid != os.getpid()]
        if others:
            who = ", ".join(sorted({value_of(each.command) or f"process {each.pid}" for each in others}))
            notes.append(f"Others use card {card.index} ({who}): figures on it are what is left over.")
    return tuple(notes)


def _accelerators(machine: Machine) -> list[Card]:
    return [card for card in value_of(machine.cards) or () if not card.integrated]


def _devices(machine: Machine) -> tuple[FrameworkDevice, ...]:
    torch = torch_of(machine)
    return () if torch is None else value_of(torch.devices) or ()


def _card(card: Card) -> CardSummary:
    known = known_card(card)
    return CardSummary(
        name=value_of(card.name) or "a card without a name",
        memory_bytes=value_of(card.memory_total),
        catalogue=None if known is None else known.name,
    )
