"""Environments and runtime types as lists: what `ownlab env --json` and `ownlab types --json` print."""

from __future__ import annotations

from msgspec import Struct

from ownlab.lab.runtimes.records import RuntimeType

__all__ = ["ListedType", "RemovedTypes", "TypeList"]


class ListedType(Struct, frozen=True):
    """A type that this machine can start."""

    type: RuntimeType
    written: bool  # whether its kernelspec is on disk as it should be, so that Jupyter offers it


class TypeList(Struct, frozen=True):
    """`ownlab types --json`."""

    folder: str
    types: tuple[ListedType, ...]
    gone: tuple[str, ...] = ()  # written, and of a card or an environment that is no longer there
    export: str = ""  # for a shell, where Jupyter finds the folder no other way


class RemovedTypes(Struct, frozen=True):
    """`ownlab types remove --json`."""

    folder: str
    removed: int
