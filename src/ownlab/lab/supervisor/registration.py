"""The runtime's entry in the store, which its supervisor keeps there as long as it lives.

The database may be damaged, removed or replaced at any time, and the lock file too. The supervisor then opens the new one,
registers itself again with the cards that it holds, and goes on. A runtime without cards does not even need the store to start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ownlab.lab.store.errors import store_errors
from ownlab.lab.store.layout import hold_lock, lock_path
from ownlab.lab.store.lock_records import LockRecord, write_record
from ownlab.lab.store.rows import Device, Lease, QueuePosition, RuntimeRow
from ownlab.lab.store.store import Store

__all__ = ["Registration"]

T = TypeVar("T")


class Registration:
    """One runtime in its store. Every method may raise StoreError: the caller tries again later."""

    def __init__(self, folder: str, row: RuntimeRow, lock: int) -> None:
        self._folder = os.path.abspath(folder)
        self._row = row
        self._leases: tuple[Lease, ...] = ()
        self._lock = lock  # of a file at `lock_path`, unless that could not be used
        self._store: Store | None = None
        self._busy_seconds: float | None = None
        self._create = True  # the first time: a store that was moved away may come back

    def enqueue(self) -> None:
        """Enter the queue for cards, for the first time."""
        self._opened().enqueue(self._row)

    def acquire(self, devices: Sequence[Device], *, quota: float | None = None) -> tuple[Lease, ...] | QueuePosition:
        """Lease the runtime's cards, or return its position in the queue; see `Store.acquire`."""
        granted = self._registered(lambda store: store.acquire(self._row.id, devices, quota=quota))
        if not isinstance(granted, QueuePosition):
            self._leases = granted
            self._row = self._row._replace(state="starting")
        return granted

    def update(self, **columns: Any) -> None:
        """Change columns of the row: in the lock file, which others read if there is no database, and in the database."""
        self._row = self._row._replace(**columns)
        try:
            self._write_lock()
        finally:
            self._registered(lambda store: store.update(self._row.id, **columns))

    def add_usage(self, seconds: float, card_seconds: float, units: float) -> None:
        """Add to the usage of today."""
        self._registered(lambda store: store.add_usage(self._row.id, seconds, card_seconds, units))

    def card_seconds_this_week(self) -> float:
        """The card-seconds that this user has used since Monday (UTC)."""
        return self._registered(lambda store: store.card_seconds_this_week(self._row.uid))

    def check(self) -> None:
        """Put right what others removed: the lock file, its content, the row."""
        self._write_lock()
        self._registered(lambda _: None)

    def set_busy_timeout(self, seconds: float) -> None:
        """Set how long to wait while others write."""
        self._busy_seconds = seconds
        if self._store is not None:
            self._store.set_busy_timeout(seconds)

    def close(self) -> None:
        """Close the database. The lock is still held."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _write_lock(self) -> None:
        path = lock_path(self._folder, self._row.id)
        with store_errors(self._folder):
            if not _is_file(self._lock, path):
                # The old file was removed or moved away; keeper and kernel still have it open.
                new = hold_lock(self._folder, self._row.id, create=self._create)
                os.dup2(new, self._lock, inheritable=True)  # the same number: later kernels inherit it
                os.close(new)
            write_record(path, LockRecord(self._folder, self._row, self._leases))

    def _registered(self, do: Callable[[Store], T]) -> T:
        """Call with the current database, which has this runtime."""
        store = self._opened()
        if not store.has(self._row.id):
            self._write_lock()
            store.register(self._row, self._leases)
        return do(store)

    def _opened(self) -> Store:
        if self._store is not None and not self._store.is_current():
            self.close()
        if self._store is None:
            self._store = Store.open(self._folder, create=self._create)
            self._create = False
            if self._busy_seconds is not None:
                self._store.set_busy_timeout(self._busy_seconds)
        return self._store


def _is_file(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
