"""Records as JSON. A Text is written as the string that it is; msgspec alone refuses subclasses of str."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ownlab.errors import OwnlabError
from ownlab.text import text, unpack_texts

__all__ = ["decode_guest_json", "decode_json", "encode_json", "error_to_builtins", "to_builtins", "to_typed_builtins"]

T = TypeVar("T")


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode a record. msgspec.DecodeError for everything that is wrong: also for bytes that are not UTF-8, and deep nesting."""
    try:
        return msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError as exc:
        raise msgspec.DecodeError(text("it is not UTF-8 text: byte {at}", at=exc.start)) from exc
    except RecursionError as exc:
        raise msgspec.DecodeError(text("its values are nested too deeply")) from exc


def decode_guest_json(content: bytes | str, kind: Any) -> Any:
    """Decode what a guest wrote as a record of this kind; its sentences become Texts (`ownlab_guest.text.pack_texts`).

    Raises msgspec.DecodeError.
    """
    content = content.encode() if isinstance(content, str) else content
    if b'"texts"' not in content:
        return msgspec.json.decode(content, type=kind)
    value = msgspec.json.decode(content)
    if isinstance(value, dict):
        packed_list = value.keys() == {"answer", "texts"}
        value = unpack_texts(value)
        value = value["answer"] if packed_list else value
    return msgspec.convert(value, kind, str_keys=True)


def encode_json(value: object) -> bytes:
    """Encode a record as compact JSON."""
    return _encoder.encode(value)


def to_builtins(value: object) -> Any:
    """Convert a record into dicts, lists and plain values."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def to_typed_builtins(value: object) -> Any:
    """Convert a record so that a kernel without ownlab can rebuild it with its types (ownlab_guest/kernel/host_records.py)."""
    if isinstance(value, msgspec.Struct):
        kind = type(value)
        properties = [name for name in dir(kind) if isinstance(getattr(kind, name, None), property)]
        return {
            "module": kind.__module__,
            "type": kind.__name__,
            "fields": {name: to_typed_builtins(getattr(value, name)) for name in kind.__struct_fields__},
            "properties": {name: to_typed_builtins(getattr(value, name)) for name in properties},
        }
    if isinstance(value, list | tuple):
        return [to_typed_builtins(item) for item in value]
    if isinstance(value, dict):
        return {"mapping": [[to_typed_builtins(key), to_typed_builtins(item)] for key, item in value.items()]}
    return str.__str__(value) if isinstance(value, str) else value


def error_to_builtins(error: OwnlabError) -> dict[str, Any]:
    """Convert an error for the same purpose: its class with its base classes, and its attributes."""
    types = [kind for kind in type(error).__mro__ if issubclass(kind, OwnlabError)]
    return {
        "types": [
            {
                "module": kind.__module__,
                "type": kind.__name__,
                "doc": kind.__doc__,
                "exit_code": kind.exit_code,
                "http_status": kind.http_status,
                "meaning": str(kind.meaning),
            }
            for kind in types
        ],
        "attributes": {name: to_typed_builtins(value) for name, value in vars(error).items()},
    }


def _plain(value: object) -> str:
    if isinstance(value, str):  # a Text of ours, or of the guest in the same process
        return str.__str__(value)
    raise NotImplementedError(f"cannot encode {type(value).__name__} as JSON")


_encoder = msgspec.json.Encoder(enc_hook=_plain)
