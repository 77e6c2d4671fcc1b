"""A shared store as its administrator creates it."""

from __future__ import annotations

import grp
import json
import os
import stat
from pathlib import Path

import pytest

from ownlab.errors import StoreError, UsageError
from ownlab.lab.store.setup import init_shared
from ownlab.lab.store.store import Store

MINE = {os.getgid(), *os.getgroups()}


@pytest.fixture
def group() -> str:
    """A group with a name, to which files may be given."""
    name = next((entry.gr_name for entry in grp.getgrall() if entry.gr_gid in MINE), None)
    return name or pytest.skip("this user is in no group that has a name")


def modes(folder: Path) -> dict[str, int]:
    permissions = {path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    return {".": stat.S_IMODE(folder.stat().st_mode)} | permissions


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_a_groups_store_has_its_permissions_whatever_the_umask(folder: Path, umask: int, group: str) -> None:
    before = os.umask(umask)
    try:
        init_shared(folder, group=group)
        with Store.open(folder) as store:
            assert store.shared
            os.close(store.hold("a"))
            assert modes(folder) == {
                ".": 0o750,
                "policy.json": 0o644,
                "db": 0o2770,
                "db/ownlab.db": 0o660,
                "db/ownlab.db-wal": 0o660,
                "db/ownlab.db-shm": 0o660,
                "locks": 0o3770,
                "locks/a.lock": 0o644,
            }
    finally:
        os.umask(before)


def test_a_store_for_everyone(folder: Path) -> None:
    init_shared(folder)
    permissions = modes(folder)
    assert (permissions["."], permissions["db"], permissions["db/ownlab.db"], permissions["locks"]) == (
        0o755,
        0o2777,
        0o666,
        0o3777,
    )


def test_limits_are_kept_in_a_file_that_members_cannot_write(folder: Path) -> None:
    init_shared(folder, limits={"idle": 5400.0, "session": None})
    with Store.open(folder) as store:
        assert store.limits() == {"idle": 5400.0, "session": None}
        init_shared(folder)
        assert store.limits() is None


def test_running_it_again_keeps_the_data(folder: Path, group: str) -> None:
    init_shared(folder)
    with Store.open(folder) as store:
        lock = store.hold("a")
        store._connection.execute("INSERT INTO usage VALUES ('2026-11-15', 1, 'ann', 'a', '', '', NULL, 1, 1, 1)")
        init_shared(folder, group=group, limits={"idle": 60.0})
        assert len(store.usage("2026-11-15")) == 1
        assert store.is_alive("a")
        assert modes(folder)["db/ownlab.db-wal"] == 0o660
        os.close(lock)
    assert json.loads((folder / "policy.json").read_text())["group"] == group


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "cannot be used"),
        ("[]", "no table of limits"),
        ('{"limits": 7}', "no table of limits"),
        ('{"limits": {"idle": "long"}}', "idle = 'long' is not a limit"),
        ('{"limits": {"idle": -1}}', "idle = -1 is not a limit"),
        ('{"limits": {"naps": 5}}', "naps = 5 is not a limit"),
    ],
)
def test_an_invalid_policy_is_reported(folder: Path, text: str, why: str) -> None:
    init_shared(folder)
    (folder / "policy.json").write_text(text)
    with Store.open(folder) as store, pytest.raises(StoreError, match=why):
        store.limits()


def test_a_group_that_does_not_exist_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="There is no group 'no-such-group'"):
        init_shared(folder, group="no-such-group")
    assert not folder.exists()


@pytest.mark.parametrize("limits", [{"naps": 5.0}, {"idle": -1.0}])
def test_invalid_limits_are_refused(folder: Path, limits: dict[str, float | None]) -> None:
    with pytest.raises(UsageError, match="limit"):
        init_shared(folder, limits=limits)
    assert not folder.exists()


def test_a_folder_that_is_not_a_store_is_not_touched(folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="exists and is not a store"):
        init_shared(folder)
    assert os.listdir(folder) == ["thesis.txt"]


def test_a_private_store_is_not_opened_up(folder: Path) -> None:
    Store.open(folder).close()
    with pytest.raises(StoreError, match="is a private store"):
        init_shared(folder)
    assert modes(folder)["db/ownlab.db"] == 0o600


def test_an_empty_folder_is_accepted(folder: Path) -> None:
    folder.mkdir()
    init_shared(folder)
    with Store.open(folder) as store:
        assert store.shared


def test_a_link_in_the_database_folder_changes_no_other_file(folder: Path, tmp_path: Path) -> None:
    init_shared(folder)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    secret.chmod(0o600)
    (folder / "db" / "ownlab.db-wal").symlink_to(secret)
    with pytest.raises(StoreError, match="is a link"):
        init_shared(folder)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_a_member_does_not_recreate_a_shared_stores_database(folder: Path) -> None:
    init_shared(folder)
    (folder / "db" / "ownlab.db").unlink()
    with pytest.raises(StoreError, match="has lost its database"):
        Store.open(folder)
    init_shared(folder)
    Store.open(folder).close()
