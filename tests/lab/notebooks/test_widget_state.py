"""Widgets of runtimes that have ended are still drawn: their state is saved with the notebook."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.lab.journal.scene import Scene, fold_of

from ownlab.lab.journal.replay import compacted_records
from ownlab.lab.journal.state import JournalState
from ownlab.lab.notebooks.widget_state import merge_widget_state

STATE = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"


def open_widget(scene: Scene, request: str, key: str, **state: Any) -> None:
    """The kernel creates a widget."""
    names = {
        "_model_name": "IntProgressModel",
        "_model_module": "@jupyter-widgets/controls",
        "_model_module_version": "2",
    }
    content = {"comm_id": key, "target_name": "jupyter.widget", "data": {"state": {**names, **state}}}
    scene.add_message("comm_open", request, content)


def progress_bar() -> Scene:
    """A cell shows a bar with a layout, and ends."""
    scene = Scene()
    request = scene.execute("a")
    scene.begin(request)
    open_widget(scene, request, "layout")
    open_widget(scene, request, "bar", value=1, layout="IPY_MODEL_layout")
    open_widget(scene, request, "hidden")
    scene.add_message("display_data", request, {"data": {VIEW: {"model_id": "bar"}}, "metadata": {}})
    scene.update("bar", request, value=10)
    scene.finish(request)
    return scene


def notebook_of(fold: JournalState) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "code", "id": "a", "metadata": {}, "source": "", "outputs": []}
    cell["outputs"] = fold.by_cell["a"].outputs.as_json()
    return {"cells": [cell], "metadata": {}}


def saved(notebook: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    return found


def test_the_last_state_of_what_cells_show_is_saved() -> None:
    fold = fold_of(progress_bar().records)
    notebook = notebook_of(fold)
    assert merge_widget_state(notebook, fold.comms.widgets())
    assert set(saved(notebook)) == {"bar", "layout"}
    assert saved(notebook)["bar"]["state"]["value"] == 10
    assert saved(notebook)["bar"]["model_name"] == "IntProgressModel"
    assert not merge_widget_state(notebook, fold.comms.widgets()), "a second time changes nothing"


def test_widgets_of_an_earlier_kernel_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    scene = progress_bar()
    scene.restart()
    fold = fold_of(scene.records)
    compacted = fold_of(list(compacted_records(fold)))
    for each in (fold, compacted):
        notebook = notebook_of(each)
        assert merge_widget_state(notebook, each.comms.widgets())
        assert set(saved(notebook)) == {"bar", "layout"}
    assert fold.comms.info() == {}
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_widgets_that_are_not_shown_any_more_are_removed_and_those_of_others_kept() -> None:
    fold = fold_of(progress_bar().records)
    notebook = notebook_of(fold)
    notebook["metadata"]["widgets"] = {
        STATE: {"version_major": 2, "version_minor": 0, "state": {"other": {"state": {}}}}
    }
    assert merge_widget_state(notebook, fold.comms.widgets())
    assert set(saved(notebook)) == {"bar", "layout", "other"}
    notebook["cells"][0]["outputs"] = []
    assert merge_widget_state(notebook, fold.comms.widgets())
    assert set(saved(notebook)) == {"other"}


def test_a_notebook_without_widgets_is_not_changed() -> None:
    notebook: dict[str, Any] = {"cells": [], "metadata": {}}
    assert not merge_widget_state(notebook, {})
    assert not merge_widget_state(notebook, {"bar": {"state": {}}})
    assert notebook == {"cells": [], "metadata": {}}
