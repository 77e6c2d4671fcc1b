"""A RuntimeRow as flat columns, for the database and for lock files, and back.

Everyone who shares a store can write its database, and disks fail: a value is used only if it has the type and the range that
the rest of the code relies on (a pid that fits os.kill, a time that strftime can print).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from ownlab.lab.store.rows import CardRequest, Lease, Process, RuntimeRow, State
from ownlab.units import PARTS

__all__ = ["COLUMNS", "from_columns", "is_time", "is_valid_id", "lease_from_values", "printable", "to_columns"]

# Fields of RuntimeRow that take several columns each.
_NESTED: dict[str, tuple[str, ...]] = {
    "want": ("want_kind", "want_cards", "want_parts"),
    "keeper": ("keeper_pid", "keeper_started"),
    "supervisor": ("supervisor_pid", "supervisor_started"),
    "kernel": ("kernel_pid", "kernel_started"),
}
COLUMNS = tuple(column for field in RuntimeRow._fields for column in _NESTED.get(field, (field,)))

_LONGEST_ID = 200
_FARTHEST_TIME = 1e11  # seconds before or after the epoch: the year 5138. Clocks may be wrong
_STATES = frozenset(get_args(State))


def to_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
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


def from_columns(values: Mapping[str, Any]) -> RuntimeRow | None:
    """Return the row; None if a value is missing or is not what the column may hold."""
    if any(column not in values or not _CHECKS[column](values[column]) for column in COLUMNS):
        return None
    if (values["kernel_pid"] is None) != (values["kernel_started"] is None):
        return None
    row = {name: printable(values[name]) for name in COLUMNS}
    for field in ("keeper", "supervisor", "kernel"):
        pid, started = (row.pop(column) for column in _NESTED[field])
        row[field] = None if pid is None else Process(pid, started)
    row["want"] = CardRequest(*(row.pop(column) for column in _NESTED["want"]))
    row["busy"] = bool(row["busy"])
    row["may_extend"] = bool(row["may_extend"])
    return RuntimeRow(**row)


def lease_from_values(runtime: object, device: object, parts: object) -> Lease | None:
    """Return the lease; None if a value has the wrong type."""
    if isinstance(runtime, str) and isinstance(device, str) and isinstance(parts, int) and 1 <= parts <= PARTS:
        return Lease(runtime, device, parts)
    return None


def is_valid_id(runtime: object) -> bool:
    """Whether it can be the id of a runtime, which is also the name of a file."""
    return (
        isinstance(runtime, str)
        and 0 < len(runtime) <= _LONGEST_ID
        and runtime[0] not in ".-"
        and runtime.replace("-", "").replace("_", "").replace(".", "").isalnum()
    )


def printable(value: Any) -> Any:
    """Replace control characters: another user's notebook may have any name, and it is shown in our terminal."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join("\N{REPLACEMENT CHARACTER}" if char < " " or "\x7f" <= char <= "\x9f" else char for char in value)


def _text(value: object) -> bool:
    return isinstance(value, str)


def _number(lowest: float, highest: float) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int | float) and math.isfinite(value) and lowest <= value <= highest


def _integer(lowest: int, highest: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and lowest <= value <= highest


def _optional(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_PID, _TICKS = _integer(0, 2**31 - 1), _integer(0, 2**63 - 1)
_TIME = _number(-_FARTHEST_TIME, _FARTHEST_TIME)


def is_time(value: object) -> bool:
    """Whether it is a time that can be shown."""
    return _TIME(value)


_CHECKS: dict[str, Callable[[object], bool]] = {
    "id": is_valid_id,
    "uid": _integer(0, 2**32 - 1),
    "person": _text,
    "lab": _optional(_text),
    "notebook": _text,
    "type": _text,
    "label": _text,
    "want_kind": _optional(_text),
    "want_cards": _integer(0, 2**16),
    "want_parts": _integer(1, PARTS),
    "state": lambda value: isinstance(value, str) and value in _STATES,
    "queued_at": _TIME,
    "started_at": _optional(_TIME),
    "boot": _text,
    "keeper_pid": _PID,
    "keeper_started": _TICKS,
    "supervisor_pid": _PID,
    "supervisor_started": _TICKS,
    "kernel_pid": _optional(_PID),
    "kernel_started": _optional(_TICKS),
    "busy": _integer(0, 1),
    "changed_at": _TIME,
    "ends_at": _optional(_TIME),
    "ends_why": _text,
    "may_extend": _integer(0, 1),
    "units_per_hour": _number(0, math.inf),
}
