"""Creates a store that several people share. An administrator does it once."""

from __future__ import annotations

import grp
import json
import os
import sqlite3
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ownlab.atomic_files import replace_file
from ownlab.config.limits import LIMITS
from ownlab.errors import StoreError, UsageError
from ownlab.lab.store import schema
from ownlab.lab.store.errors import REPAIR, store_errors
from ownlab.lab.store.layout import Layout, layout_of, make_private
from ownlab.text import listing, text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["init_shared", "repair"]


def init_shared(
    folder: str | Path, *, group: str | None = None, limits: Mapping[str, float | None] | None = None
) -> None:
    """Create a store for a group, or for everyone on the machine. Run again, it sets group and limits and keeps the data.

    The store is cooperative, as lock files are: all members can write the database, since each of them adds and removes
    their own rows. It prevents accidental double use of cards; it does not stop a malicious member from booking or
    freeing cards in the tables. No member can change the limits (policy.json belongs to the administrator), signal another
    user's processes, or remove another user's lock.
    """
    path = os.path.abspath(os.fspath(folder))
    number = _group(group)
    _check_limits(limits)
    layout = Layout(path, shared=True)
    with store_errors(path):
        _check_is_store(layout)
        reach = 0o770 if group is not None else 0o777
        _folder(path, 0o750 if group is not None else 0o755, number)
        _write_policy(layout.policy, group, limits)
        _folder(
            layout.tables, 0o2000 | reach, number
        )  # setgid: -wal and -shm get the group, no matter who creates them
        _folder(layout.locks, 0o3000 | reach, number)  # sticky: nobody removes another user's lock
        schema.create(layout.database, reach & 0o666, number)
        for end in ("", "-wal", "-shm"):
            _give(layout.database + end, reach & 0o666, number)


def repair(folder: str | Path) -> str:
    """Replace the database if it is damaged or lost. Return the path of the old one; "" if nothing was wrong.

    Runtimes that are running are not in the new one until they register again, some seconds later. Their locks keep
    their cards from being leased until then. The record of past usage stays in the old database.
    """
    layout = layout_of(os.path.abspath(os.fspath(folder)))
    with store_errors(layout.folder):
        aside = _set_aside_what_is_no_folder(layout)
        if not os.path.lexists(layout.tables) or not os.path.lexists(layout.locks):
            _create_again(layout)
            return aside
        if not os.path.lexists(layout.database) and not layout.shared:
            _create_again(layout)
            return aside
        try:
            schema.check(layout.database)
        except (StoreError, sqlite3.DatabaseError, OSError) as exc:
            if _is_temporary(exc):
                raise
        else:
            return aside
        status = os.stat(layout.tables)
        mode = stat.S_IMODE(status.st_mode) & 0o666 if layout.shared else 0o600
        return schema.replace(layout.database, mode)  # in a shared store it gets the group of its folder (setgid)


def _set_aside_what_is_no_folder(layout: Layout) -> str:
    """Rename what stands in the place of one of the store's folders. Return the last new name, or ""."""
    aside = ""
    for path in (layout.tables, layout.locks):
        if os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
            aside = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
            os.rename(path, aside)
    return aside


def _create_again(layout: Layout) -> None:
    if not layout.shared:
        make_private(layout.folder)
        return
    given = layout.read_policy()
    group = given.get("group")
    init_shared(layout.folder, group=group if isinstance(group, str) else None, limits=layout.limits())


def _is_temporary(error: Exception) -> bool:
    """Whether the database may be sound: it is locked, the disk is full, this user may not read it, or it is newer."""
    if isinstance(error, sqlite3.DatabaseError):
        return not any(word in str(error) for word in ("malformed", "not a database", "no such", "already exists"))
    if isinstance(error, StoreError):
        return error.hint != REPAIR
    return not isinstance(error, FileNotFoundError)


def _group(name: str | None) -> int:
    if name is None:
        return -1
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as exc:
        raise UsageError(
            text("There is no group {name!r} on this machine.", name=name),
            hint=text("Create it (groupadd {name}), or name another one.", name=name),
        ) from exc


def _check_limits(limits: Mapping[str, float | None] | None) -> None:
    for name, value in (limits or {}).items():
        if name not in LIMITS:
            raise UsageError(
                text("There is no limit {name!r}; the limits are {limits}.", name=name, limits=listing(LIMITS))
            )
        if value is not None and value < 0:
            raise UsageError(text("The limit {name} is {value} s: it must not be negative.", name=name, value=value))


def _check_is_store(layout: Layout) -> None:
    try:
        there = os.listdir(layout.folder)
    except FileNotFoundError:
        return
    if there and not os.path.exists(layout.policy):
        if os.path.exists(layout.database):
            message = text("{folder} is a private store.", folder=layout.folder)
        else:
            message = text("{folder} exists and is not a store.", folder=layout.folder)
        raise StoreError(message, hint=text("Name a folder that is new or empty."))


def _folder(path: str, mode: int, group: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    _give(path, mode, group)


def _give(path: str, mode: int, group: int) -> None:
    """Set permissions, independent of the umask.

    Members can put anything into db/, so a link there must not make an administrator open up another file. O_PATH:
    really opening and closing a database file would drop the locks that SQLite holds on it in this process.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # -wal and -shm exist only while the database is open
    try:
        status = os.fstat(descriptor)
        if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)):
            message = text("{path} is a link, or not a file: find out who created it, and remove it.", path=path)
            raise StoreError(message)
        handle = f"/proc/self/fd/{descriptor}"
        os.chown(handle, -1, group)  # before chmod: it clears the setgid bit
        os.chmod(handle, mode)
    finally:
        os.close(descriptor)


def _write_policy(path: str, group: str | None, limits: Mapping[str, float | None] | None) -> None:
    content = json.dumps({"group": group, "limits": None if limits is None else dict(limits)})
    replace_file(path, content, finish=lambda new: os.chmod(new, 0o644))
