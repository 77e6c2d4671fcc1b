"""Current usage of RAM, CPU and cards by runtime, and the state of host and cards.

One sample serves all runtimes. Nothing is read unless it is requested.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from ownlab.instruments.top.process_sampler import Owners
from ownlab.instruments.top.records import CardProcess, CardSample, ProcessSample, Sample, Verdict
from ownlab.instruments.top.sampler import Sampler
from ownlab.instruments.top.verdict_window import Window
from ownlab.lab.runtimes.process_owners import owners_of
from ownlab.lab.runtimes.records import HostState
from ownlab.lab.runtimes.runtimes_on_nodes import OnNode
from ownlab.lab.store.rows import Device, RuntimeRow
from ownlab.processes.procfs import Stat
from ownlab.text import text
from ownlab.units import GIB

__all__ = ["LiveUsage", "UsageSampler"]

# Linux walks all pages of a process to compute its proportional set size, which takes a millisecond or more. Spend at
# most this fraction of a core on each process; in between, follow its resident set size, which costs nothing.
_MOST_OF_A_CORE = 0.0002
# Memory of a card that its driver uses itself, whatever NVML counts as used.
_DRIVERS_OWN = GIB


class LiveUsage(Struct, frozen=True):
    """One sample, by runtime and device. Missing entries are unknown."""

    at: float
    host: HostState
    ram: dict[str, int] = {}  # runtime -> bytes
    cpu: dict[str, float] = {}  # runtime -> percent of one core
    vram: dict[tuple[str, str], int] = {}  # (runtime, device) -> bytes
    shares: dict[tuple[str, str], float] = {}  # (runtime, device) -> percent of time in which its GPU kernels ran
    cards: dict[str, CardSample] = {}  # by the device's UUID, as `verdicts`
    verdicts: dict[str, Verdict] = {}
    notices: tuple[str, ...] = ()  # why something is unknown
    nodes: dict[str, OnNode] = {}  # of runtimes on nodes of a cluster


class UsageSampler:
    """Takes samples for a server. `sample` may block for a second: call it in its own thread."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, *, root: Path = Path("/"), owners: Owners | None = None
    ) -> None:
        """`owners`: the processes of runtimes; by default those that the rows name."""
        self._rows: Sequence[RuntimeRow] = ()
        self._sampler = Sampler(owners or (lambda: owners_of(self._rows)), environ, root=root)
        self._window = Window()
        self._sizes = _Sizes()
        self.latest: Sample | None = None
        self.verdicts: tuple[Verdict, ...] = ()

    def sample(self, rows: Sequence[RuntimeRow], devices: tuple[Device, ...]) -> LiveUsage:
        """Measure what these runtimes use now."""
        self._rows = rows
        self.latest = sample = self._sampler.take()
        self._window.add(sample)
        # A first sample has no interval, so it says almost nothing about the cards.
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
        """Stop the child process that reads the driver."""
        self._sampler.close()


def _by_device(cards: Iterable[CardSample], devices: Iterable[Device]) -> dict[str, CardSample]:
    """Cards by device. A card without a UUID is identified by vendor and number."""
    by_uuid = {card.uuid: card for card in cards}
    matched = {
        device.uuid: by_uuid.get(device.uuid, by_uuid.get(f"{device.vendor}:{device.number}")) for device in devices
    }
    return {uuid: card for uuid, card in matched.items() if card is not None}


def _notices(sample: Sample, devices: Iterable[Device]) -> tuple[str, ...]:
    if not sample.trouble or not any(device.vendor == "nvidia" for device in devices):
        return ()
    return (text("The use of the cards is unknown: {reason}.", reason=sample.trouble),)


# --- by runtime -------------------------------------------------------------------------------------------------------


def _cpu_by_runtime(processes: Iterable[ProcessSample]) -> dict[str, float]:
    by_runtime: dict[str, float] = {}
    for process in processes:
        if process.owner is not None and process.cpu is not None:
            by_runtime.setdefault(process.owner.runtime, process.cpu)  # the first entry is the total of the runtime
    return by_runtime


def _on_card(
    card: CardSample, runtimes: Iterable[str], processes: Iterable[ProcessSample]
) -> dict[str, list[CardProcess]]:
    """Return the processes of each runtime on a card."""
    owners = {process.pid: process.owner.runtime for process in processes if process.owner is not None}
    by_runtime: dict[str, list[CardProcess]] = {runtime: [] for runtime in runtimes}
    for running in card.processes or ():
        if running.pid in owners:
            by_runtime.setdefault(owners[running.pid], []).append(running)
    return by_runtime


def _vram_by_runtime(
    runtimes: Iterable[str], cards: Mapping[str, CardSample], processes: Sequence[ProcessSample]
) -> dict[tuple[str, str], int]:
    """Memory of each card by runtime. A runtime is left out if its share of a card is unknown."""
    by_runtime = {}
    for uuid, card in cards.items():
        if card.processes is None:
            continue
        # In a container, NVML may report pids of the host, or none: then processes cannot be matched.
        unseen = (card.memory_used or 0) - sum(running.memory or 0 for running in card.processes)
        elsewhere = unseen > _DRIVERS_OWN or _reports_foreign_pids(card, processes)
        for runtime, own in _on_card(card, runtimes, processes).items():
            used = [running.memory for running in own]
            if None not in used and (used or not elsewhere):
                by_runtime[runtime, uuid] = sum(memory for memory in used if memory is not None)
    return by_runtime


def _shares_by_runtime(
    runtimes: Iterable[str], cards: Mapping[str, CardSample], processes: Sequence[ProcessSample]
) -> dict[tuple[str, str], float]:
    """Percent of time in which each runtime's GPU kernels ran on a card, if the driver reports it by process.

    The driver lists processes that ran: if it lists any, the others did nothing.
    """
    by_runtime = {}
    for uuid, card in cards.items():
        reported = any(running.sm is not None for running in card.processes or ())
        if reported and not _reports_foreign_pids(card, processes):
            for runtime, own in _on_card(card, runtimes, processes).items():
                by_runtime[runtime, uuid] = min(100.0, sum(running.sm or 0.0 for running in own))
    return by_runtime


def _reports_foreign_pids(card: CardSample, processes: Iterable[ProcessSample]) -> bool:
    """Whether the driver lists a pid that does not exist here."""
    away = {process.pid for process in processes if not process.here}
    return any(running.pid in away for running in card.processes or ())


# --- memory -----------------------------------------------------------------------------------------------------------


class _Size(NamedTuple):
    pss: int
    rss: int
    started: int
    next_at: float  # when it may be read again, on the monotonic clock


class _Sizes:
    """Memory of groups of processes. Memory shared with other processes counts in part (Pss)."""

    def __init__(self) -> None:
        self._known: dict[int, _Size] = {}

    def of(self, processes: Iterable[Stat]) -> int:
        """The sum over these processes."""
        return sum(self._size(entry) for entry in processes)

    def keep(self, processes: Iterable[Stat]) -> None:
        """Forget all other processes."""
        alive = {entry.pid for entry in processes}
        self._known = {pid: size for pid, size in self._known.items() if pid in alive}

    def _size(self, entry: Stat) -> int:
        known, now = self._known.get(entry.pid), time.monotonic()
        if known is not None and known.started == entry.started and now < known.next_at:
            return max(0, known.pss + entry.rss - known.rss)
        pss = read_pss(entry.pid)
        if pss is None:  # another user's process: shared memory counts in full
            return entry.rss
        cost = time.monotonic() - now
        self._known[entry.pid] = _Size(pss, entry.rss, entry.started, now + cost / _MOST_OF_A_CORE)
        return pss


def read_pss(pid: int) -> int | None:
    """The proportional set size in bytes; None if it is not readable, or the process has ended."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
