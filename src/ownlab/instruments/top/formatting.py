"""Formatting shared by the terminal table and the full screen: measures of cards and hosts, and the rows of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from ownlab.instruments.top.records import CardProcess, CardSample, HostSample, ProcessSample, Sample, Saturation
from ownlab.text import facts, text
from ownlab.units import format_bytes

__all__ = [
    "ACTIVITY",
    "BUSY",
    "CLOCK",
    "DETAILS",
    "MEASURES",
    "MEASURES_OF_GPM",
    "MEMORY",
    "POWER",
    "SORT_KEYS",
    "Measure",
    "ProcessRow",
    "card_name",
    "card_state",
    "filter_rows",
    "format_host_memory",
    "format_host_rates",
    "format_host_state",
    "format_percent",
    "percentage",
    "process_rows",
    "sort_rows",
]


class Measure(NamedTuple):
    """A value of a card between 0 and 100 percent."""

    name: str  # one short word
    meaning: str
    value: Callable[[CardSample], float | None]
    format: Callable[[CardSample], str]
    cell: Callable[[CardSample], str]  # the same for a narrow column


def format_percent(value: float | None) -> str:
    """Return "99 %", "0.8 %"; "" if unknown. A positive value never reads as 0."""
    if value is None:
        return ""
    if 0 < value < 0.05:
        return "<0.1 %"
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def percentage(used: float | None, total: float | None) -> float | None:
    """Return 100 · used / total."""
    return None if used is None or not total else 100 * used / total


# --- cards ------------------------------------------------------------------------------------------------------------


def _activity(name: str, meaning: str, field: str) -> Measure:
    def value(card: CardSample) -> float | None:
        saturation: Saturation | None = card.saturation
        return None if saturation is None else getattr(saturation, field)

    def show(card: CardSample) -> str:
        return format_percent(value(card))

    return Measure(name, meaning, value, show, show)


def _format_memory(card: CardSample) -> str:
    if card.memory_used is None or card.memory_total is None:
        return ""
    return text("{used} of {total}", used=format_bytes(card.memory_used), total=format_bytes(card.memory_total))


def _memory_cell(card: CardSample) -> str:
    """Return "12.3/141 GiB"."""
    if card.memory_used is None or card.memory_total is None:
        return ""
    total = format_bytes(card.memory_total)
    unit = total.lstrip(".0123456789")
    return f"{format_bytes(card.memory_used).removesuffix(unit)}/{total}"


def _format_power(card: CardSample) -> str:
    if card.power is None:
        return ""
    if card.power_limit is None:
        return f"{card.power:.0f} W"
    return text("{power:.0f} of {limit:.0f} W", power=card.power, limit=card.power_limit)


def _power_cell(card: CardSample) -> str:
    if card.power is None:
        return ""
    return f"{card.power:.0f} W" if card.power_limit is None else f"{card.power:.0f}/{card.power_limit:.0f} W"


def _format_clock(card: CardSample) -> str:
    return "" if card.clock_sm is None else f"{card.clock_sm:.0f} MHz"


def _busy(card: CardSample) -> float | None:
    """Return the value that verdicts use: GPM's covers the whole interval, NVML's only the driver's last moment."""
    measured = card.saturation.graphics if card.saturation else None
    return card.utilisation if measured is None else measured


def _format_busy(card: CardSample) -> str:
    return format_percent(_busy(card))


BUSY = Measure(
    text("busy"),
    text("time in which anything ran: GPM's value, else nvidia-smi's GPU-Util"),
    _busy,
    _format_busy,
    _format_busy,
)
MEMORY = Measure(
    text("VRAM"),
    text("memory of the card that is in use"),
    lambda card: percentage(card.memory_used, card.memory_total),
    _format_memory,
    _memory_cell,
)
POWER = Measure(
    text("power"),
    text("power draw, relative to the power limit"),
    lambda card: percentage(card.power, card.power_limit),
    _format_power,
    _power_cell,
)
CLOCK = Measure(
    text("clock"),
    text("SM clock, relative to the maximum"),
    lambda card: percentage(card.clock_sm, card.clock_sm_max),
    _format_clock,
    _format_clock,
)

ACTIVITY = (
    _activity(text("SM"), text("multiprocessors (SMs) that were active"), "sm"),
    _activity(text("tensor"), text("time in which tensor cores were active"), "tensor"),
    _activity(text("DRAM"), text("memory bandwidth used"), "dram"),
)
DETAILS = (
    _activity(text("occup."), text("resident warps, relative to what fits"), "occupancy"),
    _activity("fp32", text("time in which 32-bit units were active, outside tensor cores"), "fp32"),
    _activity("fp16", text("time in which 16-bit units were active, outside tensor cores"), "fp16"),
    _activity("fp64", text("time in which 64-bit units were active, outside tensor cores"), "fp64"),
    _activity(text("int"), text("time in which integer units were active"), "integer"),
    CLOCK,
)
# Only for cards that measure their activity.
MEASURES_OF_GPM = (*ACTIVITY, *DETAILS[:-1])
# The lines of a card's panel, from the top.
MEASURES = (BUSY, *ACTIVITY, MEMORY, POWER)


def card_name(card: CardSample, *, short: bool = False) -> str:
    """Return "0 NVIDIA H200"; for a MIG instance "0 1g.18gb (MIG)"."""
    name = f"{card.index} {_short_name(card.name) if short or card.parent else card.name or text('card')}"
    return f"{name} (MIG)" if card.parent else name


def _short_name(name: str) -> str:
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ") or text("card")


def card_state(card: CardSample) -> str:
    """Return temperature, clock, fan, performance state and PCIe traffic, as far as known."""
    parts = [
        "" if card.temperature is None else f"{card.temperature:.0f} °C",
        _format_clock(card),
        "" if card.fan is None else text("fan {percent:.0f} %", percent=card.fan),
        "" if card.pstate is None else f"P{card.pstate}",
        _format_flow("PCIe", card.pcie_received, card.pcie_sent),
    ]
    return "  ".join(part for part in parts if part)


# --- the host ---------------------------------------------------------------------------------------------------------


def format_host_memory(host: HostSample) -> str:
    """Return "42 GiB of 128 GiB"."""
    if host.memory is None or host.memory_used is None:
        return ""
    return text("{used} of {total}", used=format_bytes(host.memory_used), total=format_bytes(host.memory))


def format_host_state(host: HostSample) -> str:
    """Return load, busiest core, I/O wait and swap, as far as known."""
    return facts(
        "" if host.load is None else text("load {load:.1f}", load=host.load),
        "" if host.busiest_core is None else text("busiest core {share}", share=format_percent(host.busiest_core)),
        "" if host.io_wait is None else text("waiting for disks {share}", share=format_percent(host.io_wait)),
        "" if not host.swap_used else text("swap {size}", size=format_bytes(host.swap_used)),
    )


def format_host_rates(host: HostSample) -> str:
    """Return the traffic of disks and network, as far as known."""
    return facts(
        _format_flow(text("disks"), host.disk_read, host.disk_written),
        _format_flow(text("network"), host.received, host.sent),
    )


def _format_flow(name: str, into: float | None, out: float | None) -> str:
    return "" if into is None or out is None else f"{name} ↓{format_bytes(into)}/s ↑{format_bytes(out)}/s"


# --- processes --------------------------------------------------------------------------------------------------------


class ProcessRow(NamedTuple):
    """One process, or a runtime with all its processes, over all cards."""

    pid: int
    cards: tuple[int, ...]  # numbers
    memory: int | None  # on these cards
    busy: float | None  # percent of the interval in which its kernels ran
    cpu: float | None
    ram: int | None
    owner: str
    command: str
    process: ProcessSample

    @property
    def cells(self) -> tuple[str, ...]:
        """Formatted values in the order of the table's columns."""
        return (
            str(self.pid),
            ",".join(map(str, self.cards)),
            "" if self.memory is None else format_bytes(self.memory),
            format_percent(self.busy),
            "" if self.cpu is None else f"{self.cpu:.0f} %",
            "" if self.ram is None else format_bytes(self.ram),
        )


def process_rows(sample: Sample) -> list[ProcessRow]:
    """Return all processes of a sample: the known ones, then those that only the driver reports."""
    known = {process.pid: process for process in sample.processes}
    by_pid: dict[int, list[tuple[int, CardProcess]]] = {}
    for card in sample.cards:
        for running in card.processes or ():
            by_pid.setdefault(running.pid, []).append((card.index, running))
            known.setdefault(running.pid, ProcessSample(running.pid, here=False))
    return [_process_row(process, by_pid.get(pid, [])) for pid, process in known.items()]


def _process_row(process: ProcessSample, on_cards: list[tuple[int, CardProcess]]) -> ProcessRow:
    memories = [running.memory for _, running in on_cards if running.memory is not None]
    shares = [running.sm for _, running in on_cards if running.sm is not None]
    return ProcessRow(
        process.pid,
        tuple(sorted({index for index, _ in on_cards})),
        sum(memories) if memories else None,
        max(shares) if shares else None,
        process.cpu,
        process.memory,
        _format_owner(process),
        process.command,
        process,
    )


def _format_owner(process: ProcessSample) -> str:
    """Return the notebook and its person if the lab started the process, else the user and the container."""
    owner = process.owner
    if owner is not None:
        name = PurePath(owner.notebook).name or text("runtime {id}", id=owner.runtime[:8])
        return f"{name} ({owner.person})" if owner.person else name
    user = process.user
    if process.container:
        user = text("{user} in {container}", user=process.user, container=process.container)
    if process.here:
        return user
    return text("{user}, in another PID namespace", user=user) if user else text("in another PID namespace")


# Name -> sort key, largest first; unknown values come last.
SORT_KEYS: dict[str, Callable[[ProcessRow], float | None]] = {
    "GPU memory": lambda row: row.memory,
    "GPU": lambda row: row.busy,
    "CPU": lambda row: row.cpu,
    "RAM": lambda row: row.ram,
    "PID": lambda row: -row.pid,
}


def sort_rows(rows: Sequence[ProcessRow], by: str = "GPU memory", *, reverse: bool = False) -> list[ProcessRow]:
    """Sort by one column; equal rows by PID."""
    key = SORT_KEYS[by]
    known = sorted((row for row in rows if key(row) is not None), key=lambda row: row.pid)
    unknown = sorted((row for row in rows if key(row) is None), key=lambda row: row.pid)
    known.sort(key=lambda row: key(row) or 0.0, reverse=not reverse)
    return known + unknown


def filter_rows(rows: Iterable[ProcessRow], query: str) -> list[ProcessRow]:
    """Return the rows that contain all words of the query, in any case."""
    words = query.lower().split()
    return [row for row in rows if all(word in _searchable(row) for word in words)]


def _searchable(row: ProcessRow) -> str:
    process = row.process
    owner = process.owner
    parts = [str(row.pid), row.owner, row.command, process.user, process.container]
    parts += [owner.notebook, owner.runtime] if owner else []
    return " ".join(parts).lower()
