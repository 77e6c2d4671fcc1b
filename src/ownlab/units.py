"""Parses and formats bytes, seconds, FLOP/s and prices.

Only this module converts units. A number carries its unit in its name; it becomes text when it is shown.
"""

from __future__ import annotations

import re

from ownlab.text import text

__all__ = [
    "CURRENCY_SIGNS",
    "GIB",
    "KIB",
    "MIB",
    "PARTS",
    "format_bytes",
    "format_flops",
    "format_price",
    "format_rate",
    "format_seconds",
    "parse_bytes",
]

KIB = 1024
MIB = 1024**2
GIB = 1024**3

# A card is leased in twelfths: halves, thirds, quarters and sixths are whole numbers of them.
PARTS = 12

CURRENCY_SIGNS = {"USD": "$", "CNY": "¥", "EUR": "€"}

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FACTORS: dict[str, int] = {unit.lower(): 1024**power for power, unit in enumerate(_BINARY)} | {
    unit.lower(): 1000**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB", "PB"))
}
_BYTES = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?i?b?)\s*$", re.IGNORECASE)


def format_bytes(count: float) -> str:
    """1536 -> "1.5 KiB". Powers of 1024, three significant figures at most."""
    size = float(count)
    for unit in _BINARY:
        if abs(size) < 1024 or unit == _BINARY[-1]:
            break
        size /= 1024
    if unit == "B" or size >= 100:
        return f"{size:.0f} {unit}"
    return f"{size:.1f}".removesuffix(".0") + f" {unit}"


def parse_bytes(given: str) -> int:
    """ "80 GiB" -> 85899345920. A bare letter (K, M, G) is a power of 1024, as in Docker and the kernel."""
    match = _BYTES.match(given)
    if match is None:
        raise ValueError(text("not a size: {given!r} (write 512MiB, 80GiB or 24GB)", given=given))
    number, unit = match.groups()
    unit = unit.lower()
    if unit in ("k", "m", "g", "t", "p"):
        unit += "ib"
    elif unit.endswith("i"):
        unit += "b"
    return round(float(number) * _FACTORS[unit or "b"])


def format_seconds(seconds: float) -> str:
    """0.00012 -> "120 µs"; 5400 -> "1 h 30 min"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        days, hours = divmod(hours, 24)
        return f"{days} d {hours} h" if hours else f"{days} d"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def format_flops(per_second: float) -> str:
    """7.9e14 -> "790 TFLOP/s"."""
    for power, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if per_second >= power:
            return f"{per_second / power:.3g} {unit}"
    return f"{per_second:.3g} FLOP/s"


def format_rate(value: float, unit: str) -> str:
    """4.3e12, "B/s" -> "4.3 TB/s"; rates of bytes in powers of 1000, as data sheets have them. "s" is a time."""
    if unit == "FLOP/s":
        return format_flops(value)
    if unit == "s":
        return format_seconds(value)
    if unit == "B/s":
        for power, name in ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
            if value >= power:
                return f"{value / power:.3g} {name}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def format_price(amount: float, currency: str = "USD") -> str:
    """0.526 -> "$0.53"; 1599 -> "$1,599"."""
    sign = CURRENCY_SIGNS.get(currency, f"{currency} ")
    return f"{sign}{amount:,.0f}" if amount >= 100 else f"{sign}{amount:.2f}"
