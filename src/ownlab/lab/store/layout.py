"""The files of a store, their permissions, and the administrator's policy.

FOLDER/policy.json      in a shared store: the limits; only the administrator can write it
FOLDER/db/ownlab.db     the tables, with -wal and -shm beside it
FOLDER/locks/ID.lock    one for each runtime, created by its owner and locked while it lives
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from ownlab.config.limits import LIMITS
from ownlab.errors import StoreError
from ownlab.lab.store import schema
from ownlab.text import text

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
        """Others must be able to test whether it is locked, and flock needs only read permission for that."""
        return 0o644 if self.shared else 0o600

    def lock(self, runtime: str) -> str:
        """The path of a runtime's lock file."""
        if (
            not runtime
            or runtime[0] in ".-"
            or not runtime.replace("-", "").replace("_", "").replace(".", "").isalnum()
        ):
            raise StoreError(
                text("{id!r} is not a valid runtime id: use letters, digits, '-', '_' and '.'.", id=runtime)
            )
        return os.path.join(self.folder, "locks", f"{runtime}.lock")

    def limits(self) -> dict[str, float | None] | None:
        """Return the limits in policy.json; None if there is no such file, or it sets none."""
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
            raise _bad_policy(self.policy, text("it has no table of limits"))
        for name, value in limits.items():
            if name not in LIMITS or not (value is None or (type(value) in (int, float) and value >= 0)):
                raise _bad_policy(self.policy, text("{name} = {value!r} is not a limit", name=name, value=value))
        return limits


def read_layout(folder: str) -> Layout | None:
    """Return the store in a folder; None if there is none yet."""
    layout = Layout(folder, os.path.lexists(os.path.join(folder, "policy.json")))
    try:
        os.stat(layout.database)
    except (FileNotFoundError, NotADirectoryError) as exc:
        if layout.shared:
            raise StoreError(
                text("The shared store {folder} has lost its database.", folder=folder),
                hint=text("Run `ownlab store init --shared` again."),
            ) from exc
        return None
    # Under /var/tmp anybody can create a folder with a known name before its owner does.
    if not layout.shared and os.geteuid() not in (0, os.stat(layout.tables).st_uid):
        raise _foreign(folder)
    return layout


def make_private(folder: str) -> Layout:
    """Create a store that only its creator can access."""
    layout = Layout(folder)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    _make_folder(folder)
    for path in (layout.tables, layout.locks):
        if not _make_folder(path) and os.geteuid() not in (0, os.stat(path).st_uid):
            raise _foreign(folder)
    schema.create(layout.database, 0o600)
    return layout


def _make_folder(path: str) -> bool:
    """Create a folder; return whether it did not exist."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    os.chmod(path, 0o700)  # the umask may have removed our own permissions
    return True


def _foreign(folder: str) -> StoreError:
    message = text("The store {folder} belongs to another user.", folder=folder)
    return StoreError(message, hint=text("Set OWNLAB_STORE to a folder of your own."))


def _bad_policy(path: str, why: str) -> StoreError:
    message = text("{path} cannot be used: {reason}.", path=path, reason=why)
    return StoreError(message, hint=text("Its owner can rewrite it: ownlab store init --shared."))
