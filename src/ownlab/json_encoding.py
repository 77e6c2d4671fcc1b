"""Records as JSON. `ownlab.text.Text` is written as the string that it is; msgspec alone refuses subclasses of str."""

from __future__ import annotations

from typing import Any

import msgspec

from ownlab.text import Text

__all__ = ["encode_json", "to_builtins"]


def encode_json(value: object) -> bytes:
    """Encode a record as compact JSON."""
    return _encoder.encode(value)


def to_builtins(value: object) -> Any:
    """Convert a record into dicts, lists and plain values."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: object) -> str:
    if isinstance(value, Text):
        return str(value)
    raise NotImplementedError(f"cannot encode {type(value).__name__} as JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
