"""Samples from rows of named fields: CSV of nvidia-smi or of `--record`, or NDJSON with --fields."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator, Mapping

import msgspec

from ownlab.instruments.top.fields import THROTTLE, Field, find_field
from ownlab.instruments.top.records import Sample

__all__ = ["build_samples", "parse_header", "parse_row"]

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
_LONGEST_HEADER = 65536  # characters: that of every field of nvidia-smi has 6,000
_STEP_SECONDS = 1.0  # if the rows have no times


def parse_header(line: str) -> list[str]:
    """Return the field names of a header line; none if the line is not a known header."""
    if len(line) > _LONGEST_HEADER:
        return []
    names = [_UNIT.sub("", cell) for cell in parse_row(line)]
    known = [name for name in names if find_field(name) is not None]
    # A single "name" or "index" may be any word.
    return names if len(known) > 1 or (known and "." in known[0]) else []


def parse_row(line: str) -> list[str]:
    """Return the cells of a CSV line; one cell if it is something else."""
    try:
        cells = next(csv.reader([line], skipinitialspace=True), [])
    except csv.Error:  # a cell with more than 100 kB, for example
        return [line]
    return [cell.strip() for cell in cells]


def build_samples(rows: Iterator[dict[str, object]]) -> Iterator[Sample]:
    """Yield samples. Consecutive rows of different cards form one sample."""
    by_card: dict[str, dict[str, object]] = {}
    before: float | None = None
    for row in rows:
        key = _key(row)
        if key in by_card:
            yield (sample := _sample(by_card, before))
            before = sample.at
            by_card = {}
        by_card[key] = row
    if by_card:
        yield _sample(by_card, before)


def _key(row: Mapping[str, object]) -> str:
    for name in ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id"):
        if row.get(name) not in (None, ""):
            return str(row[name])
    return ""


def _sample(by_card: Mapping[str, Mapping[str, object]], before: float | None) -> Sample:
    cards: list[dict[str, object]] = []
    rows = {key: _Row(row) for key, row in by_card.items()}
    for key, row in rows.items():
        # Without any field of a card, the table describes only the host.
        if row.card.keys() - {"index", "uuid"} or row.saturation:
            cards.append({"uuid": key, "index": len(cards), "saturation": row.saturation or None, **row.card})
    first = next(iter(rows.values()))
    at = first.at if first.at is not None else 0.0 if before is None else before + _STEP_SECONDS
    seconds = first.seconds
    if seconds is None and before is not None and at > before:
        seconds = at - before
    return msgspec.convert({"at": at, "seconds": seconds, "host": first.host, "cards": cards}, Sample)


class _Row:
    """One row, split by the records that its fields belong to."""

    def __init__(self, row: Mapping[str, object]) -> None:
        self.card: dict[str, object] = {}
        self.saturation: dict[str, object] = {}
        self.host: dict[str, object] = {}
        self.at: float | None = None
        self.seconds: float | None = None
        for name, value in row.items():
            field = find_field(name)
            if field is None or value is None or (isinstance(value, str) and (not value or _ABSENT.match(value))):
                continue
            self._add(field, value)

    def _add(self, field: Field, cell: object) -> None:
        if field.origin == "computed":
            self._add_computed(field, str(cell))
            return
        value: object = str(cell)
        if field.digits is not None:
            match = _NUMBER.match(str(cell))
            if match is None:
                return
            number = float(match[1]) * field.factor
            value = round(number) if field.attribute in _WHOLE else number
        if field.origin == "sample":
            setattr(self, field.attribute, value)
        else:
            getattr(self, field.origin)[field.attribute] = value

    def _add_computed(self, field: Field, cell: str) -> None:
        name = field.attribute
        if name == "timestamp":
            self.at = self.at if self.at is not None else _parse_time(cell)
        elif name == "pstate" and cell[1:].isdigit():
            self.card["pstate"] = int(cell[1:])
        elif name == "reasons" and cell.startswith("0x"):
            bits = int(cell, 16)
            self.card["throttle"] = tuple(reason for reason, (bit, _) in THROTTLE.items() if bits & bit)
        elif name in THROTTLE:
            known = self.card.get("throttle") or ()
            assert isinstance(known, tuple)
            self.card["throttle"] = (*known, name) if cell == "Active" and name not in known else known


def _parse_time(cell: str) -> float | None:
    whole, _, fraction = cell.partition(".")
    try:
        at = time.mktime(time.strptime(whole, "%Y/%m/%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None
    return at + (float(f"0.{fraction}") if fraction.isdigit() else 0.0)
