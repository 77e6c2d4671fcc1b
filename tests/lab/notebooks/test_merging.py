"""Merging a journal into a notebook: it replaces what is older, and never adds twice."""

from __future__ import annotations

import copy
from typing import Any

import nbformat
from tests.lab.journal.scene import Scene, fold_of, random_scene

from ownlab.lab.notebooks.merging import merge_state


def notebook_of(*cells: str) -> dict[str, Any]:
    code: list[dict[str, Any]] = [
        {"cell_type": "code", "id": cell, "metadata": {}, "source": "x", "execution_count": None, "outputs": []}
        for cell in cells
    ]
    text = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": "a"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*code, text]}


def run(scene: Scene, cell: str, text: str, **metadata: Any) -> str:
    request = scene.execute(cell, **metadata)
    scene.begin(request)
    scene.stream(request, text)
    scene.finish(request)
    return request


def test_cells_get_outputs_count_and_times() -> None:
    scene = Scene()
    run(scene, "a", "one")
    run(scene, "b", "two", recordTiming=False)
    run(scene, "gone", "three")
    fold, notebook = fold_of(scene.records), notebook_of("a", "b", "c")
    assert merge_state(notebook, fold, 0)
    first, second, third, _text = notebook["cells"]
    assert first["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "one"}]
    assert first["execution_count"] == fold.by_cell["a"].execution_count
    assert first["metadata"]["execution"]["shell.execute_reply"] == "date 6"
    assert second["outputs"][0]["text"] == "two"
    assert second["metadata"] == {}
    assert third == notebook_of("a", "b", "c")["cells"][2]
    nbformat.validate(notebook)
    assert not merge_state(notebook, fold, 0)


def test_changes_by_people_after_a_merge_are_kept() -> None:
    scene = Scene()
    run(scene, "a", "one")
    fold, notebook = fold_of(scene.records), notebook_of("a")
    assert not merge_state(notebook, fold, fold.position)
    assert notebook == notebook_of("a")


def test_outputs_and_count_are_updated_separately() -> None:
    scene = Scene()
    request = run(scene, "a", "one")
    done = len(scene.records)
    scene.stream(request, " late")
    fold, notebook = fold_of(scene.records), notebook_of("a")
    notebook["cells"][0]["execution_count"] = 77
    assert merge_state(notebook, fold, done)
    assert notebook["cells"][0]["outputs"][0]["text"] == "one late"
    assert notebook["cells"][0]["execution_count"] == 77


def test_a_cell_executed_again_loses_its_old_outputs() -> None:
    scene = Scene()
    run(scene, "a", "one")
    notebook = notebook_of("a")
    merge_state(notebook, fold_of(scene.records), 0)
    seen = len(scene.records)
    scene.execute("a")
    assert merge_state(notebook, fold_of(scene.records), seen)
    assert notebook["cells"][0]["outputs"] == []
    assert notebook["cells"][0]["execution_count"] is None
    assert notebook["cells"][0]["metadata"] == {}


def test_hidden_outputs_are_shown_again_when_a_cell_is_executed() -> None:
    scene = Scene()
    run(scene, "a", "one", recordTiming=False)
    fold, notebook = fold_of(scene.records), notebook_of("a")
    hidden = {"collapsed": True, "jupyter": {"outputs_hidden": True, "source_hidden": True}}
    notebook["cells"][0]["metadata"] = copy.deepcopy(hidden)
    merge_state(notebook, fold, fold.position - 1)
    assert notebook["cells"][0]["metadata"] == hidden
    merge_state(notebook, fold, 0)
    assert notebook["cells"][0]["metadata"] == {"jupyter": {"source_hidden": True}}


def test_merging_from_any_position_gives_the_same_notebook() -> None:
    """A notebook merged at one moment, and again from any position up to that, is one merged at the end."""
    for seed in range(40):
        scene = random_scene(seed, 100)
        whole = notebook_of("a", "b", "c")
        merge_state(whole, fold_of(scene.records), 0)
        nbformat.validate(whole)
        for moment in range(0, 100, 9):
            notebook = notebook_of("a", "b", "c")
            merge_state(notebook, fold_of(scene.records[:moment]), 0)
            for seen in (moment, moment // 2, 0):
                again = copy.deepcopy(notebook)
                merge_state(again, fold_of(scene.records), seen)
                assert again == whole, f"seed {seed}, merged at {moment}, from {seen}"
