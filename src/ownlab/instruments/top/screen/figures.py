"""A card's and a host's figures: which there are, what they are called, how they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ownlab.instruments.top.records import CardSample, HostSample, Saturation
from ownlab.units import format_bytes

__all__ = [
    "BUSY",
    "DETAILS",
    "MEASURED",
    "MEASURES",
    "SATURATION",
    "Measure",
    "card_name",
    "card_state",
    "host_words",
    "memory_words",
    "of_total",
    "percent",
    "rate",
    "short_name",
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
