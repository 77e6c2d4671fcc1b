"""Code that a page ran and could not save is shown as recovered, and another page edits the cell before the first comes back.

Whatever comes first, no text of either page may vanish: it is in the cell, or pages and the history are told of it.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import pytest

from ownlab.lab.notebooks.edits.base import read_base
from ownlab.lab.notebooks.edits.cell import Ran
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import CellPatch, OutputsPatch, Patch, SourcePatch

ASKED = 90.0  # when the page of "one" ran the cell, on its own clock


def start(text: str) -> EditedNotebook:
    cells: list[dict[str, Any]] = [
        {"id": name, "cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for name, source in (("a", text), ("b", "b"))
    ]
    return EditedNotebook.from_base(read_base({"cells": cells, "metadata": {}}, (1, 1)))


def send(
    state: EditedNotebook,
    client: str,
    number: int,
    at: float,
    *,
    cell: str = "a",
    base: str,
    text: str,
    version: int = 1,
) -> EditedNotebook:
    """A patch of a page arrives, and the server is started again."""
    patch = CellPatch(cell, "code", SourcePatch(text, base))
    state.apply(Patch("n.ipynb", client, number, version=version, client=client, at=at, cells=(patch,)), 200.0 + number)
    return msgspec.json.decode(msgspec.json.encode(state), type=EditedNotebook)


def known_texts(state: EditedNotebook) -> str:
    """The text of the cell, and those of which pages and the history are told as conflicts."""
    conflicts = [each.other for _, each in state.conflicts]
    recorded = [
        other for reason, texts in state.take_replaced_texts() if reason == "conflict" for other in texts.values()
    ]
    assert recorded == conflicts
    return "\n".join([state.cells["a"].source, *conflicts])


@pytest.mark.parametrize("order", list(permutations(("ran", "other page", "own page"))))
@pytest.mark.parametrize(
    ("own", "other"),
    [("x\nown", "x\nother"), ("own\nx", "x\nother"), ("own", "other")],
    ids=["same", "apart", "replaced"],
)
@pytest.mark.parametrize("made", [ASKED - 10, ASKED + 10], ids=["made before it ran", "made afterwards"])
def test_what_two_pages_typed_at_once_is_kept_or_told_of_whatever_arrives_first(
    order: tuple[str, ...], own: str, other: str, made: float
) -> None:
    """The server was killed; one page ran what it typed, and the patches of both arrive at the next server."""
    state = start("x")
    for each in order:
        if each == "ran":
            state.recover("a", Ran(own, 300.0, "one", asked=ASKED))
        elif each == "other page":
            state = send(state, "two", 1, 80.0, base="x", text=other)
        else:
            state = send(state, "one", 1, made, base="x", text=own)
    state = send(state, "one", 2, ASKED + 20, cell="b", base="b", text="b later")
    known = known_texts(state)
    assert "own" in known
    assert "other" in known
    assert state.changes_since(0).recovered == (), "the page is not gone"


def test_a_page_that_comes_back_does_not_remove_what_others_added_to_the_code_that_it_ran() -> None:
    """Two edits of another page: one that did not know of the recovery, one that did."""
    state = start("x\ny")
    assert state.recover("a", Ran("own\nx\ny", 300.0, "one", asked=ASKED))
    state = send(state, "two", 1, 80.0, base="x\ny", text="x\ny\nother")
    shown = state.cells["a"].source
    assert shown == "own\nx\ny\nother"
    state = send(state, "two", 2, 95.0, base=shown, text=f"{shown}\nlater", version=state.version)
    state = send(state, "one", 1, ASKED + 10, base="x\ny", text="own\nx\ny")
    assert state.cells["a"].source == "own\nx\ny\nother\nlater"


def test_a_text_that_a_page_sent_before_it_ran_the_cell_is_told_of_if_it_replaces_that_of_another() -> None:
    """What it sent then is not all that it ran; the cell goes on showing the code."""
    state = start("x")
    state = send(state, "two", 1, 80.0, base="x", text="other")
    assert state.recover("a", Ran("own and more", 300.0, "one", asked=ASKED))
    state.take_replaced_texts()
    state = send(state, "one", 1, ASKED - 10, base="x", text="own")
    assert state.cells["a"].source == "own and more"
    assert [each.other for _, each in state.conflicts] == ["other"]


def test_a_page_that_has_taken_over_its_own_recovered_code_is_told_when_the_recovery_is_undone() -> None:
    """It had deleted the cell meanwhile, so that the cell came back there with the code; it then sends its outputs alone."""
    state = start("x")
    assert state.recover("a", Ran("own", 300.0, "one", asked=ASKED))
    cells = (CellPatch("a", "code", outputs=OutputsPatch([])),)
    patch = Patch("n.ipynb", "one", 1, version=state.version, client="one", at=ASKED + 10, cells=cells)
    changes = state.apply(patch, 400.0)
    assert state.cells["a"].source == "x"
    assert [(each.id, each.source) for each in changes.cells] == [("a", "x")]
