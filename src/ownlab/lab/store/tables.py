"""SQL statements on the tables. Each function runs one or two inside the caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from ownlab.lab.store.rows import CardRequest, Lease, Process, RuntimeRow, UsageRow

__all__ = [
    "add_usage",
    "card_seconds",
    "delete_row",
    "delete_runtime",
    "insert_leases",
    "insert_runtime",
    "read_leases",
    "read_runtimes",
    "read_usage",
    "update_runtime",
]

# Fields of RuntimeRow that take several columns each.
_NESTED: dict[str, tuple[str, ...]] = {
    "want": ("want_kind", "want_cards", "want_parts"),
    "keeper": ("keeper_pid", "keeper_started"),
    "supervisor": ("supervisor_pid", "supervisor_started"),
    "kernel": ("kernel_pid", "kernel_started"),
}
_FIXED = ("id", "uid", "want", "queued_at")
_COLUMNS = tuple(column for field in RuntimeRow._fields for column in _NESTED.get(field, (field,)))


def insert_runtime(database: sqlite3.Connection, row: RuntimeRow) -> None:
    """Insert at the end of the queue, replacing a row with the same id and its leases."""
    delete_runtime(database, row.id)
    values = _to_columns(row._asdict())
    marks = ", ".join("?" * len(values))
    database.execute(f"INSERT INTO runtimes ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))  # noqa: S608 - names are ours


def update_runtime(database: sqlite3.Connection, runtime: str, fields: Mapping[str, Any]) -> bool:
    """Change a row; return whether it exists."""
    wrong = [name for name in fields if name not in RuntimeRow._fields or name in _FIXED]
    if wrong or not fields:
        raise ValueError(f"cannot change these fields of a runtime: {', '.join(wrong) or 'none given'}")
    values = _to_columns(fields)
    changes = ", ".join(f"{name} = ?" for name in values)
    done = database.execute(f"UPDATE runtimes SET {changes} WHERE id = ?", (*values.values(), runtime))  # noqa: S608 - names are ours
    return done.rowcount > 0


def delete_runtime(database: sqlite3.Connection, runtime: str) -> None:
    """Delete a row and, by cascade, its leases."""
    database.execute("DELETE FROM runtimes WHERE id = ?", (runtime,))


def delete_row(database: sqlite3.Connection, seq: int) -> bool:
    """Delete this row, not a later one with the same id; return whether it existed."""
    return database.execute("DELETE FROM runtimes WHERE seq = ?", (seq,)).rowcount > 0


def insert_leases(database: sqlite3.Connection, leases: Iterable[Lease], since: float) -> None:
    """Insert leases. A trigger refuses all of them if a device would be booked twice."""
    values = [(*lease, since) for lease in leases]
    database.executemany("INSERT INTO leases (runtime, device, parts, since) VALUES (?, ?, ?, ?)", values)


def read_runtimes(database: sqlite3.Connection) -> dict[int, RuntimeRow]:
    """Return every row by its sequence number, in queue order."""
    rows = database.execute(f"SELECT seq, {', '.join(_COLUMNS)} FROM runtimes ORDER BY seq")  # noqa: S608 - names are ours
    return {seq: _from_columns(dict(zip(_COLUMNS, values, strict=True))) for seq, *values in rows}


def read_leases(database: sqlite3.Connection) -> dict[Lease, float]:
    """Return all leases with their start, oldest first."""
    rows = database.execute("SELECT runtime, device, parts, since FROM leases ORDER BY rowid")
    return {Lease(runtime, device, parts): since for runtime, device, parts, since in rows}


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
    """Return the usage on that day and later."""
    names = ", ".join(UsageRow._fields)
    rows = database.execute(f"SELECT {names} FROM usage WHERE day >= ? ORDER BY day, rowid", (since_day,))  # noqa: S608 - names are ours
    return [UsageRow(*map(_printable, values)) for values in rows]


def card_seconds(database: sqlite3.Connection, uid: int, first_day: str, last_day: str) -> float:
    """Return what a user used from one day to another, both included."""
    query = "SELECT coalesce(sum(card_seconds), 0) FROM usage WHERE uid = ? AND day BETWEEN ? AND ?"
    return float(database.execute(query, (uid, first_day, last_day)).fetchone()[0])


def _to_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Spread fields of a RuntimeRow into columns."""
    values: dict[str, Any] = {}
    for name, value in fields.items():
        columns = _NESTED.get(name)
        if columns is None:
            # A file name may be invalid UTF-8, which SQLite does not accept.
            values[name] = value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        else:
            values.update(zip(columns, (None,) * len(columns) if value is None else value, strict=True))
    return values


def _from_columns(values: dict[str, Any]) -> RuntimeRow:
    values = {name: _printable(value) for name, value in values.items()}
    for field in ("keeper", "supervisor", "kernel"):
        pid, started = (values.pop(column) for column in _NESTED[field])
        values[field] = None if pid is None else Process(pid, started)
    values["want"] = CardRequest(*(values.pop(column) for column in _NESTED["want"]))
    values["busy"] = bool(values["busy"])
    values["may_extend"] = bool(values["may_extend"])
    return RuntimeRow(**values)


def _printable(value: Any) -> Any:
    """Replace control characters: another user's notebook may have any name, and it is shown in our terminal."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join("\N{REPLACEMENT CHARACTER}" if char < " " or "\x7f" <= char <= "\x9f" else char for char in value)
