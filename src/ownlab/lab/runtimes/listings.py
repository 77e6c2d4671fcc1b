"""Environments and runtime types as lists: what `ownlab env --json` and `ownlab types --json` print."""

from __future__ import annotations

import os

from msgspec import Struct

from ownlab.lab.runtimes.records import RuntimeType

__all__ = ["Environment", "EnvironmentList", "ListedType", "RemovedTypes", "TypeList"]


class Environment(Struct, frozen=True):
    """An interpreter that has ipykernel, under a name."""

    name: str
    python: str
    version: str = ""  # of Python, when it was added
    ipykernel: str = ""

    @property
    def is_there(self) -> bool:
        """Whether its interpreter can still be started."""
        return os.access(self.python, os.X_OK)


class EnvironmentList(Struct, frozen=True):
    """What environments.json holds, and what `ownlab env --json` prints."""

    environments: tuple[Environment, ...] = ()


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
