"""What runtimes use right now: memory of the machine and of its cards, by runtime; and what machine and cards do.

One sample serves all runtimes. Nothing is read unless it is asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from ownlab.instruments.top.records import CardProcess, CardSample, ProcessSample, Sample, Verdict
from ownlab.instruments.top.sampler import Sampler
from ownlab.instruments.top.window import Window
from ownlab.lab.runtimes.process_owners import owners_of
from ownlab.lab.runtimes.records import HostState
from ownlab.lab.store.rows import Device, RuntimeRow
from ownlab.processes.procfs import Stat
from ownlab.units import GIB

__all__ = ["LiveUsage", "UsageSampler"]

# Linux walks all pages of a process for its proportional size, a millisecond and more: at most this part of a core is
# spent so on each process. In between, the size follows its resident memory, which costs nothing.
_MOST_OF_A_CORE = 0.0002
# A driver holds less of a card for itself, whatever NVML counts as used.
_DRIVERS_OWN = GIB


class LiveUsage(Struct, frozen=True):
    """One sample, by runtime and device. What is not in a table is not known."""

    at: float
    host: HostState
    ram: dict[str, int] = {}  # runtime -> bytes
    cpu: dict[str, float] = {}  # runtime -> percent of one core
    vram: dict[tuple[str, str], int] = {}  # (runtime, device) -> bytes
    shares: dict[tuple[str, str], float] = {}  # (runtime, device) -> percent of the time in which its kernels ran
    cards: dict[str, CardSample] = {}  # by the device's UUID, as the next
    verdicts: dict[str, Verdict] = {}
    notices: tuple[str, ...] = ()  # why something that should be known is not


class UsageSampler:
    """Takes samples for a server. `sample` may block for a second: call it in a thread of its own."""

    def __init__(self, environ: Mapping[str, str] = os.environ, *, root: Path = Path("/")) -> None:
        self._rows: Sequence[RuntimeRow] = ()
        self._sampler = Sampler(lambda: owners_of(self._rows), environ, root=root)
        self._window = Window()
        self._sizes = _Sizes()
        self.latest: Sample | None = None
        self.verdicts: tuple[Verdict, ...] = ()

    def sample(self, rows: Sequence[RuntimeRow], devices: tuple[Device, ...]) -> LiveUsage:
        """What these runtimes use now."""
        self._rows = rows
        self.latest = sample = self._sampler.take()
        self._window.add(sample)
        # A first sample has no interval: of what the cards do it knows next to nothing.
        self.verdicts = self._window.verdicts() if sample.seconds is not None else ()
        members = self._sampler.members
        self._sizes.keep(entry for processes in members.values() for entry in processes)
        host, cards = sample.host, _by_device(sample.cards, devices)
        return LiveUsage(
            at=sample.at,
            host=HostState(host.cpu, host.memory, host.memory_used, host.cores),
            ram={runtime: self._sizes.of(processes) for runtime, processes in members.items()},
            cpu=_cpu_by_runtime(sample.processes),
            vram=_vram_by_runtime(members, cards, sample.processes),
            shares=_shares_by_runtime(members, cards, sample.processes),
            cards=cards,
            verdicts={verdict.card: verdict for verdict in self.verdicts},
            notices=_notices(sample, devices),
        )

    def close(self) -> None:
        """End the child that asks the driver."""
        self._sampler.close()


def _by_device(cards: Iterable[CardSample], devices: Iterable[Device]) -> dict[str, CardSample]:
    """A card without a UUID has a number in its place, and a device may be named by that."""
    by_uuid = {card.uuid: card for card in cards}
    found = {
        device.uuid: by_uuid.get(device.uuid, by_uuid.get(f"{device.vendor}:{device.number}")) for device in devices
    }
    return {uuid: card for uuid, card in found.items() if card is not None}


def _notices(sample: Sample, devices: Iterable[Device]) -> tuple[str, ...]:
    if not sample.trouble or not any(device.vendor == "nvidia" for device in devices):
        return ()
    return (f"What the cards are used for is not known: {sample.trouble}.",)


# --- by runtime -------------------------------------------------------------------------------------------------------


def _cpu_by_runtime(processes: Iterable[ProcessSample]) -> dict[str, float]:
    found: dict[str, float] = {}
    for process in processes:
        if process.owner is not None and process.cpu is not None:
            found.setdefault(process.owner.runtime, process.cpu)  # the first is all of it
    return found


def _on_card(
    card: CardSample, runtimes: Iterable[str], processes: Iterable[ProcessSample]
) -> dict[str, list[CardProcess]]:
    """The processes of each runtime on a card."""
    owners = {process.pid: process.owner.runtime for process in processes if process.owner is not None}
    found: dict[str, list[CardProcess]] = {runtime: [] for runtime in runtimes}
    for running in card.processes or ():
        if running.pid in owners:
            found.setdefault(owners[running.pid], []).append(running)
    return found


def _vram_by_runtime(
    runtimes: Iterable[str], cards: Mapping[str, CardSample], processes: Sequence[ProcessSample]
) -> dict[tuple[str, str], int]:
    """Memory of each card by runtime. A runtime is left out where its part of a card cannot be told."""
    found = {}
    for uuid, card in cards.items():
        if card.processes is None:
            continue
        # In a container, NVML may count in the host's numbers, or name nobody: then none can be found by theirs.
        unseen = (card.memory_used or 0) - sum(running.memory or 0 for running in card.processes)
        elsewhere = unseen > _DRIVERS_OWN or _counts_elsewhere(card, processes)
        for runtime, its in _on_card(card, runtimes, processes).items():
            used = [running.memory for running in its]
            if None not in used and (used or not elsewhere):
                found[runtime, uuid] = sum(memory for memory in used if memory is not None)
    return found


def _shares_by_runtime(
    runtimes: Iterable[str], cards: Mapping[str, CardSample], processes: Sequence[ProcessSample]
) -> dict[tuple[str, str], float]:
    """The part of the time that each runtime's kernels had of a card, where the driver tells it by process.

    It names those that ran: where it names anybody, whom it does not name did nothing.
    """
    found = {}
    for uuid, card in cards.items():
        told = any(running.sm is not None for running in card.processes or ())
        if told and not _counts_elsewhere(card, processes):
            for runtime, its in _on_card(card, runtimes, processes).items():
                found[runtime, uuid] = min(100.0, sum(running.sm or 0.0 for running in its))
    return found


def _counts_elsewhere(card: CardSample, processes: Iterable[ProcessSample]) -> bool:
    """Whether the driver names somebody who is not to be found here by his number."""
    away = {process.pid for process in processes if not process.here}
    return any(running.pid in away for running in card.processes or ())


# --- memory -----------------------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    pss: int
    rss: int
    started: int
    next_at: float  # when it may be read anew, by the monotonic clock


class _Sizes:
    """What processes take together; memory that they share with others counts in part (Pss)."""

    def __init__(self) -> None:
        self._known: dict[int, _Size] = {}

    def of(self, processes: Iterable[Stat]) -> int:
        """All of these."""
        return sum(self._of_one(entry) for entry in processes)

    def keep(self, processes: Iterable[Stat]) -> None:
        """Forget all others."""
        alive = {entry.pid for entry in processes}
        self._known = {pid: size for pid, size in self._known.items() if pid in alive}

    def _of_one(self, entry: Stat) -> int:
        known, now = self._known.get(entry.pid), time.monotonic()
        if known is not None and known.started == entry.started and now < known.next_at:
            return max(0, known.pss + entry.rss - known.rss)
        pss = read_pss(entry.pid)
        if pss is None:  # another user's: what is shared counts whole
            return entry.rss
        cost = time.monotonic() - now
        self._known[entry.pid] = _Size(pss, entry.rss, entry.started, now + cost / _MOST_OF_A_CORE)
        return pss


def read_pss(pid: int) -> int | None:
    """The proportional size in bytes; None where it may not be read, or the process has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
