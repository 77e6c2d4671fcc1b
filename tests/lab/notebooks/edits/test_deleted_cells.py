"""Cells that one page has deleted and another one, which did not know of it, edits: they are there again, where they were."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.lab.notebooks.edits.test_edited_notebook import Page, no_outputs, notebook, sources, start

from ownlab.lab.notebooks.edits.base import read_base
from ownlab.lab.notebooks.edits.records import OrderPatch

CELLS = {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
GONE = ("a", "b", "d")
ORDERS = list(permutations(GONE))


@pytest.mark.parametrize("again", ORDERS)
def test_cells_that_were_deleted_at_once_come_back_in_their_order(again: tuple[str, ...]) -> None:
    state = start(**CELLS)
    other = Page(state, "other")
    Page(state).send(deleted={name: CELLS[name] for name in GONE}, order=OrderPatch(tuple(CELLS), ("c", "e")))
    assert list(sources(state)) == ["c", "e"]
    for name in again:
        other.edit(name, CELLS[name], f"{CELLS[name]} + 1")
    assert list(sources(state)) == list(CELLS)


@pytest.mark.parametrize("deleted", ORDERS)
@pytest.mark.parametrize("again", ORDERS)
def test_cells_that_were_deleted_one_after_the_other_come_back_in_their_order(
    deleted: tuple[str, ...], again: tuple[str, ...]
) -> None:
    state = start(**CELLS)
    page, other = Page(state), Page(state, "other")
    for name in deleted:
        page.send(deleted={name: CELLS[name]})
    for name in again:
        other.edit(name, CELLS[name], f"{CELLS[name]} + 1")
    assert list(sources(state)) == list(CELLS)


@pytest.mark.parametrize("again", ORDERS)
def test_cells_that_another_program_removed_come_back_in_their_order(again: tuple[str, ...]) -> None:
    state = start(**CELLS)
    other = Page(state, "other")
    left = {name: text for name, text in CELLS.items() if name not in GONE}
    state.rebase(read_base(notebook(**left), (2, 2)), 200.0, no_outputs)
    assert list(sources(state)) == ["c", "e"]
    for name in again:
        other.edit(name, CELLS[name], f"{CELLS[name]} + 1")
    assert list(sources(state)) == list(CELLS)
