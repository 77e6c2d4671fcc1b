"""The store: who runs what on this machine, who holds which card, who waits, and what was used."""

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
from ownlab.lab.store import locks, schema, tables
from ownlab.lab.store.errors import store_errors
from ownlab.lab.store.layout import Layout, make_private, read_layout
from ownlab.lab.store.orphans import Orphan, describe_orphans, end_orphans, own_ancestors
from ownlab.lab.store.rows import Device, Lease, QueuePosition, RuntimeRow, UsageRow
from ownlab.lab.store.scheduler import Holding, allocate, check_possible, explain_wait

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Store"]

_HOUR = 3600.0
_DAY = 24 * _HOUR


class Store:
    """One connection to a store. Threads may share it; a forked child may not use it, nor open another beside it."""

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

    @classmethod
    def open(cls, folder: str | Path, *, create: bool = True) -> Store:
        """The store in a folder. Where there is none, a private one is made; or, without `create`, StoreError raised."""
        path = os.path.abspath(os.fspath(folder))
        if any(store._pid != os.getpid() for store in _opened):
            raise _carried_over_a_fork()
        with store_errors(path):
            layout = read_layout(path)
            if layout is None:
                if not create:
                    raise StoreError(f"There is no store in {path}.", hint="`ownlab up` makes one.")
                layout = make_private(path)
            return cls(layout, schema.connect(layout.database))

    def hurry(self, seconds: float) -> None:
        """From now on wait no longer for others who write: for whoever has more to do, and tries again."""
        with self._guard, store_errors(self.folder):
            self._connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def close(self) -> None:
        """Let go of the database. Locks from `hold` are not touched."""
        if os.getpid() == self._pid:
            self._connection.close()
            _opened.discard(self)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- a runtime's life, in its order

    def hold(self, runtime: str) -> int:
        """Take the runtime's lock: it lives as long as this descriptor, or an inherited one, is open anywhere."""
        with store_errors(self.folder):
            return locks.hold(self._layout.lock(runtime), self._layout.lock_mode)

    def enqueue(self, row: RuntimeRow) -> None:
        """Enter a runtime, at the end of the queue. Its lock must be held."""
        if not self.alive(row.id):
            raise StoreError(f"Runtime {row.id} cannot be entered: nobody holds its lock.")
        earlier = [old for old in self.runtimes() if old.id == row.id]
        if earlier:  # it died without a word, and its successor has its lock now
            successors = [process.pid for process in (row.keeper, row.supervisor, row.kernel) if process is not None]
            with store_errors(self.folder):
                left = end_orphans(self._with_owners(earlier), shared=self.shared, but={*successors, *own_ancestors()})
            if left:
                raise StoreError(f"Runtime {row.id} cannot be started again: {describe_orphans(left[row.id])}.")
        with self._writing() as database:
            tables.insert_runtime(database, row._replace(state="waiting"))

    def acquire(
        self, runtime: str, devices: Sequence[Device], *, quota: float | None = None
    ) -> tuple[Lease, ...] | QueuePosition:
        """The runtime's cards, or its place in the queue: then ask again. A CPU runtime gets ().

        `devices` is what the machine has now; `quota` the card-seconds that a person may use in a week. Raises
        DeviceUnusable where no waiting would help, CardsTaken where the person's week is used up.
        """
        _, left = self._reap()
        with self._writing() as database:
            rows = list(tables.read_runtimes(database).values())
            row = next((row for row in rows if row.id == runtime), None)
            if row is None:
                raise _unknown(runtime)
            leases = tables.read_leases(database)
            own = tuple(lease for lease in leases if lease.runtime == runtime)
            if row.want.kind is not None and not own:
                check_possible(row.want, devices)
                if quota is not None:
                    _refuse_the_spent(database, row, quota)
                waiting = self._waiting(rows, leases)
                chosen = allocate(runtime, [(one.id, one.want) for one in waiting], devices, _booked(leases))
                if chosen is None:
                    place = _place(row, waiting)
                    return QueuePosition(
                        place, explain_wait(row.want, devices, _holdings(leases, rows, left), place - 1)
                    )
                own = tuple(Lease(runtime, device.uuid, row.want.parts) for device in chosen)
                tables.insert_leases(database, own, time.time())
            if row.state == "waiting":
                tables.update_runtime(database, runtime, {"state": "starting"})
            return own

    def update(self, runtime: str, **columns: object) -> None:
        """Change fields of a runtime's row, named as in RuntimeRow."""
        with self._writing() as database:
            if not tables.update_runtime(database, runtime, columns):
                raise _unknown(runtime)

    def add_usage(self, runtime: str, seconds: float, card_seconds: float, units: float) -> None:
        """Add to what the runtime used today (UTC)."""
        if min(seconds, card_seconds, units) < 0:
            raise ValueError("usage only grows: measure it with a clock that does not jump (time.monotonic)")
        with self._writing() as database:
            if not tables.add_usage(database, runtime, _day(time.time()), (seconds, card_seconds, units)):
                raise _unknown(runtime)
            os.utime(self._layout.lock(runtime))  # systemd clears /var/tmp of what nobody has touched for 30 days

    def release(self, runtime: str) -> None:
        """Row and leases gone, lock file removed: for whoever holds the lock and has seen the last process end."""
        path = self._layout.lock(runtime)
        try:
            with self._writing() as database:
                tables.delete_runtime(database, runtime)
        finally:  # a row without a lock file is dead: where the disk is full, whoever asks later frees its cards
            locks.remove(path)

    # -- what is there

    def runtimes(self) -> list[RuntimeRow]:
        """All of them, in the order in which they came; also those that died and are not cleared away yet (`alive`)."""
        with self._reading() as database:
            return list(tables.read_runtimes(database).values())

    def leases(self) -> list[Lease]:
        """Who holds which device."""
        with self._reading() as database:
            return list(tables.read_leases(database))

    def usage(self, since_day: str) -> list[UsageRow]:
        """What was used on that day ("2026-11-15", UTC) and later."""
        with self._reading() as database:
            return tables.read_usage(database, since_day)

    def card_seconds_this_week(self, uid: int) -> float:
        """What a person has used since Monday (UTC), in seconds of whole cards."""
        with self._reading() as database:
            return _spent(database, uid)

    def place(self, runtime: str) -> int | None:
        """Its place in the queue of its kind, 1 is next; None where it does not wait."""
        with self._reading() as database:
            waiting = self._waiting(tables.read_runtimes(database).values(), tables.read_leases(database))
        return next((_place(row, waiting) for row in waiting if row.id == runtime), None)

    def alive(self, runtime: str) -> bool:
        """Whether its lock is held."""
        with store_errors(self.folder):
            return locks.is_held(self._layout.lock(runtime))

    def limits(self) -> dict[str, float | None] | None:
        """What the administrator of a shared store has laid down, by the names of plan.Limits; None: nothing."""
        with store_errors(self.folder):
            return self._layout.limits()

    # -- the dead

    def reap(self) -> list[str]:
        """End what dead runtimes left, as far as this user may; the runtimes whose cards are free now."""
        freed, _ = self._reap()
        self._sweep_locks()
        return freed

    def _reap(self) -> tuple[list[str], dict[str, list[Orphan]]]:
        """Those that were freed, and what is left of the others."""
        with self._reading() as database:
            rows = tables.read_runtimes(database)
        dead = {seq: row for seq, row in rows.items() if not self.alive(row.id)}
        if not dead:
            return [], {}
        with self._reading() as database:  # `release` takes the row away before the lock: who was released is not dead
            dead = {seq: row for seq, row in tables.read_runtimes(database).items() if seq in dead}
        with store_errors(self.folder):
            left = end_orphans(self._with_owners(dead.values()), shared=self.shared)
        freed = []
        with self._writing() as database:
            for seq, row in dead.items():
                path = self._layout.lock(row.id)
                # Asked again: a successor of the same id may have come meanwhile. It cannot while we are in here.
                with locks.if_unheld(path) as unheld:
                    if unheld and row.id not in left:
                        if tables.delete_row(database, seq):
                            freed.append(row.id)
                        locks.remove(path)
        return freed, left

    def _with_owners(self, rows: Iterable[RuntimeRow]) -> list[tuple[RuntimeRow, int | None]]:
        """Each with the user whose processes may be ended for it."""
        fallback = None if self.shared else self._file.st_uid
        owners = ((row, locks.owner(self._layout.lock(row.id))) for row in rows)
        return [(row, fallback if owner is None else owner) for row, owner in owners]

    def _sweep_locks(self) -> None:
        """Remove lock files without a row: in a shared store only their owner can, also after others freed the card."""
        known = {row.id for row in self.runtimes()}
        with store_errors(self.folder):
            for name in os.listdir(self._layout.locks):
                if name.endswith(".lock") and name.removesuffix(".lock") not in known:
                    path = os.path.join(self._layout.locks, name)
                    with locks.if_unheld(path) as unheld:
                        if unheld:
                            locks.remove(path)

    def _waiting(self, rows: Iterable[RuntimeRow], leases: Mapping[Lease, float]) -> list[RuntimeRow]:
        """Those who wait for cards and live, in the order of the queue."""
        served = {lease.runtime for lease in leases}
        asking = [row for row in rows if row.state == "waiting" and row.want.kind is not None and row.id not in served]
        return [row for row in asking if self.alive(row.id)]

    # -- transactions

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One state of things, whatever others write meanwhile."""
        with self._transaction("BEGIN") as database:
            yield database

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Alone from the first line: what is read in here is still so when it is written."""
        with self._transaction("BEGIN IMMEDIATE") as database:
            if not os.path.samestat(os.stat(self._layout.database), self._file):
                raise StoreError(f"The database in {self.folder} was replaced while it was in use.")
            yield database

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._pid:
            raise _carried_over_a_fork()
        with self._guard, store_errors(self.folder):
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")


# Open stores. A child that opens a database which its parent had open at the fork
# inherits SQLite's belief that it holds locks, and can damage it (sqlite.org/howtocorrupt.html, 2.6).
_opened: WeakSet[Store] = WeakSet()


def _carried_over_a_fork() -> StoreError:
    return StoreError("A store was open while its process forked: close it before the fork, and open it in the child.")


def _unknown(runtime: str) -> StoreError:
    return StoreError(f"Runtime {runtime} is not in the store: it has ended.")


def _booked(leases: Iterable[Lease]) -> dict[str, int]:
    booked: dict[str, int] = {}
    for lease in leases:
        booked[lease.device] = booked.get(lease.device, 0) + lease.parts
    return booked


def _holdings(
    leases: Mapping[Lease, float], rows: Sequence[RuntimeRow], left: Mapping[str, Sequence[Orphan]]
) -> list[Holding]:
    by_id = {row.id: row for row in rows}
    remains = {runtime: describe_orphans(some) for runtime, some in left.items()}
    return [
        Holding(lease.device, lease.parts, since, by_id[lease.runtime], remains.get(lease.runtime, ""))
        for lease, since in leases.items()
    ]


def _place(row: RuntimeRow, waiting: Sequence[RuntimeRow]) -> int:
    kind = [one.id for one in waiting if one.want.kind == row.want.kind]
    return kind.index(row.id) + 1 if row.id in kind else len(kind) + 1


def _refuse_the_spent(database: sqlite3.Connection, row: RuntimeRow, quota: float) -> None:
    used = _spent(database, row.uid)
    if used >= quota:
        raise CardsTaken(
            f"{row.person} has used {used / _HOUR:.1f} h of cards this week; {quota / _HOUR:.1f} h are allowed.",
            hint="The next week begins on Monday, 00:00 UTC. CPU runtimes can be started at any time.",
        )


def _spent(database: sqlite3.Connection, uid: int) -> float:
    now = time.time()
    monday = now - time.gmtime(now).tm_wday * _DAY
    return tables.card_seconds(database, uid, _day(monday), _day(monday + 6 * _DAY))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))
