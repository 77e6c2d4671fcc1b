"""A line of the user's code, as all evidence names it."""

from __future__ import annotations

from msgspec import Struct

__all__ = ["Place"]


class Place(Struct, frozen=True):
    """A line of the user's code."""

    file: str
    line: int
    function: str
