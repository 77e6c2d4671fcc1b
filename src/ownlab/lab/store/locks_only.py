"""A store whose database cannot be used: what the locks of living runtimes say.

`ownlab status`, `down` and `runtimes`, the page, and runtimes without cards work with it. No card is leased.
"""

from __future__ import annotations

import os
from collections.abc import Container
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ownlab.errors import StoreError
from ownlab.lab.store import locks
from ownlab.lab.store.errors import store_errors
from ownlab.lab.store.layout import Layout, layout_of
from ownlab.lab.store.lock_records import LockRecord, lock_ids, read_held, read_record
from ownlab.lab.store.orphans import end_orphans
from ownlab.lab.store.rows import Lease, RuntimeRow, UsageRow
from ownlab.text import sentence, sentences

if TYPE_CHECKING:
    from ownlab.lab.store.store import Store

__all__ = ["AnyStore", "LocksOnly", "open_any", "remove_dead_locks"]

T = TypeVar("T")
AnyStore: TypeAlias = "Store | LocksOnly"


def open_any(folder: str, *, create: bool = True) -> AnyStore:
    """Open the store in a folder; if that fails, return what its locks say, and why (`trouble`)."""
    from ownlab.lab.store.store import Store

    try:
        store = Store.open(folder, create=create)
        try:
            store.leases()  # some damage is found only by reading
        except StoreError:
            store.close()
            raise
    except StoreError as exc:
        return LocksOnly(os.path.abspath(folder), exc)
    return store


class LocksOnly:
    """The queries of `Store`, answered without the database."""

    def __init__(self, folder: str, error: StoreError | None) -> None:
        self._layout = layout_of(folder)
        self._error = error
        self.folder = folder
        self.shared = self._layout.shared
        self.trouble = "" if error is None else sentences(sentence(error.message), error.hint)

    def is_current(self) -> bool:
        """There is no database that could be replaced."""
        return True

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> LocksOnly:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def runtimes(self) -> list[RuntimeRow]:
        """The living runtimes, in the order of their start."""
        return [record.row for record in self._records()]

    def leases(self) -> list[Lease]:
        """The leases of these runtimes."""
        return [lease for record in self._records() for lease in record.leases]

    def usage(self, since_day: str) -> list[UsageRow]:
        """Only the database has it."""
        return self._none([])

    def card_seconds_this_week(self, uid: int) -> float:
        """Only the database has it."""
        return self._none(0.0)

    def _none(self, value: T) -> T:
        """Nothing, if there never was a database."""
        if self._error is not None:
            raise self._error
        return value

    def is_alive(self, runtime: str) -> bool:
        """Whether the runtime's lock is held."""
        with store_errors(self.folder):
            return locks.is_held(self._layout.lock(runtime))

    def limits(self) -> dict[str, float | None] | None:
        """Return the limits of the administrator of a shared store."""
        with store_errors(self.folder):
            return self._layout.limits()

    def reap(self) -> list[str]:
        """Kill what dead runtimes left, if this user may."""
        try:
            return remove_dead_locks(self._layout, ())
        except OSError:  # `trouble` says what is wrong
            return []

    def _records(self) -> list[LockRecord]:
        try:
            return read_held(self._layout.locks).records
        except OSError:  # the same: `trouble` says what is wrong
            return []


def remove_dead_locks(layout: Layout, known: Container[str]) -> list[str]:
    """End the processes that dead runtimes left, and remove their locks, except `known`. Return the runtimes. Raises OSError."""
    removed = []
    for runtime in lock_ids(layout.locks):
        path = layout.lock(runtime)
        if runtime in known:
            continue
        with locks.if_unheld(path) as unheld:
            record = read_record(path) if unheld else None
            if isinstance(record, LockRecord) and end_orphans([(record.row, record.row.uid)], shared=layout.shared):
                continue
            if unheld:
                locks.remove(path)
                removed.append(runtime)
    return removed
