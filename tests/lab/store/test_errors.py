"""A full disk, a read-only folder, a locked database: errors are explained, and nothing is lost."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import StoreError
from ownlab.lab.store.errors import store_errors
from ownlab.lab.store.rows import CardRequest
from ownlab.lab.store.store import Store

# Adds usage until the disk is full, prints the error, then gets space again and continues.
FULL = """
import json, resource, sys
sys.path.insert(0, sys.argv[2])
import person
from ownlab.errors import StoreError
one = person.Person(sys.argv[1], "ann")
one.look([{"uuid": "GPU-0", "vendor": "nvidia", "number": 0, "name": "X", "strangers": []}])
one.come("a", ["X", 1])
one.acquire("a")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, hard))
added, errors = 0, []
for _ in range(400):
    try:
        one.use("a", 1.0)
        added += 1
    except StoreError as exc:
        errors.append(exc.message)
try:
    one.come("b", ["X", 1])
except StoreError as exc:
    errors.append(exc.message)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
one.use("a", 1.0)
print(json.dumps([added + 1, errors]))
one.store.close()
"""


def test_a_full_disk_loses_nothing(folder: Path) -> None:
    argv = [sys.executable, "-c", FULL, str(folder), str(Path(__file__).parent)]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    added, answer = json.loads(ran.stdout)
    assert answer
    assert all("cannot be used" in message for message in answer), answer
    with Store.open(folder) as store:
        assert store.usage("0000-00-00")[0].card_seconds == added
        assert store.reap() == ["a"]
        assert store.leases() == []


def test_a_read_only_store_raises_a_store_error(open_folder: Path, someone: Callable[..., Any], refused: Any) -> None:
    if os.getuid() == 0:
        uid: int | None = 54321
    else:
        uid = None
    place = open_folder / "store"
    Store.open(place).close()
    for path, mode in (
        (place / "db" / "ownlab.db", 0o444),
        (place / "db", 0o555),
        (place / "locks", 0o555),
        (place, 0o555),
    ):
        if uid is not None:
            os.chown(path, uid, uid)
        path.chmod(mode)
    try:
        with pytest.raises(refused, match=r"is not writable|cannot be opened") as raised:
            someone("ann", uid=uid, at=place).ask("come", runtime="a", want=CardRequest())
        assert raised.value.kind == "StoreError"
        assert raised.value.hint
    finally:
        for path in (place, place / "db", place / "locks"):
            path.chmod(0o755)


def test_a_folder_where_no_store_can_be_created_raises_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(StoreError, match=r"cannot be used: (Not a directory|File exists)"):
            Store.open(place)


@pytest.fixture
def locked(folder: Path) -> Iterator[None]:
    Store.open(folder).close()
    other = sqlite3.connect(folder / "db" / "ownlab.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.usefixtures("locked")
def test_a_database_that_stays_locked_raises_a_store_error(folder: Path) -> None:
    with Store.open(folder) as store:
        assert store.runtimes() == []  # who only reads does not wait
        store._connection.execute("PRAGMA busy_timeout = 50")
        with pytest.raises(StoreError, match="has locked it") as raised:
            store.release("a")
    assert "Try again" in raised.value.hint


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (sqlite3.OperationalError("database or disk is full"), "the disk is full"),
        (sqlite3.OperationalError("something new"), "failed: something new"),
        (OSError(28, "No space left on device", "/x/y"), r"No space left on device \(/x/y\)"),
        (OSError(30, "Read-only file system"), "Read-only file system"),
    ],
)
def test_every_failure_has_a_message(raised: Exception, message: str) -> None:
    with pytest.raises(StoreError, match=message) as caught, store_errors("/x"):
        raise raised
    assert caught.value.__cause__ is raised
