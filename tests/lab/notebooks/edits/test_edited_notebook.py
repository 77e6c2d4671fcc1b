"""The state of a notebook after patches of pages and changes of its file by other programs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ownlab.lab.notebooks.edits.base import read_base
from ownlab.lab.notebooks.edits.cell import Ran
from ownlab.lab.notebooks.edits.edited_notebook import EditedNotebook
from ownlab.lab.notebooks.edits.records import (
    CellPatch,
    MetadataPatch,
    OrderPatch,
    OutputsPatch,
    Patch,
    SourcePatch,
)


def notebook(**cells: str) -> dict[str, Any]:
    made: list[dict[str, Any]] = [
        {"id": name, "cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for name, source in cells.items()
    ]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}


def start(**cells: str) -> EditedNotebook:
    return EditedNotebook.from_base(read_base(notebook(**cells), (1, 1)))


class Page:
    """A page that sends patches."""

    def __init__(self, state: EditedNotebook, name: str = "page") -> None:
        self.state, self.name, self.number, self.version = state, name, 0, state.version

    def send(self, *cells: CellPatch, **rest: Any) -> Any:
        self.number += 1
        patch = Patch("n.ipynb", self.name, self.number, self.version, cells=cells, **rest)
        changes = self.state.apply(patch, at=100.0 + self.number)
        self.version = changes.version
        return changes

    def edit(self, cell: str, base: str, text: str) -> Any:
        return self.send(CellPatch(cell, "code", SourcePatch(text, base)))


def sources(state: EditedNotebook) -> dict[str, str]:
    return {name: state.cells[name].source for name in state.order}


def no_outputs(_: str) -> OutputsPatch:
    return OutputsPatch([])


def test_an_edit_changes_the_cell_and_nothing_comes_back() -> None:
    state = start(a="lr = 0.1", b="print(lr)")
    changes = Page(state).edit("a", "lr = 0.1", "lr = 0.001")
    assert sources(state) == {"a": "lr = 0.001", "b": "print(lr)"}
    assert (changes.cells, changes.order, changes.metadata, changes.conflicts) == ((), None, None, ())
    assert state.unsaved


def test_a_patch_that_arrives_twice_is_applied_once() -> None:
    state = start(a="x")
    patch = Patch("n", "page", 1, state.version, cells=(CellPatch("a", "code", SourcePatch("xy", "x")),))
    first = state.apply(patch, 1.0)
    again = state.apply(patch, 2.0)
    assert first.version == again.version == state.version
    assert sources(state) == {"a": "xy"}


def test_another_page_gets_what_it_lacks() -> None:
    state = start(a="x", b="y")
    one, two = Page(state, "one"), Page(state, "two")
    one.edit("a", "x", "x1")
    changes = two.edit("b", "y", "y2")
    assert [(cell.id, cell.source) for cell in changes.cells] == [("a", "x1")]
    assert two.edit("b", "y2", "y3").cells == ()


def test_both_pages_edit_different_lines_of_a_cell() -> None:
    state = start(a="first\nsecond\nthird\n")
    one, two = Page(state, "one"), Page(state, "two")
    one.edit("a", "first\nsecond\nthird\n", "FIRST\nsecond\nthird\n")
    changes = two.edit("a", "first\nsecond\nthird\n", "first\nsecond\nTHIRD\n")
    assert sources(state) == {"a": "FIRST\nsecond\nTHIRD\n"}
    assert [cell.source for cell in changes.cells] == ["FIRST\nsecond\nTHIRD\n"]
    assert changes.conflicts == ()


def test_both_pages_edit_the_same_line() -> None:
    state = start(a="x\n")
    one, two = Page(state, "one"), Page(state, "two")
    one.edit("a", "x\n", "one\n")
    changes = two.edit("a", "x\n", "two\n")
    assert sources(state) == {"a": "two\n"}
    assert [(conflict.cell, conflict.other) for conflict in changes.conflicts] == [("a", "one\n")]
    assert [conflict.other for conflict in state.changes_since(one.version).conflicts] == ["one\n"]


def test_an_edit_beats_a_deletion_whichever_comes_first() -> None:
    state = start(a="x", b="y", c="z")
    one, two = Page(state, "one"), Page(state, "two")
    one.edit("b", "y", "edited")
    two.send(deleted={"b": "y"}, order=OrderPatch(("a", "b", "c"), ("a", "c")))
    assert sources(state) == {"a": "x", "b": "edited", "c": "z"}
    state = start(a="x", b="y", c="z")
    one, two = Page(state, "one"), Page(state, "two")
    two.send(deleted={"b": "y"}, order=OrderPatch(("a", "b", "c"), ("a", "c")))
    assert sources(state) == {"a": "x", "c": "z"}
    one.edit("b", "y", "edited")
    assert sources(state) == {"a": "x", "b": "edited", "c": "z"}


def test_a_page_learns_that_a_cell_it_deleted_is_still_there() -> None:
    state = start(a="x", b="y", c="z")
    Page(state, "one").edit("b", "y", "edited")
    two = Page(state, "two")  # it knows the version, and has not shown the new text: its own deletion was not sent yet
    deletion: dict[str, Any] = {"deleted": {"b": "y"}, "order": OrderPatch(("a", "b", "c"), ("a", "c"))}
    for number in (1, 1):  # the first answer is lost
        two.number = number - 1
        changes = two.send(**deletion)
        assert [(cell.id, cell.source) for cell in changes.cells] == [("b", "edited")]
        assert changes.order == ("a", "b", "c")


def test_a_page_learns_the_order_if_it_is_not_the_one_that_it_sent() -> None:
    state = start(a="x", b="y", c="z")
    Page(state, "one").send(order=OrderPatch(("a", "b", "c"), ("c", "a", "b")))
    changes = Page(state, "two").send(order=OrderPatch(("a", "b", "c", "d"), ("a", "b", "c")))
    assert changes.order == ("c", "a", "b")


def test_metadata_alone_does_not_bring_a_deleted_cell_back() -> None:
    state = start(a="x", b="y")
    Page(state, "one").send(deleted={"b": "y"}, order=OrderPatch(("a", "b"), ("a",)))
    Page(state, "two").send(CellPatch("b", "code", metadata=MetadataPatch({"tags": []})))
    assert sources(state) == {"a": "x"}


def test_cells_that_two_pages_inserted_are_both_there() -> None:
    state = start(a="x", b="y")
    one, two = Page(state, "one"), Page(state, "two")
    one.send(CellPatch("c", "code", SourcePatch("new")), order=OrderPatch(("a", "b"), ("a", "c", "b")))
    changes = two.send(CellPatch("d", "markdown", SourcePatch("text")), order=OrderPatch(("a", "b"), ("a", "b", "d")))
    assert state.order == ["a", "c", "b", "d"]
    assert changes.order == ("a", "c", "b", "d")
    assert [cell.id for cell in changes.cells] == ["c"]


def test_a_notebook_gets_its_edits_and_keeps_its_outputs() -> None:
    content = notebook(a="x", b="y")
    content["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    content["cells"][0]["metadata"] = {"execution": {"iopub.status.busy": "…"}, "tags": ["old"]}
    content["metadata"] = {"kernelspec": {"name": "python3"}, "widgets": {"state": {}}}
    state = EditedNotebook.from_base(read_base(content, (1, 1)))
    page = Page(state)
    page.edit("a", "x", "x1")
    page.send(CellPatch("a", "code", metadata=MetadataPatch({"new": 1}, ("tags",))))
    page.send(CellPatch("b", "markdown"), metadata=MetadataPatch({"title": "t"}))
    assert state.apply_to(content)
    assert content["cells"][0]["source"] == "x1"
    assert content["cells"][0]["outputs"][0]["text"] == "hello"
    assert content["cells"][0]["metadata"] == {"execution": {"iopub.status.busy": "…"}, "new": 1}
    assert "outputs" not in content["cells"][1]
    assert content["metadata"] == {"kernelspec": {"name": "python3"}, "widgets": {"state": {}}, "title": "t"}


def test_a_saved_state_changes_nothing() -> None:
    state = start(a="x")
    Page(state).edit("a", "x", "y")
    content = notebook(a="x")
    state.apply_to(content)
    state.mark_saved(read_base(content, (2, 2)), state.version)
    before = json.dumps(content)
    assert not state.unsaved
    assert not state.apply_to(content)
    assert json.dumps(content) == before


def test_outputs_that_a_page_cleared_replace_those_of_the_file() -> None:
    content = notebook(a="x")
    content["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    state = EditedNotebook.from_base(read_base(content, (1, 1)))
    Page(state).send(CellPatch("a", "code", outputs=OutputsPatch([])), seen="runtime/17")
    state.apply_to(content)
    assert content["cells"][0]["outputs"] == []
    assert state.outputs_before()["a"][:2] == ("runtime", 17)


def test_a_file_changed_by_another_program_is_merged_with_edits() -> None:
    state = start(a="a", b="b", c="c", d="d")
    Page(state).edit("a", "a", "edited here")
    elsewhere = notebook(a="a", b="edited there", d="d", e="new")
    conflicts = state.rebase(read_base(elsewhere, (2, 2)), 200.0, no_outputs)
    assert sources(state) == {"a": "edited here", "b": "edited there", "d": "d", "e": "new"}
    assert conflicts == []
    assert state.unsaved
    assert state.apply_to(elsewhere)
    assert [cell["source"] for cell in elsewhere["cells"]] == ["edited here", "edited there", "d", "new"]


def test_the_same_cell_edited_here_and_by_another_program_keeps_ours() -> None:
    state = start(a="x")
    page = Page(state)
    page.edit("a", "x", "ours")
    conflicts = state.rebase(read_base(notebook(a="theirs"), (2, 2)), 200.0, no_outputs)
    assert sources(state) == {"a": "ours"}
    assert [conflict.other for conflict in conflicts] == ["theirs"]


def test_without_edits_the_file_counts() -> None:
    state = start(a="x", b="y")
    state.rebase(read_base(notebook(b="y2", a="x"), (2, 2)), 200.0, no_outputs)
    assert list(sources(state).items()) == [("b", "y2"), ("a", "x")]
    assert not state.unsaved


def test_outputs_that_another_program_removed_are_sent_to_pages() -> None:
    content = notebook(a="x")
    content["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    state = EditedNotebook.from_base(read_base(content, (1, 1)))
    version = state.version
    state.rebase(read_base(notebook(a="x"), (2, 2)), 200.0, no_outputs)
    assert [cell.outputs for cell in state.changes_since(version).cells] == [OutputsPatch([])]
    assert not state.unsaved


def test_a_file_with_another_time_only_changes_nothing() -> None:
    state = start(a="x")
    version = state.version
    state.rebase(read_base(notebook(a="x"), (2, 2)), 200.0, no_outputs)
    assert state.version == version
    assert state.base.stamp == (2, 2)


@pytest.mark.parametrize(("edited_at", "recovered"), [(50.0, True), (150.0, False)])
def test_the_code_that_ran_is_shown_unless_the_cell_was_edited_afterwards(edited_at: float, recovered: bool) -> None:
    state = start(a="lr = 0.1")
    state.cells["a"].edited_at = edited_at
    assert state.recover("a", Ran("lr = 0.001", 100.0)) is recovered
    assert sources(state) == {"a": "lr = 0.001" if recovered else "lr = 0.1"}
    assert [each.other for each in state.changes_since(0).recovered] == (["lr = 0.1"] if recovered else [])


def test_code_of_a_page_that_another_page_has_edited_meanwhile_is_not_recovered() -> None:
    state = start(a="x = 1", b="y = 1")
    one, two = Page(state, "one"), Page(state, "two")
    one.edit("a", "x = 1", "x = 2")
    two.edit("a", "x = 1", "x = 1\nz = 1")
    two.edit("b", "y = 1", "y = 2")
    assert sources(state) == {"a": "x = 2\nz = 1", "b": "y = 2"}
    # The first page executes what it has, before it gets the text of the other.
    assert not state.recover("a", Ran("x = 2", 200.0)), "it has sent this text"
    assert not state.recover("b", Ran("y = 1", 200.0)), "the server had this text not long ago"
    assert state.recover("b", Ran("y = 1", 9000.0)), "nobody can have this text any more"


def test_recovery_is_undone_when_the_page_that_ran_the_code_sends_its_text() -> None:
    """It could not save its text before it ran, so that the server took it from the journal; but the page is still there."""
    state = start(a="x = 1\n\nz = 1")
    Page(state).edit("a", "x = 1\n\nz = 1", "x = 1\n\nz = 2")
    assert state.recover("a", Ran("x = 1\ny = 2\n\nz = 1", 300.0, "client", asked=50.0))
    state = msgspec.json.decode(msgspec.json.encode(state), type=EditedNotebook)

    def send(number: int, text: str, at: float, base: str = "x = 1\n\nz = 1") -> None:
        cell = CellPatch("a", "code", SourcePatch(text, base))
        state.apply(Patch("n.ipynb", "other", number, client="client", at=at, cells=(cell,)), 400.0)

    send(1, "x = 1\ny\n\nz = 1", 40.0)
    assert sources(state) == {"a": "x = 1\ny = 2\n\nz = 1"}, "what it sent before it ran the code"
    assert [each.other for each in state.changes_since(0).recovered] == ["x = 1\n\nz = 2"]
    send(2, "x = 1  # one\ny = 2\n\nz = 1", 60.0, base="x = 1\ny\n\nz = 1")
    assert sources(state) == {"a": "x = 1  # one\ny = 2\n\nz = 2"}, "merged with what others had typed"
    assert state.changes_since(0).recovered == ()


def test_what_a_page_sends_is_based_on_the_code_that_was_recovered_if_that_was_edited() -> None:
    state = start(a="x = 1")
    assert state.recover("a", Ran("x = 1\ny = 2", 100.0, "client"))
    Page(state).edit("a", "x = 1\ny = 2", "x = 1\ny = 2\nz = 3")
    cell = CellPatch("a", "code", SourcePatch("x = 1  # one\ny = 2", "x = 1"))
    state.apply(Patch("n.ipynb", "other", 1, client="client", cells=(cell,)), 200.0)
    assert sources(state) == {"a": "x = 1  # one\ny = 2\nz = 3"}


def test_what_two_pages_could_not_save_before_they_ran_it_is_merged_when_both_come_back() -> None:
    """One has typed a line, the other has split the cell; both ran it while the server did not answer."""
    state = start(a="x = 1\ny = 2")
    assert state.recover("a", Ran("x = 1\ny = 2\nz = 3", 100.0, "one", asked=90.0))
    assert state.recover("a", Ran("x = 1", 110.0, "two", asked=105.0))
    assert [each.other for each in state.changes_since(0).recovered] == ["x = 1\ny = 2"]

    def send(client: str, number: int, base: str, text: str, at: float) -> None:
        cell = CellPatch("a", "code", SourcePatch(text, base))
        state.apply(Patch("n.ipynb", client, number, client=client, at=at, cells=(cell,)), 200.0)

    send("one", 1, "x = 1\ny = 2", "x = 1\ny = 2\nz", 80.0)
    send("one", 2, "x = 1\ny = 2\nz", "x = 1\ny = 2\nz = 3", 95.0)
    assert sources(state) == {"a": "x = 1"}, "what ran last"
    assert [each.other for each in state.changes_since(0).recovered] == ["x = 1\ny = 2\nz = 3"]
    send("two", 1, "x = 1\ny = 2", "x = 1", 104.0)  # it was made before it ran, and is all that it has
    assert sources(state) == {"a": "x = 1\nz = 3"}
    assert state.changes_since(0).recovered == ()


def test_a_page_deletes_a_cell_whose_code_it_ran_before_it_could_save_it() -> None:
    state = start(a="x", b="y = 1")
    assert state.recover("b", Ran("y = 2", 100.0, "client", asked=90.0))
    deletion = Patch("n.ipynb", "page", 1, client="client", at=95.0, deleted={"b": "y = 1"})
    assert state.apply(deletion, 200.0).conflicts == ()
    assert sources(state) == {"a": "x"}
    assert state.changes_since(0).recovered == ()


def test_what_a_page_ran_in_a_cell_that_it_deleted_is_not_kept_in_the_text_of_another_page() -> None:
    """It has joined two cells, and another page edited one of them at the same time: only that edit brings the cell back."""
    state = start(a="x", b="y = 1")
    Page(state).edit("b", "y = 1", "y = 1\nz = 1")
    assert state.recover("b", Ran("y = 1\nt = 1", 300.0, "client", asked=90.0))
    cell = CellPatch("a", "code", SourcePatch("x\ny = 1\nt = 1", "x"))
    state.apply(Patch("n.ipynb", "p", 1, client="client", at=95.0, cells=(cell,), deleted={"b": "y = 1"}), 400.0)
    assert sources(state) == {"a": "x\ny = 1\nt = 1", "b": "y = 1\nz = 1"}
    assert state.changes_since(0).recovered == ()


def test_a_page_that_split_a_cell_after_it_ran_it_has_the_lines_once() -> None:
    """The cell has the text again that the server knew, so that the page sends the new cell alone."""
    state = start(a="x")
    assert state.recover("a", Ran("x\ny", 100.0, "client", asked=90.0))
    new = CellPatch("b", "code", SourcePatch("y", None))
    state.apply(Patch("n.ipynb", "page", 1, client="client", at=95.0, cells=(new,)), 200.0)
    assert sources(state) == {"a": "x", "b": "y"}
    assert state.changes_since(0).recovered == ()


def test_what_a_page_ran_before_it_sent_a_patch_is_no_news_in_any_cell() -> None:
    """It has split a cell after it ran it, and the server learns of the execution last."""
    state = start(a="x")
    new = CellPatch("b", "code", SourcePatch("y", None))
    state.apply(Patch("n.ipynb", "page", 1, client="client", at=95.0, cells=(new,)), 200.0)
    assert not state.recover("a", Ran("x\ny", 300.0, "client", asked=90.0))
    assert sources(state) == {"a": "x", "b": "y"}


def test_of_two_executions_of_a_page_the_code_that_ran_later_is_shown() -> None:
    state = start(a="x")
    assert state.recover("a", Ran("x = 2", 100.0, "client", asked=90.0))
    assert not state.recover("a", Ran("x = 1", 101.0, "client", asked=80.0))
    assert state.recover("a", Ran("x = 3", 102.0, "client", asked=95.0))
    cell = CellPatch("a", "code", SourcePatch("x = 4", "x"))
    state.apply(Patch("n.ipynb", "page", 1, client="client", at=99.0, cells=(cell,)), 200.0)
    assert sources(state) == {"a": "x = 4"}


def test_a_page_that_does_not_know_of_a_recovery_is_told_of_the_text_that_it_replaced() -> None:
    """The code that ran is the text that this page has, and another program had changed it meanwhile."""
    state = start(a="x\ny")
    page = Page(state)
    page.version -= 1
    assert state.recover("a", Ran("x", 100.0, "client", asked=90.0))
    changes = page.send(CellPatch("a", "code", SourcePatch("w\nx", "x")))
    assert sources(state) == {"a": "w\nx"}
    assert [each.other for each in changes.recovered] == ["w\nx\ny"]


def test_a_deletion_does_not_take_along_what_somebody_else_ran() -> None:
    state = start(a="x", b="y = 1")
    assert state.recover("b", Ran("y = 2", 100.0, "client", asked=90.0))
    state.apply(Patch("n.ipynb", "other", 1, client="other", at=95.0, deleted={"b": "y = 1"}), 200.0)
    assert sources(state) == {"a": "x", "b": "y = 2"}


def test_a_page_that_changes_only_the_type_of_a_deleted_cell_is_told_that_it_is_gone() -> None:
    state = start(a="x", b="y")
    one, two = Page(state, "one"), Page(state, "two")
    one.send(deleted={"b": "y"})
    two.version = state.version  # it was told, and had changed the type before
    changes = two.send(CellPatch("b", "markdown"))
    assert sources(state) == {"a": "x"}
    assert changes.order == ("a",)


def test_the_text_that_people_know_is_offered_even_if_a_cell_was_recovered_before() -> None:
    state = start(a="first")
    assert state.recover("a", Ran("ran", 100.0))
    Page(state).edit("a", "ran", "typed")
    assert state.recover("a", Ran("ran later", 200.0))
    assert [each.other for each in state.changes_since(0).recovered] == ["typed"]


def test_code_that_ran_is_not_recovered_if_its_page_has_sent_a_newer_text() -> None:
    """A page that was cut off: its execution reaches the kernel after the edits that it made later."""
    state = start(a="x = 1")
    cell = CellPatch("a", "code", SourcePatch("x = 3", "x = 1"))
    state.apply(Patch("n.ipynb", "page", 1, client="client", at=50.0, cells=(cell,)), 100.0)
    assert state.can_recover("a", Ran("x = 2", 101.0, "client", asked=60.0)), "it was typed later"
    assert state.can_recover("a", Ran("x = 2", 99.0, "client", asked=60.0)), "even if the older text arrived later"
    assert not state.can_recover("a", Ran("x = 2", 99.0, "another client", asked=60.0))
    assert not state.recover("a", Ran("x = 2", 101.0, "client", asked=40.0))
    assert state.recover("a", Ran("x = 2", 101.0, "another client", asked=40.0))


def test_a_cell_that_a_page_takes_as_new_does_not_replace_what_somebody_typed_into_it() -> None:
    """One page undoes the deletion of a cell, which another has brought back by editing it."""
    state = start(a="x", b="y")
    one, two = Page(state, "one"), Page(state, "two")
    one.send(deleted={"a": "x"})
    two.edit("a", "x", "x\ntyped")
    changes = one.send(CellPatch("a", "code", SourcePatch("x")))
    assert [conflict.other for conflict in changes.conflicts] == ["x\ntyped"]


def test_a_page_learns_of_a_conflict_although_the_first_answer_was_lost_and_the_server_is_new() -> None:
    state = EditedNotebook.from_base(read_base(notebook(a="changed there"), (1, 1)), version=1000)
    patch = Patch("n.ipynb", "page", 1, 7, cells=(CellPatch("a", "code", SourcePatch("typed", "x")),))
    for _ in range(2):
        assert [conflict.other for conflict in state.apply(patch, 100.0).conflicts] == ["changed there"]
    assert state.changes_since(state.version).conflicts == ()


def test_a_page_that_opens_later_is_told_of_a_conflict_if_nobody_was_there() -> None:
    state = start(a="x")
    Page(state).edit("a", "x", "typed")
    state.rebase(read_base(notebook(a="changed there"), (2, 2)), 150.0, no_outputs)
    for _ in range(2):  # the first answer may be lost
        changes = state.changes_since(state.version_for_new_pages)
        assert [conflict.other for conflict in changes.conflicts] == ["changed there"]
    state.changes_since(changes.version)
    assert state.changes_since(state.version_for_new_pages).conflicts == (), "only once"


def test_a_patch_brings_the_one_before_it_along() -> None:
    """A page that goes away sends both: which of two requests arrives first, if at all, nobody knows."""
    first = Patch("n.ipynb", "page", 1, cells=(CellPatch("a", "code", SourcePatch("x = 12", "x = 1")),))
    cells = (CellPatch("a", "code", SourcePatch("x = 123", "x = 12")),)
    last = Patch("n.ipynb", "page", 2, cells=cells, before=first)
    for arriving in ([last], [first, last], [last, first]):
        state = start(a="x = 1", b="")
        for patch in arriving:
            assert not state.apply(patch, 100.0).conflicts
        assert sources(state) == {"a": "x = 123", "b": ""}


def test_edits_that_came_while_a_file_was_written_are_not_taken_as_saved() -> None:
    state = start(a="x")
    page = Page(state)
    page.edit("a", "x", "saved")
    written = state.version
    page.edit("a", "saved", "newer")
    state.mark_saved(read_base(notebook(a="saved"), (2, 2)), written)
    assert state.unsaved
    content = notebook(a="saved")
    assert state.apply_to(content)
    assert content["cells"][0]["source"] == "newer"


def test_a_page_learns_of_a_conflict_with_another_program_by_its_next_patch() -> None:
    state = start(a="x", b="y")
    page = Page(state)
    page.edit("a", "x", "typed")
    state.rebase(read_base(notebook(a="changed there", b="y"), (2, 2)), 150.0, no_outputs)
    assert [conflict.other for conflict in page.edit("b", "y", "z").conflicts] == ["changed there"]


def test_replaced_texts_are_recorded_once_even_if_a_server_was_killed_before() -> None:
    state = start(a="x\n")
    Page(state, "one").edit("a", "x\n", "one\n")
    patch = CellPatch("a", "code", SourcePatch("two\n", "x\n"))
    Page(state, "two").send(patch)
    assert state.take_replaced_texts() == [("conflict", {"a": "one\n"})]
    assert state.take_replaced_texts() == []


def test_the_same_code_with_other_line_ends_is_not_recovered() -> None:
    state = start(a="x\r\ny")
    assert not state.recover("a", Ran("x\ny\n", 100.0))
    assert not state.recover("unknown", Ran("x", 100.0))


def test_a_version_that_is_not_known_gets_everything() -> None:
    state = EditedNotebook.from_base(read_base(notebook(a="x", b="y"), (1, 1)), version=1000)
    changes = state.changes_since(7)
    assert [cell.id for cell in changes.cells] == ["a", "b"]
    assert changes.order == ("a", "b")
    assert changes.metadata == {}


def test_a_restored_version_replaces_everything() -> None:
    state = start(a="x", b="y")
    page = Page(state)
    page.edit("a", "x", "edited")
    state.replace(read_base(notebook(b="old", c="z"), (2, 2)), 200.0, no_outputs)
    assert sources(state) == {"b": "old", "c": "z"}
    assert not state.unsaved
    changes = state.changes_since(page.version)
    assert (changes.order, changes.deleted) == (("b", "c"), ("a",))


def test_a_text_that_lost_is_in_a_notebook_even_if_its_cell_was_deleted() -> None:
    state = start(a="x", b="y")
    Page(state).send(deleted={"b": "y"}, order=OrderPatch(("a", "b"), ("a",)))
    made = state.to_notebook({"a": "lost a", "b": "lost b", "c": "lost c"})
    assert {cell["id"]: cell["source"] for cell in made["cells"]} == {"a": "lost a", "b": "lost b", "c": "lost c"}


def test_a_deleted_cell_stays_deleted_when_another_program_changes_its_outputs_only() -> None:
    state = start(a="x", b="y")
    Page(state).send(deleted={"b": "y"}, order=OrderPatch(("a", "b"), ("a",)))
    elsewhere = notebook(a="x", b="y")
    elsewhere["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "hello"}]
    state.rebase(read_base(elsewhere, (2, 2)), 200.0, no_outputs)
    assert sources(state) == {"a": "x"}
    elsewhere["cells"][1]["source"] = "edited there"
    state.rebase(read_base(elsewhere, (3, 3)), 300.0, no_outputs)
    assert sources(state) == {"a": "x", "b": "edited there"}


def test_every_text_that_recovery_replaces_goes_into_the_history() -> None:
    state = start(a="typed")
    assert state.recover("a", Ran("ran first", 100.0))
    assert state.recover("a", Ran("ran second", 200.0))
    assert state.changes_since(0).recovered[0].other == "typed"
    assert state.take_replaced_texts() == [("recovered", {"a": "typed"}), ("recovered", {"a": "ran first"})]
    assert state.take_replaced_texts() == []


def test_a_page_of_an_earlier_server_is_told_of_the_text_of_a_cell_of_which_it_sends_something_else() -> None:
    """Another program changed the file while no server was there: this one does not know what the page has."""
    page = Page(start(a="x", b="y"))
    page.state = EditedNotebook.from_base(read_base(notebook(a="x\nnew", b="y"), (2, 2)), version=1000)
    changes = page.send(CellPatch("a", "code", outputs=OutputsPatch([])), metadata=MetadataPatch({"mine": 1}))
    assert {each.id: each.source for each in changes.cells} == {"a": "x\nnew", "b": "y"}
    assert changes.metadata == {"mine": 1}
