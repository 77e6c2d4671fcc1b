"""Parses the JSON in a record's parts as leniently as a browser."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from ownlab.lab.journal.stream_text import replace_surrogates

__all__ = ["Header", "parse_header", "parse_object"]


class Header(msgspec.Struct):
    """The fields of a header that are needed for every message."""

    msg_id: str = ""
    msg_type: str = ""
    session: str = ""
    date: str | None = None


_HEADER = msgspec.json.Decoder(Header)


def parse_header(part: bytes) -> Header | None:
    """Parse a header or parent header; None if it is invalid."""
    try:
        return _HEADER.decode(part)
    except (ValueError, RecursionError):
        return None


def parse_object(part: bytes) -> dict[str, Any]:
    """Parse an object; empty if it is invalid."""
    try:
        value = msgspec.json.decode(part)
    except RecursionError:
        return {}
    except ValueError:
        try:
            value = _leniently(part)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _leniently(part: bytes) -> Any:
    """Replace lone surrogates, invalid UTF-8 and infinite numbers by what a file can hold."""
    text = part.decode("utf-8", "replace")
    value = json.loads(text, parse_constant=_refuse, parse_float=lambda number: _finite(float(number)))
    return json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
