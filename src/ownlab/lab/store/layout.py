"""Where a store's files are, what rights they have, and what its administrator has laid down.

FOLDER/policy.json      in a shared store: the limits; the administrator alone can write it
FOLDER/db/ownlab.db     the tables; with -wal and -shm beside it
FOLDER/locks/ID.lock    one for each runtime, made by its owner, held as long as it lives
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from ownlab.config.limits import LIMITS
from ownlab.errors import StoreError
from ownlab.lab.store import schema

__all__ = ["Layout", "make_private", "read_layout"]


class Layout(NamedTuple):
    """The paths of one store."""

    folder: str
    shared: bool = False

    @property
    def policy(self) -> str:
        return os.path.join(self.folder, "policy.json")

    @property
    def tables(self) -> str:
        return os.path.join(self.folder, "db")

    @property
    def database(self) -> str:
        return os.path.join(self.folder, "db", "ownlab.db")

    @property
    def locks(self) -> str:
        return os.path.join(self.folder, "locks")

    @property
    def lock_mode(self) -> int:
        """Others must be able to ask whether it is held: flock needs no more than the right to read."""
        return 0o644 if self.shared else 0o600

    def lock(self, runtime: str) -> str:
        """The path of a runtime's lock file."""
        if (
            not runtime
            or runtime[0] in ".-"
            or not runtime.replace("-", "").replace("_", "").replace(".", "").isalnum()
        ):
            raise StoreError(f"{runtime!r} cannot be a runtime's id: letters, digits, '-', '_' and '.' make one.")
        return os.path.join(self.folder, "locks", f"{runtime}.lock")

    def limits(self) -> dict[str, float | None] | None:
        """What policy.json says; None where there is no such file, or it lays down nothing."""
        try:
            with open(self.policy, encoding="utf-8") as file:
                given: Any = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError as exc:
            raise _bad_policy(self.policy, str(exc)) from exc
        limits = given.get("limits") if isinstance(given, dict) else given
        if limits is None and isinstance(given, dict):
            return None
        if not isinstance(limits, dict):
            raise _bad_policy(self.policy, "it has no table of limits")
        for name, value in limits.items():
            if name not in LIMITS or not (value is None or (type(value) in (int, float) and value >= 0)):
                raise _bad_policy(self.policy, f"{name} = {value!r} is no limit")
        return limits


def read_layout(folder: str) -> Layout | None:
    """The store in a folder; None where there is none yet."""
    layout = Layout(folder, os.path.lexists(os.path.join(folder, "policy.json")))
    try:
        os.stat(layout.database)
    except (FileNotFoundError, NotADirectoryError) as exc:
        if layout.shared:
            raise StoreError(
                f"The shared store {folder} has lost its database.", hint="Run `ownlab store init --shared` again."
            ) from exc
        return None
    # A folder with a known name under /var/tmp can be made by anybody before its owner comes.
    if not layout.shared and os.geteuid() not in (0, os.stat(layout.tables).st_uid):
        raise _of_another(folder)
    return layout


def make_private(folder: str) -> Layout:
    """A store for the one who makes it; nobody else can look into it."""
    layout = Layout(folder)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    _make_folder(folder)
    for path in (layout.tables, layout.locks):
        if not _make_folder(path) and os.geteuid() not in (0, os.stat(path).st_uid):
            raise _of_another(folder)
    schema.create(layout.database, 0o600)
    return layout


def _make_folder(path: str) -> bool:
    """Whether it was not there."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    os.chmod(path, 0o700)  # a umask takes rights away, also from us
    return True


def _of_another(folder: str) -> StoreError:
    return StoreError(f"The store {folder} belongs to another user.", hint="Set OWNLAB_STORE to a folder of your own.")


def _bad_policy(path: str, why: str) -> StoreError:
    return StoreError(f"{path} cannot be used: {why}.", hint="Its owner writes it anew: ownlab store init --shared.")
