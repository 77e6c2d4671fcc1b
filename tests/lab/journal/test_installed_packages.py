"""Packages that cells installed: reported by kernels, and recorded in the notebook's metadata."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.lab.journal.scene import Scene, fold_of

from ownlab.lab.journal.installed_packages import Changes, add_changes, packages_of, record_packages
from ownlab.lab.journal.replay import compacted_records
from ownlab.lab.journal.state import JournalState


def notebook_of(**metadata: Any) -> dict[str, Any]:
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": []}


def test_changes_are_merged_into_the_metadata() -> None:
    before = {"pip": ["Foo_Bar==1.0", "gone==1", "kept>=2"], "apt": ["ffmpeg"], "conda": 1}
    notebook = notebook_of(ownlab={"colab": True, "packages": before}, unknown=7)
    changes: Changes = {"pip": {"foo-bar": "foo-bar==2.0", "gone": None, "not-there": None}, "apt": {"g++": "g++"}}
    assert record_packages(notebook, changes)
    after = {"pip": ["foo-bar==2.0", "kept>=2"], "apt": ["ffmpeg", "g++"], "conda": 1}
    assert notebook["metadata"] == {"ownlab": {"colab": True, "packages": after}, "unknown": 7}
    assert not record_packages(notebook, changes)
    assert packages_of(notebook) == {"pip": ["foo-bar==2.0", "kept>=2"], "apt": ["ffmpeg", "g++"]}


@pytest.mark.parametrize("own", [7, [], {"packages": "mine"}])
def test_foreign_metadata_is_kept(own: object) -> None:
    notebook = notebook_of(ownlab=own)
    assert not record_packages(notebook, {"pip": {"a": "a==1"}})
    assert notebook == notebook_of(ownlab=own)
    assert packages_of(notebook) == {}


def test_invalid_reports_are_ignored() -> None:
    changes: Changes = {}
    for answer in ({}, {"pip": 7}, {"pip": {"a": 7}, "apt": ["b"]}, {"other": {"a": "a"}}):
        assert not add_changes(changes, answer)
    assert changes == {}


def test_the_state_has_the_last_change_of_each_after_restart_and_compaction() -> None:
    scene = Scene()
    request = scene.execute("a")
    scene.add_message("ownlab_packages", request, {"pip": {"one": "one==1", "two": "two==1"}, "apt": {}})
    scene.finish(request)
    scene.restart()
    scene.add_message("ownlab_packages", scene.execute("a"), {"pip": {"one": "one==2", "two": None}, "apt": {}})
    fold = fold_of(scene.records)
    assert fold.packages == {"pip": {"one": "one==2", "two": None}}
    assert fold.packages_at == fold.changed_at == fold.position
    before = fold.position
    scene.add_message("ownlab_packages", scene.execute("a"), {"pip": {"three": "three==1"}, "apt": {}})
    fold = fold_of(scene.records)
    answer = JournalState()
    for record in compacted_records(copy.deepcopy(fold)):
        answer.add(record)
    assert (answer.packages, answer.packages_at) == (fold.packages, fold.packages_at)
    for each in (fold, answer):
        assert each.packages_after(0) == {"pip": {"one": "one==2", "two": None, "three": "three==1"}}
        assert each.packages_after(before) == {"pip": {"three": "three==1"}}
        assert each.packages_after(fold.position) == {}
