"""Saves a machine to a file, and loads one in place of the real machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ownlab.atomic_files import write_file
from ownlab.errors import RecordError
from ownlab.input_files import read_bytes
from ownlab.json_encoding import decode_json, encode_json, to_builtins
from ownlab.machine.facts import NOT_READ
from ownlab.machine.records import Interpreter, Machine
from ownlab.text import is_translated, text, text_of_table

__all__ = ["FORMAT", "decode_machine", "encodable", "load_machine", "save_machine"]

FORMAT = 1
# Fields that hold sentences of ours.
_SENTENCES = ("source", "reason", "purpose", "meaning")


def save_machine(machine: Machine, path: str | Path) -> None:
    """Write a machine to a file atomically."""
    write_file(path, msgspec.json.format(encode_json(machine), indent=1) + b"\n")


def encodable(machine: Machine) -> Machine:
    """Return the machine with "?" for each byte that is not UTF-8.

    File names and the values of variables may contain such bytes. Python keeps them as lone surrogates, which JSON
    cannot represent.
    """
    try:
        encode_json(machine)
    except UnicodeEncodeError:
        return msgspec.convert(_without_surrogates(to_builtins(machine)), Machine)
    return machine


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {name: _without_surrogates(inner) for name, inner in value.items()}
    return [_without_surrogates(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def load_machine(path: str | Path) -> Machine:
    """Load a saved machine."""
    return decode_machine(read_bytes(path, hint=text("Save one with: ownlab machine --save FILE")), str(path))


def decode_machine(data: bytes | str, name: str) -> Machine:
    """Decode a machine from JSON. Raises RecordError if it is malformed or too new."""
    try:
        version = decode_json(data, _Versioned).format
        if version > FORMAT:
            raise RecordError(
                text(
                    "{name} has format {version}; this version of ownlab reads formats up to {newest}.",
                    name=name,
                    version=version,
                    newest=FORMAT,
                ),
                hint=text("Update ownlab, then try again."),
            )
        machine = decode_json(data, Machine)
    except msgspec.DecodeError as exc:
        raise RecordError(
            text("{name} is not a saved machine: {error}.", name=name, error=exc),
            hint=text("Save one with: ownlab machine --save FILE"),
        ) from exc
    return _with_texts(machine) if is_translated() else machine


def _with_texts(record: Any) -> Any:
    """Make Texts again of the sentences of a saved machine, which are English. Those with values in them stay as they are."""
    if isinstance(record, tuple):
        return tuple(map(_with_texts, record))
    if not isinstance(record, msgspec.Struct) or record == NOT_READ:
        return record
    changes = {
        name: text_of_table(value) if _is_sentence(record, name, value) else _with_texts(value)
        for name in record.__struct_fields__
        if (value := getattr(record, name)) is not None
    }
    return msgspec.structs.replace(record, **changes)


def _is_sentence(record: msgspec.Struct, name: str, value: object) -> bool:
    return isinstance(value, str) and (name in _SENTENCES or (name == "origin" and isinstance(record, Interpreter)))


class _Versioned(msgspec.Struct):
    format: int
