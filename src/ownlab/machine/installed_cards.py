"""This machine's cards under their names in the catalog."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ownlab.catalog import cards as catalog
from ownlab.config.machine_options import MachineOptions
from ownlab.machine.facts import value_of
from ownlab.machine.machine_file import load_machine
from ownlab.machine.nvidia.driver import has_sign
from ownlab.machine.nvidia.reader import read_nvidia
from ownlab.machine.records import Card

__all__ = ["OwnCards", "own_cards"]


class OwnCards(NamedTuple):
    """The models of card in a machine, each once."""

    known: tuple[str, ...]  # names in the catalog
    unknown: tuple[str, ...]  # the driver's names for models that the catalog does not have


def own_cards(options: MachineOptions) -> OwnCards:
    """Read this machine's cards from the drivers only: importing frameworks would take seconds."""
    known, unknown = list[str](), list[str]()
    for card in _cards(options):
        model, name = _model(card), value_of(card.name)
        if model is not None:
            known.append(model.name)
        elif name is not None:
            unknown.append(name)
    return OwnCards(tuple(dict.fromkeys(known)), tuple(dict.fromkeys(unknown)))


def _cards(options: MachineOptions) -> tuple[Card, ...]:
    if options.machine_file is not None:
        return value_of(load_machine(options.machine_file).cards) or ()
    return (read_nvidia()[1] or ()) if has_sign(Path("/"), os.environ) else ()


def _model(card: Card) -> catalog.Card | None:
    name = value_of(card.name)
    return None if name is None else catalog.find_card(name, value_of(card.memory_total))
