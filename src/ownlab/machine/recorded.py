"""Machines as files: saved, and loaded to stand in for the real one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec

from ownlab.errors import InputError, RecordError
from ownlab.machine.records import Machine

__all__ = ["FORMAT", "decode_machine", "load_machine", "save_machine"]

FORMAT = 1


def save_machine(machine: Machine, path: str | Path) -> None:
    """Write a machine, whole or not at all: the file that was there stays until the new one is complete."""
    target = Path(path)
    text = msgspec.json.format(msgspec.json.encode(machine), indent=1) + b"\n"
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as exc:
        raise InputError(f"{target} cannot be written: {exc.strerror}") from exc
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        Path(temporary).replace(target)
    except OSError as exc:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise InputError(f"{target} cannot be written: {exc.strerror}") from exc


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
    except msgspec.DecodeError as exc:
        raise RecordError(
            f"{name} is not a saved machine: {exc}", hint="Save one with: ownlab machine --save FILE"
        ) from exc


class _Versioned(msgspec.Struct):
    format: int
