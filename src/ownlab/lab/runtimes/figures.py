"""What runtimes use right now: memory of the machine and of its cards, by runtime; and the load of the whole machine.

One pass over /proc serves all runtimes. Nothing is read unless it is asked for.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]  # it ships no types
from msgspec import Struct

from ownlab.lab.runtimes.readings import CardReading, NvmlWatch, recorded_readings
from ownlab.lab.runtimes.records import HostState
from ownlab.lab.store.proc import Stat, below, children_of, everyone
from ownlab.lab.store.rows import Device, Process, RuntimeRow
from ownlab.machine.recorded import load_machine
from ownlab.options import resolve_machine_options
from ownlab.units import GIB

__all__ = ["Figures", "Sampler"]

# Linux walks all pages of a process for its proportional size, a millisecond and more: at most this part of a core is
# spent so on each process. In between, the size follows its resident memory, which costs nothing.
_MOST_OF_A_CORE = 0.0002
# A driver holds less of a card for itself, whatever NVML counts as used.
_DRIVERS_OWN = GIB


class Figures(Struct, frozen=True):
    """One sample. A runtime or card that is not in a table: not known."""

    at: float
    host: HostState
    ram: dict[str, int] = {}  # runtime -> bytes
    vram: dict[tuple[str, str], int] = {}  # (runtime, device) -> bytes
    cards: dict[str, CardReading] = {}  # by the device's UUID
    notices: tuple[str, ...] = ()  # why something that should be known is not


class _Size(NamedTuple):
    pss: int
    rss: int
    started: int
    next_at: float  # when it may be read anew, by the monotonic clock


class Sampler:
    """Takes samples for a server. `sample` may block for a second: call it in a thread."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        options = resolve_machine_options(environ=environ)
        self._machine = load_machine(options.machine_file) if options.machine_file else None
        self._watch = NvmlWatch(environ)
        self._times: tuple[float, float] | None = None  # busy and all seconds of the cores, as they were last time
        self._sizes: dict[int, _Size] = {}
        self._one_at_a_time = threading.Lock()

    def sample(self, rows: Sequence[RuntimeRow], devices: tuple[Device, ...]) -> Figures:
        """What these runtimes use now."""
        with self._one_at_a_time:
            processes = everyone()
            trees = trees_of({row.id: row.keeper for row in rows}, processes)
            cards, trouble = self._read_cards(devices)
            ram = {runtime: self._memory_of(tree, processes) for runtime, tree in trees.items() if tree}
            self._forget(processes)
            return Figures(
                at=time.time(),
                host=self._read_host(),
                ram=ram,
                vram=_by_runtime(trees, cards, processes),
                cards={card.uuid: card for card in cards},
                notices=(f"What the cards are used for is not known: {trouble}.",) if trouble else (),
            )

    def close(self) -> None:
        """End the child that watches the cards."""
        with self._one_at_a_time:
            self._watch.close()

    def _read_cards(self, devices: tuple[Device, ...]) -> tuple[tuple[CardReading, ...], str]:
        if self._machine is not None:
            return recorded_readings(self._machine, devices), ""
        if any(device.vendor == "nvidia" for device in devices):
            return self._watch.ask()
        return (), ""

    def _read_host(self) -> HostState:
        times, memory = psutil.cpu_times(), psutil.virtual_memory()
        everything = sum(times[:8])  # guest time, where there is more, is counted in user time already
        busy = everything - times.idle - getattr(times, "iowait", 0.0)
        before, self._times = self._times, (busy, everything)
        share = None
        if before is not None and everything > before[1]:
            share = min(100.0, max(0.0, 100.0 * (busy - before[0]) / (everything - before[1])))
        return HostState(cpu=share, memory=memory.total, memory_used=memory.total - memory.available)

    def _memory_of(self, tree: Iterable[int], processes: Mapping[int, Stat]) -> int:
        """What these processes take together; memory that they share with others counts in part (Pss)."""
        return sum(self._size_of(pid, processes[pid]) for pid in tree)

    def _size_of(self, pid: int, entry: Stat) -> int:
        known, now = self._sizes.get(pid), time.monotonic()
        if known is not None and known.started == entry.started and now < known.next_at:
            return max(0, known.pss + entry.rss - known.rss)
        pss = read_pss(pid)
        if pss is None:  # another user's: what is shared counts whole
            return entry.rss
        cost = time.monotonic() - now
        self._sizes[pid] = _Size(pss, entry.rss, entry.started, now + cost / _MOST_OF_A_CORE)
        return pss

    def _forget(self, processes: Mapping[int, Stat]) -> None:
        for pid in [pid for pid in self._sizes if pid not in processes]:
            del self._sizes[pid]


def trees_of(roots: Mapping[str, Process], processes: Mapping[int, Stat]) -> dict[str, frozenset[int]]:
    """For each root, the process and all that descend from it; nothing where it has ended."""
    children = children_of(processes)
    found: dict[str, frozenset[int]] = {}
    for name, root in roots.items():
        known = processes.get(root.pid)
        lives = known is not None and known.started == root.started
        found[name] = frozenset((root.pid, *below(root.pid, children)) if lives else ())
    return found


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


def _by_runtime(
    trees: Mapping[str, frozenset[int]], cards: Sequence[CardReading], processes: Mapping[int, Stat]
) -> dict[tuple[str, str], int]:
    """Memory of each card by runtime. A runtime is left out where its part of a card cannot be told."""
    found = {}
    for card in cards:
        if card.processes is None:
            continue
        # In a container, NVML may count in the host's numbers, or name nobody: then none can be found by theirs.
        unseen = (card.memory_used or 0) - sum(memory or 0 for memory in card.processes.values())
        elsewhere = unseen > _DRIVERS_OWN or any(pid not in processes for pid in card.processes)
        for runtime, tree in trees.items():
            used = [memory for pid, memory in card.processes.items() if pid in tree]
            if None not in used and (used or not elsewhere):
                found[runtime, card.uuid] = sum(memory for memory in used if memory is not None)
    return found
