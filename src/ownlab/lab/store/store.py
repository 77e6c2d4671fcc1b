"""The store: which runtimes run on this machine, which cards they hold, who waits, and what was used."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakSet

from ownlab.errors import CardsTaken, StoreError
from ownlab.file_lock import wait_for_lock
from ownlab.lab.store import locks, schema, tables
from ownlab.lab.store.errors import store_errors
from ownlab.lab.store.layout import Layout, make_private, read_layout
from ownlab.lab.store.lease_scheduler import Holding, allocate, check_possible, explain_wait
from ownlab.lab.store.lock_records import (
    LockRecord,
    find_lost_locks,
    holds_lock_elsewhere,
    read_held,
    write_record,
)
from ownlab.lab.store.locks_only import remove_dead_locks
from ownlab.lab.store.orphans import Orphan, boot_id, describe_orphans, end_orphans, own_ancestors
from ownlab.lab.store.rows import Device, Lease, QueuePosition, RuntimeRow, UsageRow
from ownlab.text import text

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Store"]

_HOUR = 3600.0
_DAY = 24 * _HOUR


class Store:
    """A connection to a store. Threads may share it. A forked child must not use it, nor open another one beside it."""

    def __init__(self, layout: Layout, connection: sqlite3.Connection) -> None:
        """Use `Store.open`."""
        self.folder = layout.folder
        self.shared = layout.shared
        self._layout = layout
        self._connection = connection
        self._file = os.stat(layout.database)
        self._pid = os.getpid()
        self._guard = threading.Lock()
        _opened.add(self)

    trouble = ""  # why the database cannot be used: see `LocksOnly`

    @classmethod
    def open(cls, folder: str | Path, *, create: bool = True) -> Store:
        """Open the store in a folder. If there is none, create a private one, or raise StoreError without `create`."""
        path = os.path.abspath(os.fspath(folder))
        if any(store._pid != os.getpid() for store in _opened):
            raise _opened_before_fork()
        with store_errors(path):
            layout = read_layout(path)
            if layout is None:
                if not create:
                    raise StoreError(
                        text("There is no store in {path}.", path=path), hint=text("`ownlab up` creates one.")
                    )
                layout = make_private(path)
            return cls(layout, schema.connect(layout.database))

    def is_current(self) -> bool:
        """Whether the database is still the one at its path: somebody may have replaced it."""
        try:
            return os.path.samestat(os.stat(self._layout.database), self._file)
        except PermissionError:  # cannot be told
            return True
        except OSError:
            return False

    def set_busy_timeout(self, seconds: float) -> None:
        """Set how long to wait while others write: for callers that have other work to do, and retry."""
        with self._guard, store_errors(self.folder):
            self._connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def close(self) -> None:
        """Close the database. Locks from `hold` are not released."""
        if os.getpid() == self._pid:
            self._connection.close()
            _opened.discard(self)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the life of a runtime, in order

    def hold(self, runtime: str) -> int:
        """Lock the runtime: it lives as long as this descriptor, or an inherited one, is open anywhere."""
        with store_errors(self.folder):
            return locks.hold(self._layout.lock(runtime), self._layout.lock_mode)

    def enqueue(self, row: RuntimeRow) -> None:
        """Add a runtime at the end of the queue. Its lock must be held."""
        if not self.is_alive(row.id):
            raise StoreError(text("Runtime {id} cannot be added: nobody holds its lock.", id=row.id))
        earlier = [old for old in self.runtimes() if old.id == row.id]
        if earlier:  # it died, and its successor holds its lock now
            successors = [process.pid for process in (row.keeper, row.supervisor, row.kernel) if process is not None]
            with store_errors(self.folder):
                left = end_orphans(self._with_owners(earlier), shared=self.shared, but={*successors, *own_ancestors()})
            if left:
                orphans = describe_orphans(left[row.id])
                raise StoreError(text("Runtime {id} cannot be started again: {orphans}.", id=row.id, orphans=orphans))
        row = row._replace(state="waiting")
        with self._writing() as database:
            tables.insert_runtime(database, row)
            write_record(self._layout.lock(row.id), LockRecord(self.folder, row))

    def register(self, row: RuntimeRow, leases: Sequence[Lease]) -> None:
        """Add a living runtime with its leases, if the database does not have it: it was damaged and replaced."""
        with self._writing() as database:
            if not tables.has_runtime(database, row.id):
                tables.insert_runtime(database, row)
                tables.insert_leases(database, leases, time.time())

    def has(self, runtime: str) -> bool:
        """Whether the database has a row of this runtime."""
        with self._reading() as database:
            return tables.has_runtime(database, runtime)

    def acquire(
        self, runtime: str, devices: Sequence[Device], *, quota: float | None = None
    ) -> tuple[Lease, ...] | QueuePosition:
        """Lease the runtime's cards, or return its position in the queue: then ask again. A CPU runtime gets ().

        `devices` is what the machine has now; `quota` is the card-seconds that a user may use in a week. Raises
        DeviceUnusable if waiting would not help, CardsTaken if the user's weekly quota is used up.
        """
        _, left = self._reap()
        with self._one_acquires(), self._writing() as database:
            tables.delete_unusable(database)
            rows = list(tables.read_runtimes(database).values())
            row = next((row for row in rows if row.id == runtime), None)
            if row is None:
                raise _unknown(runtime)
            leases = tables.read_leases(database)
            own = tuple(lease for lease in leases if lease.runtime == runtime)
            if row.want.kind is not None and not own:
                check_possible(row.want, devices)
                if quota is not None:
                    _check_quota(database, row, quota)
                given = self._choose(row, rows, leases, devices, left)
                if isinstance(given, QueuePosition):
                    return given
                own = given
                tables.insert_leases(database, own, time.time())
            if row.state == "waiting":
                row = row._replace(state="starting")
                tables.update_runtime(database, runtime, {"state": "starting"})
            write_record(self._layout.lock(runtime), LockRecord(self.folder, row, own))
            return own

    def _choose(
        self,
        row: RuntimeRow,
        rows: Sequence[RuntimeRow],
        leases: Mapping[Lease, float],
        devices: Sequence[Device],
        left: Mapping[str, Sequence[Orphan]],
    ) -> tuple[Lease, ...] | QueuePosition:
        """Choose devices that neither a lease nor the lock of a living runtime names."""
        waiting = self._waiting(rows, leases)
        place, queue = _place(row, waiting), [(other.id, other.want) for other in waiting]
        held = read_held(self._layout.locks, {other.id for other in rows})
        if held.unreadable:
            damaged = held.unreadable[0]
            why = text("The lock of runtime {id} is damaged: nobody knows which cards it holds.", id=damaged)
            return QueuePosition(place, why)
        everything, booked = [*rows], dict(leases)
        _add_records(held.records, everything, booked)
        chosen = allocate(row.id, queue, devices, _booked(booked))
        if chosen is not None:  # only now: it reads the environment of every process
            lost = find_lost_locks(self.folder, {other.id for other in everything})
            _add_records(lost, everything, booked)
            chosen = allocate(row.id, queue, devices, _booked(booked)) if lost else chosen
        if chosen is None:
            return QueuePosition(place, explain_wait(row.want, devices, _holdings(booked, everything, left), place - 1))
        return tuple(Lease(row.id, device.uuid, row.want.parts) for device in chosen)

    def update(self, runtime: str, **columns: object) -> None:
        """Change columns of a runtime's row, named as the fields of RuntimeRow."""
        with self._writing() as database:
            if not tables.update_runtime(database, runtime, columns):
                raise _unknown(runtime)

    def add_usage(self, runtime: str, seconds: float, card_seconds: float, units: float) -> None:
        """Add to the usage of the runtime today (UTC)."""
        if min(seconds, card_seconds, units) < 0:
            raise ValueError("usage must not be negative: measure it with a monotonic clock (time.monotonic)")
        with self._writing() as database:
            if not tables.add_usage(database, runtime, _day(time.time()), (seconds, card_seconds, units)):
                raise _unknown(runtime)
            os.utime(self._layout.lock(runtime))  # systemd deletes files in /var/tmp that were not touched for 30 days

    def release(self, runtime: str) -> None:
        """Delete row, leases and lock file. The caller holds the lock, and all processes have ended."""
        path = self._layout.lock(runtime)
        try:
            with self._writing() as database:
                tables.delete_runtime(database, runtime)
        finally:  # a row without a lock file is dead: if the disk is full, the next reap frees its cards
            locks.remove(path)

    # -- queries

    def runtimes(self) -> list[RuntimeRow]:
        """All runtimes in queue order, including dead ones that were not removed yet (`is_alive`).

        Last come living ones that the database does not have, because it was damaged and replaced.
        """
        rows, _, records = self._read_all()
        return [*rows, *(record.row for record in records)]

    def leases(self) -> list[Lease]:
        """All leases of these runtimes."""
        _, leases, records = self._read_all()
        return [*leases, *(lease for record in records for lease in record.leases)]

    def _read_all(self) -> tuple[list[RuntimeRow], list[Lease], list[LockRecord]]:
        """The rows and their leases, and living runtimes that the database does not have."""
        with self._reading() as database:
            rows = list(tables.read_runtimes(database).values())
            leases = list(tables.read_leases(database))
        known = {row.id for row in rows}
        with store_errors(self.folder):
            try:
                records = read_held(self._layout.locks, known).records
            except PermissionError:  # another user's private store, which was opened before
                records = []
        return rows, [lease for lease in leases if lease.runtime in known], records

    def usage(self, since_day: str) -> list[UsageRow]:
        """The usage on that day ("2026-11-15", UTC) and later."""
        with self._reading() as database:
            return tables.read_usage(database, since_day)

    def card_seconds_this_week(self, uid: int) -> float:
        """The card-seconds that a user has used since Monday (UTC)."""
        with self._reading() as database:
            return _card_seconds_this_week(database, uid)

    def queue_position(self, runtime: str) -> int | None:
        """The runtime's position in the queue of its kind, 1 is next; None if it does not wait."""
        with self._reading() as database:
            waiting = self._waiting(tables.read_runtimes(database).values(), tables.read_leases(database))
        return next((_place(row, waiting) for row in waiting if row.id == runtime), None)

    def is_alive(self, runtime: str) -> bool:
        """Whether the runtime's lock is held."""
        with store_errors(self.folder):
            return locks.is_held(self._layout.lock(runtime))

    def limits(self) -> dict[str, float | None] | None:
        """Return the limits of the administrator of a shared store, by the names of plan.Limits; None: there are none."""
        with store_errors(self.folder):
            return self._layout.limits()

    # -- dead runtimes

    def reap(self) -> list[str]:
        """Kill what dead runtimes left, if this user may, and free their cards. Return the runtimes that were freed."""
        freed, _ = self._reap()
        self._sweep()
        return freed

    def _reap(self) -> tuple[list[str], dict[str, list[Orphan]]]:
        """Return the runtimes that were freed, and the orphans of the others."""
        with self._reading() as database:
            rows = tables.read_runtimes(database)
        dead = {seq: row for seq, row in rows.items() if not self.is_alive(row.id) and not _lost_its_lock(row)}
        if not dead:
            return [], {}
        with self._reading() as database:  # `release` deletes the row before the lock: a released runtime is not dead
            dead = {seq: row for seq, row in tables.read_runtimes(database).items() if seq in dead}
        with store_errors(self.folder):
            left = end_orphans(self._with_owners(dead.values()), shared=self.shared)
        freed = []
        with self._writing() as database:
            for seq, row in dead.items():
                path = self._layout.lock(row.id)
                # Checked again: a successor with the same id may have started meanwhile. It cannot while we hold the lock.
                with locks.if_unheld(path) as unheld:
                    if unheld and row.id not in left:
                        if tables.delete_row(database, seq):
                            freed.append(row.id)
                        locks.remove(path)
        return freed, left

    def _with_owners(self, rows: Iterable[RuntimeRow]) -> list[tuple[RuntimeRow, int | None]]:
        """Each row with the user whose processes may be killed for it."""
        fallback = None if self.shared else self._file.st_uid
        owners = ((row, locks.owner(self._layout.lock(row.id))) for row in rows)
        return [(row, fallback if owner is None else owner) for row, owner in owners]

    def _sweep(self) -> None:
        """Remove what nobody can use: unreadable rows, and lock files without a row after their last process.

        In a shared store only its owner can remove a lock file, even if others freed the cards.
        """
        with self._writing() as database:
            tables.delete_unusable(database)
            known = {row.id for row in tables.read_runtimes(database).values()}
        with store_errors(self.folder):
            remove_dead_locks(self._layout, known)

    def _waiting(self, rows: Iterable[RuntimeRow], leases: Mapping[Lease, float]) -> list[RuntimeRow]:
        """Living runtimes that wait for cards, in queue order."""
        served = {lease.runtime for lease in leases}
        asking = [row for row in rows if row.state == "waiting" and row.want.kind is not None and row.id not in served]
        return [row for row in asking if self.is_alive(row.id)]

    # -- transactions

    @contextmanager
    def _one_acquires(self) -> Iterator[None]:
        """One process at a time leases cards, even if some still have a replaced database open."""
        with store_errors(self.folder):
            folder = os.open(self._layout.locks, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            busy = text(
                "Another process has been leasing cards of the store {folder} for too long.", folder=self.folder
            )
            wait_for_lock(folder, StoreError(busy, hint=text("Try again.")))
            yield
        finally:
            os.close(folder)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent snapshot, whatever others write meanwhile."""
        with self._transaction("BEGIN") as database:
            yield database

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Exclusive from the first statement: what is read inside is still valid when it is written."""
        with self._transaction("BEGIN IMMEDIATE") as database:
            yield database

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._pid:
            raise _opened_before_fork()
        with self._guard, store_errors(self.folder):
            self._connection.execute(begin)
            try:
                if not self.is_current():
                    message = text(
                        "The database in {folder} was removed or replaced while it was in use.", folder=self.folder
                    )
                    raise StoreError(message, hint=text("Try again."))
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


# Open stores. A child that opens a database which its parent had open at the fork inherits SQLite's belief that it holds
# locks, and can damage it (sqlite.org/howtocorrupt.html, 2.6).
_opened: WeakSet[Store] = WeakSet()


def _opened_before_fork() -> StoreError:
    return StoreError(
        text("A store was open when its process forked: close it before the fork and open it in the child.")
    )


def _unknown(runtime: str) -> StoreError:
    return StoreError(text("Runtime {id} is not in the store: it has ended.", id=runtime))


def _add_records(records: Iterable[LockRecord], rows: list[RuntimeRow], leases: dict[Lease, float]) -> None:
    """Add runtimes that the database does not have."""
    for record in records:
        rows.append(record.row)
        leases.update((lease, _since(record.row)) for lease in record.leases)


def _since(row: RuntimeRow) -> float:
    return row.queued_at if row.started_at is None else row.started_at


def _lost_its_lock(row: RuntimeRow) -> bool:
    """Whether the runtime lives, but its lock file was removed or moved away. It creates another one."""
    return row.boot == boot_id() and holds_lock_elsewhere(row)


def _booked(leases: Iterable[Lease]) -> dict[str, int]:
    booked: dict[str, int] = {}
    for lease in leases:
        booked[lease.device] = booked.get(lease.device, 0) + lease.parts
    return booked


def _holdings(
    leases: Mapping[Lease, float], rows: Sequence[RuntimeRow], left: Mapping[str, Sequence[Orphan]]
) -> list[Holding]:
    by_id = {row.id: row for row in rows}
    remains = {runtime: describe_orphans(orphans) for runtime, orphans in left.items()}
    return [
        Holding(lease.device, lease.parts, since, by_id[lease.runtime], remains.get(lease.runtime, ""))
        for lease, since in leases.items()
        if lease.runtime in by_id
    ]


def _place(row: RuntimeRow, waiting: Sequence[RuntimeRow]) -> int:
    kind = [other.id for other in waiting if other.want.kind == row.want.kind]
    return kind.index(row.id) + 1 if row.id in kind else len(kind) + 1


def _check_quota(database: sqlite3.Connection, row: RuntimeRow, quota: float) -> None:
    used = _card_seconds_this_week(database, row.uid)
    if used >= quota:
        raise CardsTaken(
            text(
                "{user} has used {used:.1f} h of card time this week; {quota:.1f} h are allowed.",
                user=row.person,
                used=used / _HOUR,
                quota=quota / _HOUR,
            ),
            hint=text("The next week begins on Monday, 00:00 UTC. CPU runtimes can be started at any time."),
        )


def _card_seconds_this_week(database: sqlite3.Connection, uid: int) -> float:
    now = time.time()
    monday = now - time.gmtime(now).tm_wday * _DAY
    return tables.card_seconds(database, uid, _day(monday), _day(monday + 6 * _DAY))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))
