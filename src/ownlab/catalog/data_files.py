"""Loads a data file once, validated into its record."""

from __future__ import annotations

from importlib.resources import files
from typing import TypeVar

import msgspec

__all__ = ["load"]

T = TypeVar("T")


_loaded: dict[str, object] = {}


def load(name: str, record: type[T]) -> T:
    """The table `data/<name>.json` as `record`. A file that does not fit its record is a bug, and raises."""
    table = _loaded.get(name)
    if table is None:
        file = files("ownlab.catalog") / "data" / f"{name}.json"
        table = _loaded[name] = msgspec.json.decode(file.read_bytes(), type=record)
    assert isinstance(table, record)
    return table
