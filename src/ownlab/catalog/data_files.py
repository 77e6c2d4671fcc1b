"""Read the tables in `data/`. Each is read once and validated against its record."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import TypeVar

import msgspec

from ownlab.text import read_template

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["load_json", "read_data", "tomllib"]

T = TypeVar("T")

_loaded: dict[str, object] = {}


def read_data(name: str) -> str:
    """Return the text of a file in `data/`."""
    return (files("ownlab.catalog") / "data" / name).read_text("utf-8")


def load_json(name: str, record: type[T]) -> T:
    """Return `data/<name>.json` as `record`. A file that does not match its record is a bug and raises."""
    table = _loaded.get(name)
    if table is None:
        table = _loaded[name] = msgspec.json.decode(read_data(f"{name}.json"), type=record, dec_hook=read_template)
    assert isinstance(table, record)
    return table
