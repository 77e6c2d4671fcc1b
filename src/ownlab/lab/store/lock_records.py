"""What a runtime writes into its lock file: its row and its leases.

The database may be damaged, lost or replaced while runtimes live. A held lock then still says which cards are taken, and who
can be asked to end. Only its owner can write the file, and no one can fake that it is held, so it is trusted before a row.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from ownlab.lab.store import locks
from ownlab.lab.store.columns import from_columns, is_valid_id, lease_from_values, to_columns
from ownlab.lab.store.orphans import runtime_of_process
from ownlab.lab.store.rows import Lease, RuntimeRow
from ownlab.processes.procfs import UNSEEN, all_processes, process_started

__all__ = [
    "HeldLocks",
    "LockRecord",
    "find_lost_locks",
    "holds_lock_elsewhere",
    "lock_ids",
    "read_held",
    "read_record",
    "write_record",
]

# Padded to this, so that an update needs no new space on a full disk.
_BLOCK = 4096
_LARGEST = 16 * _BLOCK  # a notebook's path has at most 4096 bytes
# A record is read again if it is being written at this moment.
_ATTEMPTS, _PAUSE = 5, 0.01


class LockRecord(NamedTuple):
    """A living runtime, as it describes itself."""

    store: str  # the folder of the store, as its supervisor was given it
    row: RuntimeRow
    leases: tuple[Lease, ...] = ()


class HeldLocks(NamedTuple):
    """The locks that are held."""

    records: list[LockRecord]
    unreadable: list[str]  # runtimes whose lock contains something else: nobody knows which cards they hold


def write_record(path: str, record: LockRecord) -> None:
    """Write into a lock file that this user holds. Raises OSError."""
    leases = [(lease.device, lease.parts) for lease in record.leases]
    content = json.dumps({"store": record.store, "row": to_columns(record.row._asdict()), "leases": leases}).encode()
    content = content.ljust(-(-len(content) // _BLOCK) * _BLOCK)
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def read_record(path: str) -> LockRecord | bytes:
    """Return the record in a lock file; otherwise the file's content: nothing yet, or something that is not a record."""
    content = b""
    for _ in range(_ATTEMPTS):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return b""
        try:
            owner, content = _read(descriptor)
        finally:
            os.close(descriptor)
        record = _parse(content)
        # The owner of the file cannot be forged; the name is what is locked.
        if record is not None and record.row.uid == owner and os.path.basename(path) == f"{record.row.id}.lock":
            return record
        if not content:
            return b""
        time.sleep(_PAUSE)
    return content


def read_held(folder: str, known: Container[str] = ()) -> HeldLocks:
    """Read the records of all held locks in a store's folder of locks, except those of `known`. Raises OSError."""
    records, unreadable = [], []
    for runtime in lock_ids(folder):
        path = os.path.join(folder, f"{runtime}.lock")
        if runtime in known or not locks.is_held(path):
            continue
        record = read_record(path)
        if isinstance(record, LockRecord):
            records.append(record)
        elif record:
            unreadable.append(runtime)
    records.sort(key=lambda record: record.row.queued_at)
    return HeldLocks(records, unreadable)


def lock_ids(folder: str) -> list[str]:
    """Return the runtimes that have a lock file, held or not."""
    ids = (name.removesuffix(".lock") for name in sorted(os.listdir(folder)) if name.endswith(".lock"))
    return [runtime for runtime in ids if is_valid_id(runtime)]


def holds_lock_elsewhere(row: RuntimeRow) -> bool:
    """Whether the row's supervisor or keeper holds a lock file of this runtime that was removed or moved away."""
    return any(
        process_started(process.pid) == process.started and next(_open_locks(process.pid, row.id), "")
        for process in (row.supervisor, row.keeper)
    )


def find_lost_locks(store: str, known: Container[str]) -> list[LockRecord]:
    """Return runtimes of this store whose lock files were removed or moved away while they live, except `known`.

    Their processes still have the files open. Only the user's own processes can be examined (root: all).
    """
    found: dict[str, LockRecord] = {}
    for process in all_processes().values():
        runtime = runtime_of_process(process.pid)
        if not runtime or runtime in known or runtime in found:
            continue
        for path in _open_locks(process.pid, runtime):
            record = _read_open(path)
            if record is not None and record.store == store and record.row.id == runtime:
                found[runtime] = record
    return list(found.values())


def _open_locks(pid: int, runtime: str) -> Iterator[str]:
    """Yield the open descriptors of a process that are a lock file of this runtime, as paths below /proc."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            path = f"{folder}/{number}"
            if os.path.basename(os.readlink(path)).removesuffix(" (deleted)") == f"{runtime}.lock":
                yield path
    except UNSEEN:
        return


def _read_open(path: str) -> LockRecord | None:
    for _ in range(_ATTEMPTS):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            _, content = _read(descriptor)
        finally:
            os.close(descriptor)
        record = _parse(content)
        if record is not None or not content:
            return record
        time.sleep(_PAUSE)
    return None


def _read(descriptor: int) -> tuple[int, bytes]:
    """Return the owner and the content of an open lock file; no content if it is no file."""
    status = os.fstat(descriptor)
    content = os.pread(descriptor, _LARGEST + 1, 0) if stat.S_ISREG(status.st_mode) else b""
    return status.st_uid, content


def _parse(content: bytes) -> LockRecord | None:
    if len(content) > _LARGEST:
        return None
    try:
        given: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict) or not isinstance(given.get("store"), str) or not isinstance(given.get("row"), dict):
        return None
    row, listed = from_columns(given["row"]), given.get("leases")
    if row is None or not isinstance(listed, list):
        return None
    leases = [lease_from_values(row.id, *pair) for pair in listed if isinstance(pair, list) and len(pair) == 2]
    if len(leases) != len(listed) or None in leases:
        return None
    return LockRecord(given["store"], row, tuple(lease for lease in leases if lease is not None))
