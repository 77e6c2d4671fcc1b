"""A card's and a host's figures: which there are, what they are called, how they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from ownlab.instruments.top.records import CardProcess, CardSample, HostSample, ProcessSample, Sample, Saturation
from ownlab.units import format_bytes

__all__ = [
    "BUSY",
    "DETAILS",
    "MEASURED",
    "MEASURES",
    "SATURATION",
    "SORTS",
    "Measure",
    "Row",
    "card_name",
    "card_state",
    "host_words",
    "matching",
    "memory_words",
    "of_total",
    "percent",
    "process_rows",
    "rate",
    "short_name",
    "sorted_rows",
]


class Measure(NamedTuple):
    """Something that is between 0 and 100 percent."""

    name: str  # in one short word
    meaning: str
    value: Callable[[CardSample], float | None]
    words: Callable[[CardSample], str]


def percent(value: float | None) -> str:
    """ "99 %", "0.8 %"; "" where it is not known. What is more than nothing never reads as nothing."""
    if value is None:
        return ""
    if 0 < value < 0.05:
        return "<0.1 %"
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def rate(value: float | None) -> str:
    """Bytes a second."""
    return "" if value is None else f"{format_bytes(value)}/s"


def of_total(used: float | None, total: float | None) -> float | None:
    """Percent."""
    return None if used is None or not total else 100 * used / total


def _saturated(name: str, meaning: str, field: str) -> Measure:
    def value(card: CardSample) -> float | None:
        known: Saturation | None = card.saturation
        return None if known is None else getattr(known, field)

    return Measure(name, meaning, value, lambda card: percent(value(card)))


def _memory(card: CardSample) -> str:
    if card.memory_used is None or card.memory_total is None:
        return ""
    return f"{format_bytes(card.memory_used)} of {format_bytes(card.memory_total)}"


def _power(card: CardSample) -> str:
    if card.power is None:
        return ""
    return f"{card.power:.0f} W" if card.power_limit is None else f"{card.power:.0f} of {card.power_limit:.0f} W"


def _clock(card: CardSample) -> str:
    return "" if card.clock_sm is None else f"{card.clock_sm:.0f} MHz"


def _busy(card: CardSample) -> float | None:
    """As verdicts take it: GPM's is of the whole interval, NVML's of the driver's last moment."""
    measured = card.saturation.graphics if card.saturation else None
    return card.utilisation if measured is None else measured


BUSY = Measure(
    "busy",
    "the time in which anything ran: GPM's figure, else nvidia-smi's GPU-Util",
    _busy,
    lambda card: percent(_busy(card)),
)
MEMORY = Measure(
    "memory", "the card's memory that is taken", lambda card: of_total(card.memory_used, card.memory_total), _memory
)
POWER = Measure("power", "of the power limit", lambda card: of_total(card.power, card.power_limit), _power)
CLOCK = Measure("clock", "of the highest clock", lambda card: of_total(card.clock_sm, card.clock_sm_max), _clock)

SATURATION = (
    _saturated("SM", "multiprocessors that were at work", "sm"),
    _saturated("tensor", "the time in which tensor cores worked", "tensor"),
    _saturated("DRAM", "of the memory's bandwidth", "dram"),
)
DETAILS = (
    _saturated("occup.", "warps in flight, of those that would fit", "occupancy"),
    _saturated("fp32", "the time in which 32-bit units worked, outside tensor cores", "fp32"),
    _saturated("fp16", "the time in which 16-bit units worked, outside tensor cores", "fp16"),
    _saturated("fp64", "the time in which 64-bit units worked, outside tensor cores", "fp64"),
    _saturated("int", "the time in which integer units worked", "integer"),
    CLOCK,
)
# Only where the card measures how much of it works.
MEASURED = (*SATURATION, *DETAILS[:-1])
# What a card's panel shows, from the top.
MEASURES = (BUSY, *SATURATION, MEMORY, POWER)


def short_name(name: str) -> str:
    """Without the maker, which the driver repeats for each card."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ") or "card"


def card_name(card: CardSample, *, short: bool = False) -> str:
    """ "0 NVIDIA H200"; of a MIG instance "0 1g.18gb (MIG)"."""
    name = f"{card.index} {short_name(card.name) if short or card.parent else card.name or 'card'}"
    return f"{name} (MIG)" if card.parent else name


def card_state(card: CardSample) -> str:
    """Heat, clock, link and what slows it down, in a few words."""
    parts = [
        "" if card.temperature is None else f"{card.temperature:.0f} °C",
        _clock(card),
        "" if card.fan is None else f"fan {card.fan:.0f} %",
        "" if card.pstate is None else f"P{card.pstate}",
        _link(card),
    ]
    return "  ".join(part for part in parts if part)


def _link(card: CardSample) -> str:
    if card.pcie_sent is None or card.pcie_received is None:
        return ""
    return f"PCIe ↓{rate(card.pcie_received)} ↑{rate(card.pcie_sent)}"


def memory_words(host: HostSample) -> str:
    """ "42 GiB of 128 GiB"."""
    if host.memory is None or host.memory_used is None:
        return ""
    return f"{format_bytes(host.memory_used)} of {format_bytes(host.memory)}"


def host_words(host: HostSample) -> tuple[str, str]:
    """What is known of the host besides processor and memory: who wants to compute, and what goes in and out."""
    wants = (
        ("load", "" if host.load is None else f"{host.load:.1f}"),
        ("busiest core", percent(host.busiest_core)),
        ("waiting for disks", percent(host.io_wait)),
        ("swap", "" if not host.swap_used else format_bytes(host.swap_used)),
    )
    flows = (("disks", _both(host.disk_read, host.disk_written)), ("network", _both(host.received, host.sent)))
    first, second = (", ".join(f"{label} {words}" for label, words in pairs if words) for pairs in (wants, flows))
    return first, second


def _both(into: float | None, out: float | None) -> str:
    return "" if into is None or out is None else f"↓{rate(into)} ↑{rate(out)}"


class Row(NamedTuple):
    """One process (or a runtime with all that descends from it), over all cards."""

    pid: int
    cards: tuple[int, ...]  # their numbers
    memory: int | None  # on these cards
    busy: float | None  # percent of the interval in which its kernels ran
    cpu: float | None
    ram: int | None
    whose: str
    command: str
    process: ProcessSample

    @property
    def cells(self) -> tuple[str, ...]:
        """Its figures as people read them, in the order of the table's columns."""
        return (
            str(self.pid),
            ",".join(map(str, self.cards)),
            "" if self.memory is None else format_bytes(self.memory),
            percent(self.busy),
            "" if self.cpu is None else f"{self.cpu:.0f} %",
            "" if self.ram is None else format_bytes(self.ram),
        )


def process_rows(sample: Sample) -> list[Row]:
    """All processes of a sample: those that it knows, then those that only the driver knows."""
    known = {each.pid: each for each in sample.processes}
    on_cards: dict[int, list[tuple[int, CardProcess]]] = {}
    for card in sample.cards:
        for each in card.processes or ():
            on_cards.setdefault(each.pid, []).append((card.index, each))
            known.setdefault(each.pid, ProcessSample(each.pid, here=False))
    return [_row(process, on_cards.get(pid, [])) for pid, process in known.items()]


def _row(process: ProcessSample, places: list[tuple[int, CardProcess]]) -> Row:
    memories = [each.memory for _, each in places if each.memory is not None]
    shares = [each.sm for _, each in places if each.sm is not None]
    return Row(
        process.pid,
        tuple(sorted({index for index, _ in places})),
        sum(memories) if memories else None,
        max(shares) if shares else None,
        process.cpu,
        process.memory,
        whose(process),
        process.command,
        process,
    )


def whose(process: ProcessSample) -> str:
    """The notebook and its person, where the lab started it; else the user and the container."""
    owner = process.owner
    if owner is not None:
        name = PurePath(owner.notebook).name or f"runtime {owner.runtime[:8]}"
        return f"{name} ({owner.person})" if owner.person else name
    user = f"{process.user} in {process.container}" if process.container else process.user
    if process.here:
        return user
    return f"{user}, not of this PID namespace" if user else "not of this PID namespace"


# Name -> what is sorted by, greatest first; what is not known comes last.
SORTS: dict[str, Callable[[Row], float | None]] = {
    "GPU memory": lambda row: row.memory,
    "GPU": lambda row: row.busy,
    "CPU": lambda row: row.cpu,
    "RAM": lambda row: row.ram,
    "PID": lambda row: -row.pid,
}


def sorted_rows(rows: Sequence[Row], by: str = "GPU memory", *, reverse: bool = False) -> list[Row]:
    """In the order of one column; among equals the lower PID comes first."""
    key = SORTS[by]
    known = sorted((row for row in rows if key(row) is not None), key=lambda row: row.pid)
    unknown = sorted((row for row in rows if key(row) is None), key=lambda row: row.pid)
    known.sort(key=lambda row: key(row) or 0.0, reverse=not reverse)
    return known + unknown


def matching(rows: Iterable[Row], text: str) -> list[Row]:
    """The rows that have all words of the text somewhere, whatever their case."""
    words = text.lower().split()
    return [row for row in rows if all(word in _searched(row) for word in words)]


def _searched(row: Row) -> str:
    process = row.process
    owner = process.owner
    parts = [str(row.pid), row.whose, row.command, process.user, process.container]
    parts += [owner.notebook, owner.runtime] if owner else []
    return " ".join(parts).lower()
