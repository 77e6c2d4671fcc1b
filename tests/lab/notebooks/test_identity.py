"""Notebooks keep their identity when they are renamed, in the lab or by another program."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ownlab.lab.notebooks.identity import (
    all_identities,
    find_identity,
    forget_identities,
    make_identity,
    note_file,
    notebooks_folder,
    rename_identities,
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "work" / "n.ipynb"
    path.parent.mkdir()
    path.write_text("{}")
    return path


def test_a_notebook_has_one_identity(path: Path) -> None:
    assert find_identity(str(path)) is None
    made = make_identity(str(path))
    assert make_identity(str(path)) == find_identity(str(path)) == made
    link = path.with_name("link.ipynb")
    link.symlink_to(path)
    assert find_identity(str(link)) == made
    assert notebooks_folder().stat().st_mode & 0o077 == 0


def test_a_notebook_that_many_threads_meet_at_once_has_one_identity(path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        made = list(threads.map(lambda _: make_identity(str(path)).id, range(64)))
    assert len(set(made)) == 1
    assert [each.id for each in all_identities()] == made[:1]


def test_renaming_a_notebook_or_a_folder_above_it(path: Path) -> None:
    made = make_identity(str(path))
    new = path.with_name("new.ipynb")
    path.rename(new)
    rename_identities(str(path), str(new))
    assert find_identity(str(path)) is None
    folder = path.parent.rename(path.parent.with_name("other"))
    rename_identities(str(path.parent), str(folder))
    found = find_identity(str(folder / "new.ipynb"))
    assert found is not None
    assert found.id == made.id


def test_a_notebook_moved_by_another_program_is_found_by_its_inode(path: Path) -> None:
    made = make_identity(str(path))
    replacement = path.with_name("x")
    replacement.write_text("{}")
    os.replace(replacement, path)  # as atomic writers do: another inode
    note_file(str(path))
    moved = path.with_name("moved.ipynb")
    path.rename(moved)
    found = find_identity(str(moved))
    assert found is not None
    assert (found.id, found.path) == (made.id, str(moved))


def test_a_copy_is_another_notebook(path: Path) -> None:
    made = make_identity(str(path))
    copy = path.with_name("copy.ipynb")
    os.link(path, copy)  # the same inode, but the first is still there
    assert make_identity(str(copy)).id != made.id


def test_a_deleted_notebook_and_a_new_one_of_its_name(path: Path) -> None:
    made = make_identity(str(path))
    path.unlink()
    assert [each.id for each in forget_identities(str(path.parent))] == [made.id]
    path.write_text("{}")
    again = make_identity(str(path))
    assert again.id != made.id
    assert {each.id: each.deleted_at is None for each in all_identities()} == {made.id: False, again.id: True}


def test_a_damaged_record_is_ignored(path: Path) -> None:
    made = make_identity(str(path))
    (notebooks_folder() / made.id / "about.json").write_text("nonsense")
    assert find_identity(str(path)) is None
    assert make_identity(str(path)).id != made.id
