"""Two versions of a notebook, compared cell by cell."""

from __future__ import annotations

from typing import Any

from ownlab.lab.notebooks.history.comparison import compare_notebooks, unified


def notebook(**cells: str) -> dict[str, Any]:
    return {"cells": [{"id": name, "cell_type": "code", "source": source} for name, source in cells.items()]}


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(each.id, each.change, each.number) for each in compare_notebooks(before, after)]


def test_cells_are_aligned_by_id() -> None:
    before, after = notebook(a="1", b="2", c="3", d="4"), notebook(a="1", c="3 edited", e="new", d="4")
    assert changes(before, after) == [
        ("a", "same", 1),
        ("b", "removed", 2),
        ("c", "edited", 2),
        ("e", "added", 3),
        ("d", "same", 4),
    ]


def test_a_moved_cell_is_neither_added_nor_removed() -> None:
    assert changes(notebook(a="1", b="2", c="3"), notebook(b="2", c="3", a="1")) == [
        ("b", "same", 1),
        ("c", "same", 2),
        ("a", "moved", 3),
    ]


def test_a_notebook_and_nothing() -> None:
    assert changes(notebook(), notebook(a="1")) == [("a", "added", 1)]
    assert changes(notebook(a="1"), notebook()) == [("a", "removed", 1)]


def test_a_changed_type_is_an_edit_and_lines_may_be_a_list() -> None:
    before, after = notebook(a="x\ny"), notebook(a="x\ny")
    before["cells"][0]["source"] = ["x\n", "y"]
    assert changes(before, after) == [("a", "same", 1)]
    after["cells"][0]["cell_type"] = "markdown"
    assert changes(before, after) == [("a", "edited", 1)]


def test_a_diff_has_every_line_also_those_that_look_like_a_header() -> None:
    (edited,) = compare_notebooks(notebook(a="-- x\nsame\n"), notebook(a="++ y\nsame\n"))
    assert unified(edited) == ["@@ -1,2 +1,2 @@", "--- x", "+++ y", " same"]
