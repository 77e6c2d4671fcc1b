"""Machines as files: saved, and loaded to stand in for the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ownlab.errors import InputError, RecordError
from ownlab.files import write_file
from ownlab.json_encoding import encode_json, to_builtins
from ownlab.machine.records import Machine

__all__ = ["FORMAT", "decode_machine", "encodable", "load_machine", "save_machine"]

FORMAT = 1


def save_machine(machine: Machine, path: str | Path) -> None:
    """Write a machine, whole or not at all."""
    write_file(path, msgspec.json.format(encode_json(machine), indent=1) + b"\n")


def encodable(machine: Machine) -> Machine:
    """The machine with "?" for each byte that is no UTF-8.

    Names of files and values of variables may hold such bytes; Python keeps them as lone surrogates, which cannot be
    written as JSON. Here, once, for whatever way they came in.
    """
    try:
        encode_json(machine)
    except UnicodeEncodeError:
        return msgspec.convert(_replaced(to_builtins(machine)), Machine)
    return machine


def _replaced(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {name: _replaced(inner) for name, inner in value.items()}
    return [_replaced(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def load_machine(path: str | Path) -> Machine:
    """Read a machine that was saved."""
    try:
        data = Path(path).read_bytes()
    except OSError as exc:
        raise InputError(
            f"the saved machine {path} cannot be read: {exc.strerror}", hint="Save one with: ownlab machine --save FILE"
        ) from exc
    return decode_machine(data, str(path))


def decode_machine(data: bytes | str, name: str) -> Machine:
    """A machine from its JSON; RecordError says what does not fit."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).format
        if version > FORMAT:
            raise RecordError(
                f"{name} has format {version}; this ownlab reads up to {FORMAT}", hint="Update ownlab, then try again."
            )
        return msgspec.json.decode(data, type=Machine)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise RecordError(
            f"{name} is not a saved machine: {exc}", hint="Save one with: ownlab machine --save FILE"
        ) from exc


class _Versioned(msgspec.Struct):
    format: int
