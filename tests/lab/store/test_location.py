"""Which store is chosen, and its notices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.config.settings import LabOptions
from ownlab.errors import StoreError
from ownlab.lab.store.location import choose_store, mount_of, view_store
from ownlab.lab.store.setup import init_shared
from ownlab.lab.store.store import Store

LOCAL = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
HOME_ON_NFS = LOCAL + "21 20 0:40 / /home rw - nfs4 server:/home rw\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a machine's folders; `mount` writes its mounts."""
    made = tmp_path / "root"
    for folder in ("var/lib", "var/tmp", "home/ann", "proc/self"):
        (made / folder).mkdir(parents=True)
    return made


def mount(root: Path, table: str) -> dict[str, str]:
    (root / "proc/self/mountinfo").write_text(table)
    return {"HOME": str(root / "home/ann")}


def test_the_default_is_the_users_own_store(root: Path) -> None:
    choice = choose_store(LabOptions(), mount(root, LOCAL), root=root)
    assert choice.folder == str(root / "home/ann/.local/state/ownlab/store")
    assert (choice.shared, choice.notice) == (False, "")
    assert os.listdir(root / "home/ann") == []


def test_a_named_store_takes_precedence(root: Path) -> None:
    options = LabOptions(store_folder=str(root / "asked"), origins={"store.folder": "OWNLAB_STORE"})
    choice = choose_store(options, mount(root, LOCAL), root=root)
    assert (choice.folder, choice.origin, choice.notice) == (str(root / "asked"), "named by OWNLAB_STORE", "")


def test_a_named_store_on_a_network_file_system_is_used_with_a_warning(root: Path) -> None:
    options = LabOptions(store_folder=str(root / "home/ann/store"))
    choice = choose_store(options, mount(root, HOME_ON_NFS), root=root)
    assert choice.folder == str(root / "home/ann/store")
    assert "network file system (nfs4)" in choice.notice


def test_the_machines_shared_store_takes_precedence_over_the_users_own(root: Path) -> None:
    init_shared(root / "var/lib/ownlab")
    choice = choose_store(LabOptions(), mount(root, LOCAL), root=root)
    assert (choice.folder, choice.shared) == (str(root / "var/lib/ownlab"), True)
    assert choice.origin == "this machine has a shared store"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_shared_store_without_permission_gives_a_notice(root: Path) -> None:
    init_shared(root / "var/lib/ownlab")
    (root / "var/lib/ownlab/db").chmod(0o500)
    choice = choose_store(LabOptions(), mount(root, LOCAL), root=root)
    assert not choice.shared
    assert "You may not use this machine's shared store" in choice.notice


def test_a_home_on_the_network_has_its_store_on_a_local_disk(root: Path) -> None:
    environ = mount(root, HOME_ON_NFS)
    for _ in range(2):  # made, then found
        choice = choose_store(LabOptions(), environ, root=root)
        assert choice.folder == str(root / f"var/tmp/ownlab-{os.geteuid()}")
        assert os.stat(choice.folder).st_mode & 0o777 == 0o700
        assert "Your home is on a network file system (nfs4)" in choice.notice


@pytest.mark.parametrize("trap", ["link", "open", "file"])
def test_a_folder_that_another_user_may_have_created_is_refused(root: Path, trap: str) -> None:
    path = root / f"var/tmp/ownlab-{os.geteuid()}"
    if trap == "link":
        path.symlink_to(root / "home")
    elif trap == "file":
        path.touch(0o600)
    else:
        path.mkdir(0o700)
        path.chmod(0o770)
    with pytest.raises(StoreError, match="is not private"):
        choose_store(LabOptions(), mount(root, HOME_ON_NFS), root=root)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(root: Path) -> None:
    path = root / f"var/tmp/ownlab-{os.geteuid()}"
    path.mkdir(0o700)
    os.chown(path, 65534, 65534)
    with pytest.raises(StoreError, match="is not private"):
        choose_store(LabOptions(), mount(root, HOME_ON_NFS), root=root)


def test_the_last_of_several_mounts_on_one_point_counts(root: Path) -> None:
    mount(root, HOME_ON_NFS + "22 20 8:2 / /home rw - xfs /dev/sdb1 rw\n23 20 0:9 / /homeless rw - nfs4 x:/ rw\n")
    newest = mount_of(str(root / "home/ann/not/there/yet"), root)
    assert newest is not None
    assert (newest.point, newest.filesystem) == ("/home", "xfs")


def test_without_a_mount_table_there_is_no_warning(root: Path) -> None:
    assert mount_of(str(root), root) is None


def test_a_store_is_described_as_it_is(tmp_path: Path) -> None:
    options = LabOptions(store_folder=str(tmp_path / "store"))
    before = view_store(choose_store(options))
    assert (before.made, before.mode, before.limits) == (False, None, None)
    Store.open(tmp_path / "store").close()
    after = view_store(choose_store(options))
    assert (after.made, after.shared, after.mode) == (True, False, "drwx------")


def test_the_limits_of_a_shared_store_are_shown(tmp_path: Path) -> None:
    init_shared(tmp_path / "store", limits={"idle": 5400})
    view = view_store(choose_store(LabOptions(store_folder=str(tmp_path / "store"))))
    assert (view.shared, view.limits) == (True, {"idle": 5400})
