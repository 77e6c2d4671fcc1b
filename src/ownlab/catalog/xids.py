"""NVIDIA's Xid error numbers in the kernel log: what each means and what to do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from ownlab.catalog.data_files import load_json
from ownlab.text import Template

__all__ = ["Xid", "xid"]


class Xid(Struct, frozen=True):
    xid: int
    name: Template
    severity: Literal["error", "warning", "note"]
    meaning: Template
    do: Template
    action: str | None = None


class Xids(Struct, frozen=True):
    source: tuple[str, ...]
    as_of: str
    xids: tuple[Xid, ...]


def xid(number: int) -> Xid | None:
    """Return the table's entry for an Xid; None for a number that no source explains."""
    return next((row for row in load_json("xid", Xids).xids if row.xid == number), None)
