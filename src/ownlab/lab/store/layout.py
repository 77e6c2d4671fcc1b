"""The files of a store, their permissions, and the administrator's policy.

FOLDER/policy.json      in a shared store: the limits; only the administrator can write it
FOLDER/db/ownlab.db     the tables, with -wal and -shm beside it
FOLDER/locks/ID.lock    one for each runtime, created by its owner and locked while it lives; it names the runtime's cards
"""

from __future__ import annotations

import json
import os
import stat
from typing import Any, NamedTuple

from ownlab.config.limits import LIMITS
from ownlab.errors import StoreError
from ownlab.lab.store import locks, schema
from ownlab.lab.store.columns import is_valid_id
from ownlab.lab.store.errors import REPAIR, store_errors
from ownlab.text import text

__all__ = ["Layout", "hold_lock", "layout_of", "lock_path", "make_private", "read_layout"]

_LARGEST_POLICY = 1 << 20


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
        if not is_valid_id(runtime):
            raise StoreError(
                text("{id!r} is not a valid runtime id: use letters, digits, '-', '_' and '.'.", id=runtime)
            )
        return os.path.join(self.folder, "locks", f"{runtime}.lock")

    def limits(self) -> dict[str, float | None] | None:
        """Return the limits in policy.json; None if there is no such file, or it sets none."""
        limits = self.read_policy().get("limits")
        if limits is None:
            return None
        if not isinstance(limits, dict):
            raise _bad_policy(self.policy, text("it has no table of limits"))
        for name, value in limits.items():
            if name not in LIMITS or not (value is None or (type(value) in (int, float) and value >= 0)):
                raise _bad_policy(self.policy, text("{name} = {value!r} is not a limit", name=name, value=value))
        return limits

    def read_policy(self) -> dict[str, Any]:
        """Return the content of policy.json; nothing if there is no such file."""
        try:
            given: Any = json.loads(_read_policy(self.policy))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as exc:
            raise _bad_policy(self.policy, str(exc)) from exc
        if not isinstance(given, dict):
            raise _bad_policy(self.policy, text("it has no table of limits"))
        return given


def read_layout(folder: str) -> Layout | None:
    """Return the store in a folder; None if there is none yet."""
    layout = layout_of(folder)
    try:
        os.lstat(layout.database)
    except (FileNotFoundError, NotADirectoryError) as exc:
        if layout.shared:
            raise StoreError(
                text("The shared store {folder} has lost its database.", folder=folder), hint=REPAIR
            ) from exc
        return None
    # Under /var/tmp anybody can create a folder with a known name before its owner does.
    if not layout.shared and os.geteuid() not in (0, os.stat(layout.tables).st_uid):
        raise _foreign(folder)
    return layout


def layout_of(folder: str) -> Layout:
    """Return the paths of a store, whatever state it is in."""
    return Layout(folder, os.path.lexists(os.path.join(folder, "policy.json")))


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


def lock_path(folder: str, runtime: str) -> str:
    """Return the path of a runtime's lock file, whatever state the store is in."""
    return layout_of(os.path.abspath(folder)).lock(runtime)


def hold_lock(folder: str, runtime: str, *, create: bool = True) -> int:
    """Lock a runtime without opening the database: a runtime without cards can live even if that is damaged.

    A missing folder of locks of a private store is created; with `create` also the store's own. The descriptor is inheritable.
    """
    folder = os.path.abspath(folder)
    with store_errors(folder):
        layout = layout_of(folder)
        if not layout.shared:
            if create:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            if not _make_folder(layout.locks) and os.geteuid() not in (0, os.stat(layout.locks).st_uid):
                raise _foreign(folder)
        return locks.hold(layout.lock(runtime), layout.lock_mode)


def _make_folder(path: str) -> bool:
    """Create a folder; return whether it did not exist."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    os.chmod(path, 0o700)  # the umask may have removed our own permissions
    return True


def _read_policy(path: str) -> bytes:
    """Read a file of moderate size. Opening a pipe would wait for its writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(text("it is not a file"))
        content = os.read(descriptor, _LARGEST_POLICY + 1)
    finally:
        os.close(descriptor)
    if len(content) > _LARGEST_POLICY:
        raise ValueError(text("it is larger than {size} bytes", size=_LARGEST_POLICY))
    return content


def _foreign(folder: str) -> StoreError:
    message = text("The store {folder} belongs to another user.", folder=folder)
    return StoreError(message, hint=text("Set OWNLAB_STORE to a folder of your own."))


def _bad_policy(path: str, why: str) -> StoreError:
    message = text("{path} cannot be used: {reason}.", path=path, reason=why)
    return StoreError(message, hint=text("Its owner can rewrite it: ownlab store init --shared."))
