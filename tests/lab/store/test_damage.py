"""A store that was damaged, lost or replaced while runtimes live: nothing is leased twice, and what is wrong is said."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import StoreError
from ownlab.lab.store.locks_only import LocksOnly, open_any
from ownlab.lab.store.rows import CardRequest, Device
from ownlab.lab.store.setup import init_shared, repair
from ownlab.lab.store.store import Store

KIND = "NVIDIA H200"
ONE, BOTH, HALF = CardRequest(KIND, 1), CardRequest(KIND, 2), CardRequest(KIND, 1, 6)
ANN, BOB = 54321, 54322


def truncated(database: Path) -> None:
    content = database.read_bytes()
    database.write_bytes(content[: len(content) // 2 - 100])


def other_tables(database: Path) -> None:
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE runtimes (name TEXT)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()


def replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(database: Path) -> None:
        database.unlink()
        make(database)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbage": lambda database: database.write_bytes(os.urandom(20_000)),
    "truncated": truncated,
    "other tables": other_tables,
    "a pipe": replaced_by(os.mkfifo),
    "a folder": replaced_by(os.mkdir),
    "a link": replaced_by(lambda database: database.symlink_to("/etc/passwd")),
    "a link to itself": replaced_by(lambda database: database.symlink_to(database)),
    "a pipe as its log": lambda database: os.mkfifo(f"{database}-wal"),
    "a link as its log": lambda database: os.symlink("/etc/passwd", f"{database}-wal"),
}


@pytest.fixture(params=sorted(DAMAGES))
def damage(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return DAMAGES[request.param]


def without_log(folder: Path) -> Path:
    """The database of a store, with all of it in one file."""
    database = folder / "db" / "ownlab.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for end in ("-wal", "-shm"):
        Path(f"{database}{end}").unlink(missing_ok=True)
    return database


@pytest.mark.timeout(600)
def test_a_damaged_database_is_named_with_what_to_do(folder: Path, damage: Callable[[Path], object]) -> None:
    Store.open(folder).close()
    damage(without_log(folder))
    opened = open_any(str(folder))
    assert isinstance(opened, LocksOnly)
    assert str(folder) in opened.trouble
    assert "ownlab store repair" in opened.trouble
    assert (opened.runtimes(), opened.leases()) == ([], [])


@pytest.mark.timeout(600)
def test_a_new_database_does_not_lease_held_cards_again(
    folder: Path, someone: Callable[..., Any], damage: Callable[[Path], object]
) -> None:
    holder = someone("ann")
    holder.ask("come", runtime="holder", want=ONE)
    assert holder.ask("acquire", runtime="holder")["devices"] == ["GPU-0"]
    damage(without_log(folder))

    found = open_any(str(folder))
    assert [(row.id, row.person) for row in found.runtimes()] == [("holder", "ann")]
    assert [lease.device for lease in found.leases()] == ["GPU-0"]
    aside = repair(folder)
    assert os.path.lexists(aside)

    newcomer = someone("bob")
    newcomer.ask("come", runtime="both", want=BOTH)
    waiting = newcomer.ask("acquire", runtime="both")
    assert "ann, holder.ipynb" in waiting["why"]
    newcomer.ask("release", runtime="both")
    newcomer.ask("come", runtime="one", want=ONE)
    assert newcomer.ask("acquire", runtime="one")["devices"] == ["GPU-1"]

    holder.die()
    newcomer.ask("come", runtime="next", want=ONE)
    assert newcomer.ask("acquire", runtime="next")["devices"] == ["GPU-0"]


def test_shares_of_unregistered_runtimes_are_counted(folder: Path, someone: Callable[..., Any]) -> None:
    holder = someone("ann")
    holder.ask("come", runtime="half", want=HALF)
    assert holder.ask("acquire", runtime="half")["devices"] == ["GPU-0"]
    shutil.rmtree(folder / "db")
    newcomer = someone("bob")
    for name in ("a", "b", "c"):
        newcomer.ask("come", runtime=name, want=HALF)
    given = [newcomer.ask("acquire", runtime=name)["devices"] for name in ("a", "b", "c")]
    assert given == [["GPU-0"], ["GPU-1"], ["GPU-1"]]


@pytest.mark.parametrize("how", ["removed", "moved", "locks removed"])
def test_a_store_that_is_gone_is_not_forgotten(folder: Path, someone: Callable[..., Any], how: str) -> None:
    """The lock of the first holder is gone with the store: it is found through the open files of its processes."""
    os.environ["OWNLAB_RUNTIME"] = "holder"  # as every process of a runtime has it
    try:
        holder = someone("ann")
    finally:
        del os.environ["OWNLAB_RUNTIME"]
    holder.ask("come", runtime="holder", want=ONE)
    assert holder.ask("acquire", runtime="holder")["devices"] == ["GPU-0"]
    if how == "moved":
        folder.rename(folder.with_name("elsewhere"))
    else:
        shutil.rmtree(folder if how == "removed" else folder / "locks")
        (folder / "locks").mkdir(parents=True, exist_ok=True)
    newcomer = someone("bob")
    newcomer.ask("come", runtime="one", want=ONE)
    assert newcomer.ask("acquire", runtime="one")["devices"] == ["GPU-1"]
    newcomer.ask("come", runtime="two", want=ONE)
    assert newcomer.ask("acquire", runtime="two")["place"] == 1


def test_a_runtime_without_its_lock_file_is_not_killed(folder: Path, someone: Callable[..., Any]) -> None:
    holder = someone("ann")
    holder.ask("come", runtime="holder", want=ONE)
    holder.ask("acquire", runtime="holder")
    (folder / "locks" / "holder.lock").unlink()
    with Store.open(folder) as store:
        assert store.reap() == []
        assert [row.id for row in store.runtimes()] == ["holder"]
    assert holder.process.poll() is None


def test_a_lock_with_unknown_content_blocks_all_cards(folder: Path, someone: Callable[..., Any]) -> None:
    holder = someone("ann")
    holder.ask("come", runtime="holder", want=ONE)
    holder.ask("acquire", runtime="holder")
    (folder / "locks" / "holder.lock").write_bytes(b"\0" * 4096)
    shutil.rmtree(folder / "db")
    newcomer = someone("bob")
    newcomer.ask("come", runtime="one", want=ONE)
    assert "The lock of runtime holder is damaged" in newcomer.ask("acquire", runtime="one")["why"]


WRONG = [
    ("keeper_pid", "'many'"),
    ("supervisor_pid", "1e30"),
    ("supervisor_pid", "99999999999999"),
    ("kernel_pid", "x'00ff'"),
    ("queued_at", "'yesterday'"),
    ("started_at", "9e999"),
    ("uid", "-1"),
    ("id", "x'00'"),
    ("id", "'../../etc'"),
    ("notebook", "x'ff00'"),
    ("busy", "'yes'"),
    ("want_cards", "x'01'"),
    ("units_per_hour", "'dear'"),
    ("ends_at", "1e300"),
]


@pytest.mark.parametrize(("column", "value"), WRONG)
def test_values_of_the_wrong_type_cost_only_their_own_row(
    folder: Path, someone: Callable[..., Any], devices: list[Device], column: str, value: str
) -> None:
    ann, bob = someone("ann"), someone("bob")
    ann.ask("come", runtime="a", want=ONE)
    bob.ask("come", runtime="b", want=ONE)
    for person, name in ((ann, "a"), (bob, "b")):
        person.ask("acquire", runtime=name)
    with closing(sqlite3.connect(folder / "db" / "ownlab.db")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE runtimes SET {column} = {value} WHERE id = 'a'")
        connection.commit()
    with Store.open(folder) as store:
        assert sorted(row.id for row in store.runtimes()) == ["a", "b"]  # a from its lock
        assert sorted(lease.device for lease in store.leases()) == ["GPU-0", "GPU-1"]
        assert store.reap() == []
    bob.ask("come", runtime="c", want=ONE)
    assert bob.ask("acquire", runtime="c")["place"] == 1
    ann.die()
    assert bob.ask("acquire", runtime="c")["devices"] == ["GPU-0"]


@pytest.mark.parametrize("values", ["'a', x'00', 12", "'a', 'GPU-0', 'all'", "'nobody', 'GPU-0', 12", "7, 8, 9"])
def test_leases_that_make_no_sense_take_no_card(folder: Path, someone: Callable[..., Any], values: str) -> None:
    Store.open(folder).close()
    with closing(sqlite3.connect(folder / "db" / "ownlab.db")) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"INSERT INTO leases VALUES ({values}, 'then')")
        connection.commit()
    ann = someone("ann")
    ann.ask("come", runtime="both", want=BOTH)
    assert ann.ask("acquire", runtime="both")["devices"] == ["GPU-0", "GPU-1"]


def test_usage_that_makes_no_sense_is_left_out(folder: Path) -> None:
    with Store.open(folder) as store:
        for values in ("'2026-99-99', 0, 'a', 'r', '', '', NULL, 1, 1, 1", "x'ff', 0, 'a', 'q', '', '', NULL, 1, 1, 1"):
            store._connection.execute(f"INSERT INTO usage VALUES ({values})")
        store._connection.execute("INSERT INTO usage VALUES ('2026-11-15', 0, 'a', 'p', '', '', NULL, 'long', 1, 1)")
        store._connection.execute("INSERT INTO usage VALUES ('2026-11-15', 0, 'a', 's', '', '', NULL, 1, 1, 1)")
        assert [row.runtime for row in store.usage("0000-00-00")] == ["s"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("content", [b"\xff\xfe", b"[" * 200_000, b'{"limits": 3}', None])
def test_a_damaged_policy_is_reported(folder: Path, content: bytes | None) -> None:
    Store.open(folder).close()
    if content is None:
        os.mkfifo(folder / "policy.json")
    else:
        (folder / "policy.json").write_bytes(content)
    with Store.open(folder) as store, pytest.raises(StoreError, match=r"policy\.json cannot be used"):
        store.limits()


def test_repair_leaves_a_sound_store_alone(folder: Path) -> None:
    Store.open(folder).close()
    before = (folder / "db" / "ownlab.db").read_bytes()
    assert repair(folder) == ""
    assert (folder / "db" / "ownlab.db").read_bytes() == before


def test_a_log_without_its_database_is_not_applied_to_the_new_one(folder: Path) -> None:
    with Store.open(folder) as store:
        store._connection.execute("INSERT INTO usage VALUES ('2026-11-15', 0, 'a', 's', '', '', NULL, 1, 1, 1)")
        (folder / "db" / "ownlab.db").unlink()  # its log remains
        with Store.open(folder) as new:
            assert new.usage("0000-00-00") == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become two users")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["garbage", "a pipe", "a link", "a folder"])
def test_several_users_keep_their_cards_when_the_shared_database_is_replaced(
    open_folder: Path, someone: Callable[..., Any], refused: Any, name: str
) -> None:
    place = open_folder / "store"
    init_shared(place)
    ann, bob = (someone(person, uid=uid, at=place) for person, uid in (("ann", ANN), ("bob", BOB)))
    ann.ask("come", runtime="a", want=ONE)
    assert ann.ask("acquire", runtime="a")["devices"] == ["GPU-0"]
    DAMAGES[name](without_log(place))
    with pytest.raises(refused) as raised:
        someone("bob", uid=BOB, at=place)
    assert "ownlab store repair" in raised.value.hint
    repair(place)

    again = someone("bob", uid=BOB, at=place)
    again.ask("come", runtime="b", want=BOTH)
    assert "ann, a.ipynb" in again.ask("acquire", runtime="b")["why"]
    again.ask("release", runtime="b")
    again.ask("come", runtime="c", want=ONE)
    assert again.ask("acquire", runtime="c")["devices"] == ["GPU-1"]
    with pytest.raises(refused):  # nobody can write into another's lock
        bob.ask("signal", pid=ann.pid, number=signal.SIGKILL)
