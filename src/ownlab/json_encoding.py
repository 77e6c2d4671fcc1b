"""Records as JSON. Sentences are written in English unless a language is asked for; msgspec alone refuses subclasses of str."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ownlab.errors import OwnlabError
from ownlab.text import Text, in_english, pack_texts, render, text, unpack_texts

__all__ = [
    "decode_guest_json",
    "decode_json",
    "encode_json",
    "encode_shown_json",
    "error_to_builtins",
    "keep_templates",
    "to_builtins",
    "to_typed_builtins",
]

T = TypeVar("T")

_keeps_templates = False


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


def encode_json(value: object, *, translate: Callable[[str], str] | None = None) -> bytes:
    """Encode a record as compact JSON, with its sentences in English, or as `translate` renders their templates."""
    if translate is None:
        return _encoder.encode(value)

    def rendered(found: object) -> str:
        return render(found, translate) if isinstance(found, Text) else _plain(found)

    return msgspec.json.encode(value, enc_hook=rendered)


def encode_shown_json(value: object) -> bytes:
    """Encode a record that a command prints, with its sentences in the language of the command."""
    return _encode_with_templates(value) if _keeps_templates else _shown_encoder.encode(value)


def keep_templates() -> None:
    """Let the documents that this process prints say how their sentences were made (`pack_texts`): for a server that started it."""
    global _keeps_templates
    _keeps_templates = True


def _encode_with_templates(value: object) -> bytes:
    found: list[Text] = []

    def collect(sentence: object) -> str:
        found.extend([sentence] if isinstance(sentence, Text) else [])
        return _plain(sentence)

    document = msgspec.json.decode(msgspec.json.encode(value, enc_hook=collect))
    texts = pack_texts({"found": found}).get("texts")
    return msgspec.json.encode({**document, "texts": texts} if texts else document)


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
        return in_english(value)
    raise NotImplementedError(f"cannot encode {type(value).__name__} as JSON")


def _shown(value: object) -> str:
    return str.__str__(value) if isinstance(value, Text) else _plain(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_shown_encoder = msgspec.json.Encoder(enc_hook=_shown)
