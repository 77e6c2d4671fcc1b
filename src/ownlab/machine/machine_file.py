"""Saves a machine to a file, and loads one in place of the real machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ownlab.atomic_files import write_file
from ownlab.errors import RecordError
from ownlab.input_files import read_bytes
from ownlab.json_encoding import decode_json, encode_json, to_builtins
from ownlab.machine.records import Machine
from ownlab.text import text

__all__ = ["FORMAT", "decode_machine", "encodable", "load_machine", "save_machine"]

FORMAT = 1


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
        return decode_json(data, Machine)
    except msgspec.DecodeError as exc:
        raise RecordError(
            text("{name} is not a saved machine: {error}.", name=name, error=exc),
            hint=text("Save one with: ownlab machine --save FILE"),
        ) from exc


class _Versioned(msgspec.Struct):
    format: int
