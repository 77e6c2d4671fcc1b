"""Versions of notebooks on disk: shared content, retention, purging, damage."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import InputError, LabError
from ownlab.lab.notebooks.history.records import Reason, Version
from ownlab.lab.notebooks.history.retention import thin_out
from ownlab.lab.notebooks.history.version_store import VersionStore

DAY = 86400.0


def notebook(*sources: str, output: str = "") -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cells = [
        {"id": f"c{number}", "cell_type": "code", "source": source, "metadata": {}, "outputs": outputs,
         "execution_count": number}
        for number, source in enumerate(sources)
    ]  # fmt: skip
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"title": "t"}, "cells": cells}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VersionStore:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "notebooks").mkdir(parents=True)
    return VersionStore("abc", days=90, megabytes=200)


def test_a_version_is_loaded_as_it_was_recorded(store: VersionStore) -> None:
    version = store.record(notebook("x = 1", "y = 2", output="hello"), "edited")
    assert version is not None
    loaded = store.load(version)
    assert [cell["source"] for cell in loaded["cells"]] == ["x = 1", "y = 2"]
    assert loaded["cells"][0]["outputs"][0]["text"] == "hello"
    assert loaded["metadata"] == {"title": "t"}
    assert (version.cells, version.changed) == (2, 2)


def test_the_same_content_is_no_new_version_and_an_execution_is_no_edit(store: VersionStore) -> None:
    assert store.record(notebook("x"), "edited") is not None
    assert store.record(notebook("x"), "edited") is None
    again = notebook("x")
    again["cells"][0]["execution_count"] = 17
    again["cells"][0]["metadata"] = {"execution": {"iopub.status.busy": "now"}}
    assert store.record(again, "edited") is None
    assert store.record(notebook("x"), "named", name="final") is not None


def test_versions_share_what_they_have_in_common(store: VersionStore) -> None:
    big = "".join(f"value_{number} = {number * 7919 % 10007}\n" for number in range(20_000))
    store.record(notebook(big, "a"), "edited", at=1.0)
    before = store.size()
    version = store.record(notebook(big, "b"), "edited")
    assert store.size() - before < 2000
    assert version is not None
    assert version.changed == 1


def test_only_the_owner_may_read_it(store: VersionStore) -> None:
    store.record(notebook("token = 'secret'"), "edited")
    for path in [store.folder, *store.folder.rglob("*")]:
        assert os.stat(path).st_mode & 0o077 == 0, path


def test_a_purged_version_leaves_nothing(store: VersionStore) -> None:
    first = store.record(notebook("token = 'secret'"), "named", name="first")
    store.record(notebook("token = None"), "edited")
    assert first is not None
    blobs = len(list((store.folder / "blobs").iterdir()))
    store.purge(first)
    assert len(list((store.folder / "blobs").iterdir())) < blobs
    assert [store.load(version)["cells"][0]["source"] for version in store.versions()] == ["token = None"]
    store.purge()
    assert store.versions() == []
    assert list((store.folder / "blobs").iterdir()) == []


def test_a_version_is_found_by_id_beginning_or_name(store: VersionStore) -> None:
    first = store.record(notebook("x"), "named", name="before the change", at=1_700_000_000.0)
    second = store.record(notebook("y"), "edited")
    assert first is not None
    assert second is not None
    assert store.find(first.id) == store.find("before the change") == first
    assert store.find(second.id[:8]) == second
    with pytest.raises(InputError, match="no version"):
        store.find("nothing")
    with pytest.raises(InputError, match="no version"):
        store.find("")


def test_a_name_can_be_changed(store: VersionStore) -> None:
    version = store.record(notebook("x"), "edited")
    assert version is not None
    assert store.rename(version, "good").name == "good"
    assert store.find("good").id == version.id
    assert store.rename(store.find("good"), None).name is None


def test_damage_costs_only_the_versions_that_need_it(store: VersionStore) -> None:
    first = store.record(notebook("x"), "named", name="first")
    second = store.record(notebook("y"), "edited")
    assert first is not None
    assert second is not None
    (store.folder / "blobs" / first.content).write_bytes(b"nonsense")
    with pytest.raises(LabError, match="damaged"):
        store.load(first)
    assert store.load(second)["cells"][0]["source"] == "y"
    assert store.record(notebook("z"), "edited") is not None
    (store.folder / "index.json").write_bytes(b"nonsense")
    assert store.versions() == []
    assert store.record(notebook("z"), "edited") is not None


def test_the_size_is_bounded_and_named_versions_stay(store: VersionStore) -> None:
    small = VersionStore("abc", days=90, megabytes=0.05)
    named = small.record(notebook(os.urandom(10_000).hex()), "named", name="keep")
    for _ in range(6):
        small.record(notebook(os.urandom(10_000).hex()), "opened")
    assert small.size() <= 0.06 * (1 << 20)
    assert named is not None
    assert small.versions()[0].id == named.id
    assert 2 <= len(small.versions()) < 7


def test_a_notebook_with_odd_characters_is_recorded(store: VersionStore) -> None:
    version = store.record(notebook("half of a pair: \ud83d"), "edited")
    assert version is not None
    assert "half of a pair" in store.load(version)["cells"][0]["source"]


def versions(*ages: float, reason: Any = "edited", name: str | None = None) -> list[Version]:
    return [Version(str(age), -age, reason, 1, 1, name) for age in ages]


def test_older_versions_are_thinned_out() -> None:
    ages = [200 * DAY, 100 * DAY, 60 * DAY, 59.9 * DAY, 59 * DAY, 5000, 4900, 4000, 600, 300, 110, 60, 10, 0]
    kept = [float(version.id) for version in thin_out(versions(*ages), 0.0, days=90)]
    assert kept == [60 * DAY, 59 * DAY, 5000, 4000, 600, 300, 110, 0]


def test_somebody_who_edits_all_the_time_has_a_version_every_two_minutes(store: VersionStore) -> None:
    now = time.time()
    for second in range(-1200, 1, 20):
        store.record(notebook(f"x = {second}"), "edited", at=now + second)
    times = [round(version.at - now) for version in store.versions()]
    assert times == [*range(-1200, 0, 120), 0]
    assert {version.changed for version in store.versions()} == {1}


@pytest.mark.parametrize("left", [("import os",), ("import os", "x")], ids=["deleted", "emptied"])
def test_what_was_deleted_by_mistake_is_in_the_version_before(store: VersionStore, left: tuple[str, ...]) -> None:
    now = time.time()
    store.record(notebook(), "opened", at=now - 90)
    store.record(notebook("import os"), "edited", at=now - 60)
    store.record(notebook("import os", "train(epochs=90)"), "edited", at=now - 20)
    store.record(notebook(*left), "edited", at=now - 10)
    store.record(notebook("import os, sys", *left[1:]), "edited", at=now)
    sources = [[cell["source"] for cell in store.load(version)["cells"]] for version in store.versions()]
    assert sources == [[], ["import os", "train(epochs=90)"], ["import os, sys", *left[1:]]]
    assert [(version.changed, version.lost) for version in store.versions()] == [(0, 0), (2, 0), (2, 1)]


def test_marked_and_named_versions_are_not_thinned_out() -> None:
    all_versions = versions(5.0, reason="before-restore") + versions(4.0, name="x") + versions(3.0, 2.0, 1.0)
    assert [version.id for version in thin_out(all_versions, 0.0, days=90)] == ["5.0", "4.0", "1.0"]
    named = versions(400 * DAY, name="old")
    assert thin_out([*named, *versions(0.0)], 0.0, days=90)[0].name == "old"


def test_versions_of_one_second_have_different_ids(store: VersionStore) -> None:
    at = time.time()
    ids = {version.id for text in "abc" if (version := store.record(notebook(text), "opened", at=at))}
    assert len(ids) == 3


@pytest.mark.parametrize("reason", ["before-restore", "deleted"])
def test_a_notebook_that_is_about_to_be_replaced_is_kept_even_if_it_was_just_recorded(
    store: VersionStore, reason: Reason
) -> None:
    now = time.time()
    store.record(notebook("old"), "opened", at=now - 20)
    store.record(notebook("x = 1"), "edited", at=now - 10)
    store.record(notebook("x = 1"), reason, at=now - 5)
    store.record(notebook("old"), "restored", at=now)
    assert [version.reason for version in store.versions()] == ["opened", reason, "restored"]
    assert store.load(store.versions()[1])["cells"][0]["source"] == "x = 1"


@pytest.mark.parametrize("reason", ["conflict", "recovered"])
def test_a_text_that_was_replaced_is_kept_although_a_version_has_it_already(store: VersionStore, reason: Any) -> None:
    store.record(notebook("lost"), "edited")
    store.record(notebook("lost"), reason)
    for number in range(5):  # within two minutes: of such versions only the newest is kept
        store.record(notebook(f"later {number}"), "edited")
    assert "lost" in [store.load(version)["cells"][0]["source"] for version in store.versions()]
