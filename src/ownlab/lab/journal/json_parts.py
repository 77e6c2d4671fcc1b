"""The JSON of a record's parts, read as a browser reads it, whatever a notebook sent."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from ownlab.lab.journal.stream_text import replace_surrogates

__all__ = ["Header", "parse_header", "parse_object"]


class Header(msgspec.Struct):
    """As much of a header as is looked at in each message."""

    msg_id: str = ""
    msg_type: str = ""
    session: str = ""
    date: str | None = None


_HEADER = msgspec.json.Decoder(Header)


def parse_header(part: bytes) -> Header | None:
    """A header, or a parent's; none where it cannot be read."""
    try:
        return _HEADER.decode(part)
    except (ValueError, RecursionError):
        return None


def parse_object(part: bytes) -> dict[str, Any]:
    """An object; empty where it is none."""
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
    """Halves of surrogate pairs, bytes that are no UTF-8 and numbers beyond all bounds become what a file can hold."""
    text = part.decode("utf-8", "replace")
    value = json.loads(text, parse_constant=_refuse, parse_float=lambda number: _finite(float(number)))
    return json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
