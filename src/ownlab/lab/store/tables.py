"""SQL statements on the tables. Each function runs one or two inside the caller's transaction."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from ownlab.lab.store.columns import COLUMNS, from_columns, is_time, lease_from_values, printable, to_columns
from ownlab.lab.store.rows import Lease, RuntimeRow, UsageRow

__all__ = [
    "add_usage",
    "card_seconds",
    "delete_row",
    "delete_runtime",
    "delete_unusable",
    "has_runtime",
    "insert_leases",
    "insert_runtime",
    "read_leases",
    "read_runtimes",
    "read_usage",
    "update_runtime",
]

_FIXED = ("id", "uid", "want", "queued_at")


def insert_runtime(database: sqlite3.Connection, row: RuntimeRow) -> None:
    """Insert at the end of the queue, replacing a row with the same id and its leases."""
    delete_runtime(database, row.id)
    values = to_columns(row._asdict())
    marks = ", ".join("?" * len(values))
    database.execute(f"INSERT INTO runtimes ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))  # noqa: S608 - names are ours


def update_runtime(database: sqlite3.Connection, runtime: str, fields: Mapping[str, Any]) -> bool:
    """Change a row; return whether it exists."""
    wrong = [name for name in fields if name not in RuntimeRow._fields or name in _FIXED]
    if wrong or not fields:
        raise ValueError(f"cannot change these fields of a runtime: {', '.join(wrong) or 'none given'}")
    values = to_columns(fields)
    changes = ", ".join(f"{name} = ?" for name in values)
    done = database.execute(f"UPDATE runtimes SET {changes} WHERE id = ?", (*values.values(), runtime))  # noqa: S608 - names are ours
    return done.rowcount > 0


def has_runtime(database: sqlite3.Connection, runtime: str) -> bool:
    """Whether there is a usable row of this runtime."""
    return any(row.id == runtime for row in read_runtimes(database).values())


def delete_runtime(database: sqlite3.Connection, runtime: str) -> None:
    """Delete a row and, by cascade, its leases."""
    database.execute("DELETE FROM runtimes WHERE id = ?", (runtime,))


def delete_row(database: sqlite3.Connection, seq: int) -> bool:
    """Delete this row, not a later one with the same id; return whether it existed."""
    return database.execute("DELETE FROM runtimes WHERE seq = ?", (seq,)).rowcount > 0


def delete_unusable(database: sqlite3.Connection) -> None:
    """Delete rows that cannot be read, and leases without a runtime: nobody else would ever free those cards.

    A living runtime whose row is deleted registers itself again; until then its lock says what it holds.
    """
    usable = read_runtimes(database)
    for (seq,) in database.execute("SELECT seq FROM runtimes").fetchall():
        if seq not in usable:
            delete_row(database, seq)
    ids = {row.id for row in usable.values()}
    for number, *values in database.execute("SELECT rowid, runtime, device, parts FROM leases").fetchall():
        lease = lease_from_values(*values)
        if lease is None or lease.runtime not in ids:
            database.execute("DELETE FROM leases WHERE rowid = ?", (number,))


def insert_leases(database: sqlite3.Connection, leases: Iterable[Lease], since: float) -> None:
    """Insert leases. A trigger refuses all of them if a device would be booked twice."""
    values = [(*lease, since) for lease in leases]
    database.executemany("INSERT INTO leases (runtime, device, parts, since) VALUES (?, ?, ?, ?)", values)


def read_runtimes(database: sqlite3.Connection) -> dict[int, RuntimeRow]:
    """Return every usable row by its sequence number, in queue order."""
    rows = database.execute(f"SELECT seq, {', '.join(COLUMNS)} FROM runtimes ORDER BY seq")  # noqa: S608 - names are ours
    read = {seq: from_columns(dict(zip(COLUMNS, values, strict=True))) for seq, *values in rows}
    return {seq: row for seq, row in read.items() if row is not None}


def read_leases(database: sqlite3.Connection) -> dict[Lease, float]:
    """Return all leases with their start, oldest first."""
    leases = {}
    for runtime, device, parts, since in database.execute(
        "SELECT runtime, device, parts, since FROM leases ORDER BY rowid"
    ):
        lease = lease_from_values(runtime, device, parts)
        if lease is not None:
            leases[lease] = since if is_time(since) else 0.0
    return leases


def add_usage(database: sqlite3.Connection, runtime: str, day: str, used: tuple[float, float, float]) -> bool:
    """Add seconds, card-seconds and units to a runtime's day; return whether the runtime exists."""
    done = database.execute(
        "INSERT INTO usage SELECT ?, uid, person, id, notebook, label, want_kind, ?, ?, ? FROM runtimes WHERE id = ? "
        "ON CONFLICT (day, runtime) DO UPDATE SET seconds = seconds + excluded.seconds, "
        "card_seconds = card_seconds + excluded.card_seconds, units = units + excluded.units, "
        "notebook = excluded.notebook, label = excluded.label",
        (day, *used, runtime),
    )
    return done.rowcount > 0


def read_usage(database: sqlite3.Connection, since_day: str) -> list[UsageRow]:
    """Return the usage on that day and later. Rows with values of the wrong type are left out."""
    names = ", ".join(UsageRow._fields)
    rows = database.execute(f"SELECT {names} FROM usage WHERE day >= ? ORDER BY day, rowid", (since_day,))  # noqa: S608 - names are ours
    return [row for values in rows if _is_usage(row := UsageRow(*map(printable, values)))]


def card_seconds(database: sqlite3.Connection, uid: int, first_day: str, last_day: str) -> float:
    """Return what a user used from one day to another, both included."""
    query = "SELECT coalesce(sum(card_seconds), 0) FROM usage WHERE uid = ? AND day BETWEEN ? AND ?"
    return float(database.execute(query, (uid, first_day, last_day)).fetchone()[0])


def _is_usage(row: UsageRow) -> bool:
    texts = (row.day, row.person, row.runtime, row.notebook, row.label, row.kind or "")
    numbers = (row.seconds, row.card_seconds, row.units)
    return (
        isinstance(row.uid, int)
        and all(isinstance(value, str) for value in texts)
        and all(isinstance(value, int | float) and math.isfinite(value) for value in numbers)
        and _is_day(row.day)
    )


def _is_day(day: str) -> bool:
    """Whether it is a date such as 2026-11-15."""
    from datetime import date  # supervisors, which only add usage, do without it

    try:
        return date.fromisoformat(day).isoformat() == day
    except ValueError:
        return False
