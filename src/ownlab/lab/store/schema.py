"""The database: its tables, migrations of older versions, and connections to it."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ownlab.errors import StoreError
from ownlab.file_lock import wait_for_lock
from ownlab.lab.store.errors import REPAIR
from ownlab.text import text

__all__ = ["ENDINGS", "VERSION", "check", "connect", "create", "replace"]

# The files of a database: SQLite creates the second and the third beside it.
ENDINGS = ("", "-wal", "-shm")

_KINDS = {
    stat.S_IFIFO: text("a pipe"),
    stat.S_IFDIR: text("a folder"),
    stat.S_IFSOCK: text("a socket"),
}

# One script for each version; PRAGMA user_version is the number of scripts that a database has had.
_SCRIPTS = (
    """
    CREATE TABLE runtimes (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the queue: clocks jump, this does not
        id TEXT NOT NULL UNIQUE,
        uid INTEGER NOT NULL,
        person TEXT NOT NULL,
        lab TEXT,
        notebook TEXT NOT NULL,
        type TEXT NOT NULL,
        label TEXT NOT NULL,
        want_kind TEXT,
        want_cards INTEGER NOT NULL,
        want_parts INTEGER NOT NULL CHECK (want_parts BETWEEN 1 AND 12),
        state TEXT NOT NULL CHECK (state IN ('waiting', 'starting', 'running', 'ending')),
        queued_at REAL NOT NULL,
        started_at REAL,
        boot TEXT NOT NULL,
        keeper_pid INTEGER NOT NULL,
        keeper_started INTEGER NOT NULL,
        supervisor_pid INTEGER NOT NULL,
        supervisor_started INTEGER NOT NULL,
        kernel_pid INTEGER,
        kernel_started INTEGER,
        busy INTEGER NOT NULL,
        changed_at REAL NOT NULL,
        ends_at REAL,
        ends_why TEXT NOT NULL,
        may_extend INTEGER NOT NULL,
        units_per_hour REAL NOT NULL
    );
    CREATE TABLE leases (
        runtime TEXT NOT NULL REFERENCES runtimes (id) ON DELETE CASCADE,
        device TEXT NOT NULL,
        parts INTEGER NOT NULL CHECK (parts BETWEEN 1 AND 12),
        since REAL NOT NULL,  -- for people: no decision hangs on it
        PRIMARY KEY (runtime, device)
    );
    CREATE INDEX leases_by_device ON leases (device);
    CREATE TRIGGER no_double_booking BEFORE INSERT ON leases
    WHEN (SELECT coalesce(sum(parts), 0) FROM leases WHERE device = NEW.device) + NEW.parts > 12
    BEGIN SELECT RAISE(ABORT, 'the device is already leased'); END;
    CREATE TRIGGER leases_do_not_change BEFORE UPDATE ON leases
    BEGIN SELECT RAISE(ABORT, 'a lease is taken and given back, never changed'); END;
    CREATE TABLE usage (
        day TEXT NOT NULL,
        uid INTEGER NOT NULL,
        person TEXT NOT NULL,
        runtime TEXT NOT NULL,
        notebook TEXT NOT NULL,
        label TEXT NOT NULL,
        kind TEXT,
        seconds REAL NOT NULL,
        card_seconds REAL NOT NULL,
        units REAL NOT NULL,
        PRIMARY KEY (day, runtime)
    );
    """,
)

VERSION = len(_SCRIPTS)

_BUSY_SECONDS = 10.0


def connect(path: str) -> sqlite3.Connection:
    """Connect to an existing database and migrate it if necessary. Callers translate errors with `store_errors`."""
    os.lstat(path)  # sqlite3 would create an empty one, with permissions of its own
    for end in ENDINGS:
        _check_is_file(path + end)
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _check_no_link(connection, path)
        # Each supervisor has a connection: a small cache. NORMAL: in WAL mode a power cut loses only the last moments.
        connection.text_factory = _decode  # never fails, unlike `str`
        for pragma in ("synchronous = NORMAL", "foreign_keys = ON", "cache_size = -256"):
            connection.execute(f"PRAGMA {pragma}")
        _update(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def check(path: str) -> None:
    """Raise StoreError or sqlite3.Error if the database is damaged. It reads all of it."""
    connection = connect(path)
    try:
        found = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        if found != "ok":
            raise sqlite3.DatabaseError(f"malformed: {found}")
        expected = sqlite3.connect(":memory:", isolation_level=None)
        try:
            _migrate(expected)
            if not set(_objects(expected)) <= set(_objects(connection)):
                raise sqlite3.DatabaseError("malformed: its tables are not those of a store")
        finally:
            expected.close()
    finally:
        connection.close()


def _objects(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """The tables, indexes and triggers, with the statements that created them."""
    return connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()


def create(path: str, mode: int, group: int = -1) -> None:
    """Create the database unless it exists. It appears complete: nobody ever opens a partial one."""
    with _folder_lock(path):
        if not os.path.lexists(path):
            _create(path, mode, group)


def replace(path: str, mode: int, group: int = -1) -> str:
    """Rename a damaged database, or whatever stands in its place, and create a new one. Return the new name of the old one."""
    with _folder_lock(path):
        aside = _set_aside(path)
        _create(path, mode, group)
    return aside


@contextmanager
def _folder_lock(path: str) -> Iterator[None]:
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(folder, path)
        yield
    finally:
        os.close(folder)


def _set_aside(path: str) -> str:
    aside = f"{path}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    for end in ENDINGS:
        with suppress(FileNotFoundError):
            os.rename(path + end, aside + end)
    return aside


def _create(path: str, mode: int, group: int) -> None:
    # A write-ahead log without its database would be applied to the new one.
    if any(os.path.lexists(path + end) for end in ENDINGS):
        _set_aside(path)
    # Only SQLite opens the final file: closing it here would drop the POSIX locks of this process's
    # other connections to it (sqlite.org/howtocorrupt.html, 2.2).
    new = f"{path}.new"
    for end in ENDINGS:
        if os.path.lexists(new + end):  # its creator was killed: we hold the lock, so nobody is creating it now
            os.unlink(new + end)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if group != -1:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, mode)  # independent of the umask; SQLite gives -wal and -shm the same permissions
    finally:
        os.close(descriptor)
    connection = sqlite3.connect(new, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        _migrate(connection)
    finally:
        connection.close()
    os.rename(new, path)


def _check_is_file(path: str) -> None:
    """Reading a pipe would wait for ever, and SQLite follows links, also of the files beside the database."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise _is_link(path, os.readlink(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), text("a device"))
        raise StoreError(text("The database {path} is {kind}, not a file.", path=path, kind=kind), hint=REPAIR)


def _is_link(path: str, target: str) -> StoreError:
    return StoreError(
        text("{path} is a link to {target}: find out who created it.", path=path, target=target), hint=REPAIR
    )


def _decode(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _check_no_link(connection: sqlite3.Connection, path: str) -> None:
    """Members of a shared store can put a link there: never write our tables into another file, least of all as root.

    SQLite, which has followed the link by now, is asked: checking before opening would be a race.
    """
    connection.text_factory = os.fsdecode  # a path may be no valid text
    opened = connection.execute("PRAGMA database_list").fetchone()[2]
    connection.text_factory = str
    if _real(opened) != _real(path):
        raise _is_link(path, opened)


def _real(path: str) -> str:
    """Resolve links in the folder, as SQLite does since 3.39, but not the last component."""
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _update(connection: sqlite3.Connection, path: str) -> None:
    version = _version(connection)
    if version > VERSION:
        raise StoreError(
            text(
                "{path} was written by a newer ownlab: its format is {version}, and this version supports {supported}.",
                path=path,
                version=version,
                supported=VERSION,
            ),
            hint=text("Update ownlab, or set OWNLAB_STORE to another folder."),
        )
    if version < VERSION:
        _migrate(connection)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, script in enumerate(_SCRIPTS[_version(connection) :], start=_version(connection) + 1):
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    """Split a script into statements (executescript would commit the transaction around them)."""
    statements, begun = [], ""
    for piece in script.split(";"):
        begun += piece + ";"
        if sqlite3.complete_statement(begun):
            statements.append(begun)
            begun = ""
    return statements


def _lock(folder: int, path: str) -> None:
    message = text("Another process has been creating {path} for {seconds:.0f} s.", path=path, seconds=_BUSY_SECONDS)
    wait_for_lock(folder, StoreError(message, hint=text("Try again.")), _BUSY_SECONDS)
