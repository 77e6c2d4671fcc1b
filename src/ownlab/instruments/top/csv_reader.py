"""Rows of a table, by nvidia-smi's names and ours, as samples."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator, Mapping

import msgspec

from ownlab.instruments.top.fields import THROTTLE, Field, field_named
from ownlab.instruments.top.records import Sample

__all__ = ["columns_of", "parse_row", "samples_of"]

_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)")
_UNIT = re.compile(r"\s*\[[^\]]*\]$")
_ABSENT = re.compile(
    r"\[?(N/A|Not Supported|Unknown Error|GPU requires reset|Insufficient Permissions)\]?$", re.IGNORECASE
)
_WHOLE = frozenset(
    (
        "index",
        "memory",
        "memory_total",
        "memory_used",
        "memory_free",
        "pcie_generation",
        "pcie_width",
        "cores",
        "swap_used",
    )
)
_STEP_SECONDS = 1.0  # where a table has no times


def columns_of(line: str) -> list[str]:
    """The fields of a header line; none where it is no header that we know."""
    names = [_UNIT.sub("", cell) for cell in parse_row(line)]
    known = [name for name in names if field_named(name) is not None]
    # A single "name" or "index" is an ordinary word.
    return names if len(known) > 1 or (known and "." in known[0]) else []


def parse_row(line: str) -> list[str]:
    """The cells of a line of CSV."""
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]


def samples_of(rows: Iterator[dict[str, object]]) -> Iterator[Sample]:
    """Rows that follow each other and speak of different cards are one sample."""
    gathered: dict[str, dict[str, object]] = {}
    before: float | None = None
    for row in rows:
        key = _key(row)
        if key in gathered:
            yield (sample := _sample(gathered, before))
            before = sample.at
            gathered = {}
        gathered[key] = row
    if gathered:
        yield _sample(gathered, before)


def _key(row: Mapping[str, object]) -> str:
    for name in ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id"):
        if row.get(name) not in (None, ""):
            return str(row[name])
    return ""


def _sample(gathered: Mapping[str, Mapping[str, object]], before: float | None) -> Sample:
    cards: list[dict[str, object]] = []
    parts = {key: _Parts(row) for key, row in gathered.items()}
    for key, each in parts.items():
        # Where nothing is said of a card, the table is of the host alone.
        if each.card.keys() - {"index", "uuid"} or each.saturation:
            worked = each.saturation or None
            cards.append({"uuid": key, "index": len(cards), "saturation": worked, **each.card})
    first = next(iter(parts.values()))
    at = first.at if first.at is not None else 0.0 if before is None else before + _STEP_SECONDS
    seconds = first.seconds
    if seconds is None and before is not None and at > before:
        seconds = at - before
    return msgspec.convert({"at": at, "seconds": seconds, "host": first.host, "cards": cards}, Sample)


class _Parts:
    """One row, by the records that its fields belong to."""

    def __init__(self, row: Mapping[str, object]) -> None:
        self.card: dict[str, object] = {}
        self.saturation: dict[str, object] = {}
        self.host: dict[str, object] = {}
        self.at: float | None = None
        self.seconds: float | None = None
        for name, given in row.items():
            field = field_named(name)
            if field is None or given is None or (isinstance(given, str) and (not given or _ABSENT.match(given))):
                continue
            self._take(field, given)

    def _take(self, field: Field, given: object) -> None:
        if field.place == "made":
            self._take_made(field, str(given))
            return
        value: object = str(given)
        if field.digits is not None:
            match = _NUMBER.match(str(given))
            if match is None:
                return
            number = float(match[1]) * field.factor
            value = round(number) if field.attribute in _WHOLE else number
        if field.place == "sample":
            setattr(self, field.attribute, value)
        else:
            getattr(self, field.place)[field.attribute] = value

    def _take_made(self, field: Field, text: str) -> None:
        how = field.attribute
        if how == "timestamp":
            self.at = self.at if self.at is not None else _moment(text)
        elif how == "pstate" and text[1:].isdigit():
            self.card["pstate"] = int(text[1:])
        elif how == "reasons" and text.startswith("0x"):
            bits = int(text, 16)
            self.card["throttle"] = tuple(name for name, (bit, _) in THROTTLE.items() if bits & bit)
        elif how in THROTTLE:
            known = self.card.get("throttle") or ()
            assert isinstance(known, tuple)
            self.card["throttle"] = (*known, how) if text == "Active" and how not in known else known


def _moment(text: str) -> float | None:
    whole, _, fraction = text.partition(".")
    try:
        at = time.mktime(time.strptime(whole, "%Y/%m/%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return at + (float(f"0.{fraction}") if fraction.isdigit() else 0.0)
