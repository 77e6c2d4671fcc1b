"""Machines as files: saved, and loaded to stand in for the real one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ownlab.errors import InputError, RecordError
from ownlab.machine.records import Machine

__all__ = ["FORMAT", "decode_machine", "encodable", "load_machine", "save_machine", "write_whole"]

FORMAT = 1


def save_machine(machine: Machine, path: str | Path) -> None:
    """Write a machine, whole or not at all."""
    write_whole(msgspec.json.format(msgspec.json.encode(machine), indent=1) + b"\n", path)


def write_whole(text: bytes, path: str | Path) -> None:
    """Write a file, whole or not at all: the one that was there stays until the new one is complete.

    What is no regular file (/dev/stdout, a named pipe) is written to as it is.
    """
    try:
        mode = _mode_of(path)
        if mode is not None and not stat.S_ISREG(mode):
            with open(path, "wb") as file:
                file.write(text)
        else:
            _replace(os.path.realpath(path), text, mode)
    except OSError as exc:
        raise InputError(f"{path} cannot be written: {exc.strerror}") from exc


def _mode_of(path: str | Path) -> int | None:
    """Of what the path leads to through links; None where that is nothing yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _replace(target: str, text: bytes, mode: int | None) -> None:
    """A new file is its owner's alone (mkstemp), since it describes a person's computer; an old one keeps its mode."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def encodable(machine: Machine) -> Machine:
    """The machine with "?" for each byte that is no UTF-8.

    Names of files and values of variables may hold such bytes; Python keeps them as lone surrogates, which cannot be
    written as JSON. Here, once, for whatever way they came in.
    """
    try:
        msgspec.json.encode(machine)
    except UnicodeEncodeError:
        return msgspec.convert(_replaced(msgspec.to_builtins(machine)), Machine)
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
