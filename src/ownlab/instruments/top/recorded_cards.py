"""Recorded cards in place of this machine's own: a recording in a loop (OWNLAB_STREAM), or a recorded machine (OWNLAB_MACHINE)."""

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
from ownlab.text import text

__all__ = ["CardReading", "LoopedRecording", "StaticMachine", "card_samples"]

_NO_SATURATION = text("a recorded machine has no activity counters")


class CardReading(NamedTuple):
    """Cards of another machine with the processes that were on them."""

    cards: tuple[CardSample, ...]
    trouble: str
    processes: Mapping[int, ProcessSample]


class LoopedRecording:
    """The cards of a recording, one sample per reading; after the last sample it starts again."""

    def __init__(self, path: Path) -> None:
        samples = list(read(path))
        if not samples:
            raise InputError(
                text("{path} contains no sample.", path=path),
                hint=text("Record some with: ownlab top --record FILE.ndjson"),
            )
        self._samples = itertools.cycle(samples)

    def read(self) -> CardReading:
        """Return the cards of the next sample."""
        sample = next(self._samples)
        processes = {process.pid: replace(process, here=False, owner=None) for process in sample.processes}
        return CardReading(sample.cards, sample.trouble, processes)


class StaticMachine:
    """The cards of a recorded machine, which never change."""

    def __init__(self, machine: machines.Machine) -> None:
        cards = value_of(machine.cards) or ()
        processes = {
            process.pid: ProcessSample(
                process.pid, command=value_of(process.command) or "", user=value_of(process.user) or "", here=False
            )
            for card in cards
            for process in value_of(card.processes) or ()
        }
        self._reading = CardReading(tuple(sample for card in cards for sample in card_samples(card)), "", processes)

    def read(self) -> CardReading:
        """Return the same cards each time."""
        return self._reading


def card_samples(card: machines.Card) -> Iterator[CardSample]:
    """Convert a card of a machine record, and its MIG instances."""
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
        no_saturation=_NO_SATURATION,
        processes=None if running is None else tuple(_card_process(process) for process in running),
        lost="" if health in (None, "OK", "Warning") else health,
    )
    for instance in value_of(card.mig_instances) or ():
        yield CardSample(
            uuid=instance.uuid,
            index=card.index,
            name=value_of(instance.profile) or "",
            parent=uuid,
            memory_total=value_of(instance.memory_total),
            memory_used=value_of(instance.memory_used),
            no_saturation=_NO_SATURATION,
        )


def _card_process(process: machines.CardProcess) -> CardProcess:
    return CardProcess(process.pid, process.kind, value_of(process.memory))
