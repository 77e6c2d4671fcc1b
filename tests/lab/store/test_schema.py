"""The database: its constraints, its creation, and errors of one that cannot be used."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ownlab.errors import StoreError
from ownlab.lab.store import schema
from ownlab.lab.store.store import Store


@pytest.fixture
def database(folder: Path) -> Path:
    Store.open(folder).close()
    return folder / "db" / "ownlab.db"


def enter(connection: sqlite3.Connection, runtime: str) -> None:
    connection.execute(
        "INSERT INTO runtimes (id, uid, person, notebook, type, label, want_cards, want_parts, state, queued_at, boot, "
        "keeper_pid, keeper_started, supervisor_pid, supervisor_started, busy, changed_at, ends_why, may_extend, "
        "units_per_hour) VALUES (?, 0, '', '', '', '', 1, 12, 'running', 0, '', 1, 1, 1, 1, 0, 0, '', 0, 0)",
        (runtime,),
    )


def lease(connection: sqlite3.Connection, runtime: str, parts: int, device: str = "GPU-0") -> None:
    connection.execute("INSERT INTO leases VALUES (?, ?, ?, 0)", (runtime, device, parts))


def test_a_trigger_prevents_double_booking(database: Path) -> None:
    connection = schema.connect(str(database))
    for runtime in ("a", "b", "c"):
        enter(connection, runtime)
    lease(connection, "a", 6)
    lease(connection, "b", 6)
    for runtime, parts in (("c", 1), ("c", 12)):
        with pytest.raises(sqlite3.IntegrityError, match="already leased"):
            lease(connection, runtime, parts)
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute("UPDATE leases SET parts = 1 WHERE runtime = 'a'")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        lease(connection, "c", 0, "GPU-1")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        lease(connection, "nobody", 12, "GPU-1")
    connection.execute("DELETE FROM runtimes WHERE id = 'a'")
    lease(connection, "c", 6)
    assert connection.execute("SELECT sum(parts) FROM leases").fetchone() == (12,)
    connection.close()


def test_it_is_in_wal_mode_and_of_this_version(database: Path) -> None:
    connection = schema.connect(str(database))
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    connection.close()


def test_an_empty_database_is_migrated(database: Path) -> None:
    database.write_bytes(b"")
    with Store.open(database.parents[1]) as store:
        assert store.runtimes() == []


def test_a_newer_database_is_left_alone(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="written by a newer ownlab: its format is 99") as raised:
        Store.open(database.parents[1])
    assert "Update ownlab" in raised.value.hint


def test_a_file_that_is_not_a_database_is_reported_and_kept(database: Path) -> None:
    database.write_bytes(b"a letter to my aunt, and not a short one " * 100)
    with pytest.raises(StoreError, match="its database is damaged") as raised:
        Store.open(database.parents[1])
    assert "ownlab store repair" in raised.value.hint
    assert database.read_bytes().startswith(b"a letter to my aunt")


def test_a_damaged_page_is_reported(database: Path) -> None:
    content = bytearray(database.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    database.write_bytes(content)
    with Store.open(database.parents[1]) as store, pytest.raises(StoreError, match="its database is damaged"):
        store.runtimes()


def test_a_partially_created_database_is_created_again(folder: Path) -> None:
    (folder / "db").mkdir(parents=True)
    (folder / "db" / "ownlab.db.new").write_bytes(b"its maker was killed")
    with Store.open(folder) as store:
        assert store.runtimes() == []
    assert [path.name for path in (folder / "db").iterdir()] == ["ownlab.db"]


def test_a_link_in_its_place_is_refused_and_nothing_is_written(database: Path, tmp_path: Path) -> None:
    victim = tmp_path / "empty"
    victim.touch()
    database.rename(tmp_path / "away")
    database.symlink_to(victim)
    with pytest.raises(StoreError, match="is a link"):
        Store.open(database.parents[1])
    assert victim.read_bytes() == b""


def test_links_in_the_path_are_followed_and_names_need_not_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "f\udce9").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "f\udce9")
    for folder in ("f\udce9", "link"):
        with Store.open(tmp_path / folder / "store") as store:
            assert store.runtimes() == []
