"""Cards that stand in for this machine's own: those of a recording, again and again, or of a recorded machine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from ownlab.errors import InputError
from ownlab.instruments.top.recording import read
from ownlab.instruments.top.records import CardProcess, CardSample, ProcessSample
from ownlab.machine import records as machines
from ownlab.machine.facts import value_of

__all__ = ["RecordedCards", "Seen", "StillCards", "cards_of"]


class Seen(NamedTuple):
    """Cards of another machine, with the processes that were on them."""

    cards: tuple[CardSample, ...]
    trouble: str
    processes: Mapping[int, ProcessSample]


class RecordedCards:
    """A recording's, one sample for each look, and from the start again after the last."""

    def __init__(self, path: Path) -> None:
        samples = list(read(path))
        if not samples:
            raise InputError(f"there is no sample in {path}", hint="Record some with: ownlab top --record FILE.ndjson")
        self._samples = itertools.cycle(samples)

    def look(self) -> Seen:
        """The next."""
        sample = next(self._samples)
        there = {each.pid: replace(each, here=False, owner=None) for each in sample.processes}
        return Seen(sample.cards, sample.trouble, there)


class StillCards:
    """A recorded machine's."""

    def __init__(self, machine: machines.Machine) -> None:
        cards = value_of(machine.cards) or ()
        running = [each for card in cards for each in value_of(card.processes) or ()]
        there = {
            each.pid: ProcessSample(
                each.pid, command=value_of(each.command) or "", user=value_of(each.user) or "", here=False
            )
            for each in running
        }
        self._seen = Seen(tuple(each for card in cards for each in cards_of(card)), "", there)

    def look(self) -> Seen:
        """The same each time."""
        return self._seen


def cards_of(card: machines.Card) -> Iterator[CardSample]:
    """A card of a machine's record, and its MIG instances."""
    uuid = value_of(card.uuid) or f"{card.vendor}:{card.index}"
    health, running = value_of(card.health), value_of(card.processes)
    yield CardSample(
        uuid=uuid,
        index=card.index,
        name=value_of(card.name) or "",
        bus_id=value_of(card.bus_id) or "",
        memory_total=value_of(card.memory_total),
        memory_used=value_of(card.memory_used),
        utilisation=value_of(card.utilisation),
        power=value_of(card.power_draw),
        power_limit=value_of(card.power_limit),
        temperature=value_of(card.temperature),
        clock_sm=value_of(card.clocks.sm),
        clock_sm_max=value_of(card.clocks.sm_max),
        clock_memory=value_of(card.clocks.memory),
        clock_memory_max=value_of(card.clocks.memory_max),
        throttle=value_of(card.throttle_reasons),
        pcie_generation=value_of(card.pcie.generation),
        pcie_width=value_of(card.pcie.width),
        no_saturation="a recorded machine stands still",
        processes=None if running is None else tuple(_process(each) for each in running),
        lost="" if health in (None, "OK", "Warning") else health,
    )
    for each in value_of(card.mig_instances) or ():
        yield CardSample(
            uuid=each.uuid,
            index=card.index,
            name=value_of(each.profile) or "",
            parent=uuid,
            memory_total=value_of(each.memory_total),
            memory_used=value_of(each.memory_used),
            no_saturation="a recorded machine stands still",
        )


def _process(each: machines.CardProcess) -> CardProcess:
    return CardProcess(each.pid, each.kind, value_of(each.memory))
