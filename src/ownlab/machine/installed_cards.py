"""This machine's cards as the catalogue knows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ownlab.catalog import cards as catalog
from ownlab.config.target import MachineOptions
from ownlab.machine.facts import value_of
from ownlab.machine.machine_file import load_machine
from ownlab.machine.nvidia.driver import has_sign
from ownlab.machine.nvidia.reader import read_nvidia
from ownlab.machine.records import Card

__all__ = ["OwnCards", "own_cards"]


class OwnCards(NamedTuple):
    """What is in a machine, each kind once."""

    known: tuple[str, ...]  # names of the catalogue
    unknown: tuple[str, ...]  # what drivers call those that it has not


def own_cards(options: MachineOptions) -> OwnCards:
    """This machine's. Drivers alone are asked: importing frameworks would take seconds."""
    known, unknown = list[str](), list[str]()
    for card in _cards(options):
        found, name = _known(card), value_of(card.name)
        if found is not None:
            known.append(found.name)
        elif name is not None:
            unknown.append(name)
    return OwnCards(tuple(dict.fromkeys(known)), tuple(dict.fromkeys(unknown)))


def _cards(options: MachineOptions) -> tuple[Card, ...]:
    if options.machine_file is not None:
        return value_of(load_machine(options.machine_file).cards) or ()
    return (read_nvidia()[1] or ()) if has_sign(Path("/"), os.environ) else ()


def _known(card: Card) -> catalog.Card | None:
    name = value_of(card.name)
    return None if name is None else catalog.find_card(name, value_of(card.memory_total))
