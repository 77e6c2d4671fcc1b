"""Texts and orders of cells merged against their common base."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ownlab.lab.notebooks.edits.three_way import merge_order, merge_text

LINES = st.lists(st.sampled_from(["a = 1\n", "b = 2\n", "c = 3\n", "\n", "d\x0c\n", "é\n"]), max_size=8)
TEXTS = st.builds(lambda lines, end: "".join(lines) + end, LINES, st.sampled_from(["", "last", "x"]))
IDS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged", "conflict"),
    [
        ("a\nb\nc\n", "a\nb\nX\n", "Y\nb\nc\n", "Y\nb\nX\n", False),
        ("a\nb\nc", "a\nb\nc\nd", "0\na\nb\nc", "0\na\nb\nc\nd", False),
        ("a\n", "b\n", "c\n", "b\n", True),
        ("a\n", "b\n", "b\n", "b\n", False),
        ("", "mine", "theirs", "mine", True),
        ("a\nb\nc\nd\n", "a\nc\nd\n", "a\nb\nc\nD\n", "a\nc\nD\n", False),
        ("a\nb\n", "a\nx\nb\n", "a\ny\nb\n", "a\nx\nb\n", True),
        # One appends a line, the other changes the last one.
        ("a\nb", "a\nb\nc", "a\nB", "a\nB\nc", False),
        ("a", "a\nb", "A", "A\nb", False),
        # One splits the cell behind a, the other changes b or adds x: c is in another cell now, and must not be here too.
        ("a\nb\nc", "a", "a\nB\nc", "a\nB", True),
        ("a\nb\nc", "a\nB\nc", "a", "a\nB", True),
        ("a\nb\nc", "a\nb\nx\nc", "a", "a\nx", True),
        ("a\nb\nc", "a", "a\nb\nx\nc", "a\nx", True),
    ],
)
def test_texts_are_merged_line_by_line(base: str, ours: str, theirs: str, merged: str, conflict: bool) -> None:
    assert merge_text(base, ours, theirs) == (merged, conflict)


@given(TEXTS, TEXTS)
def test_a_side_that_changed_nothing_gives_way(base: str, changed: str) -> None:
    assert merge_text(base, changed, base) == (changed, False)
    assert merge_text(base, base, changed) == (changed, False)
    assert merge_text(base, changed, changed) == (changed, False)


@given(TEXTS, TEXTS, TEXTS)
def test_without_a_conflict_both_orders_give_the_same_text(base: str, ours: str, theirs: str) -> None:
    first, second = merge_text(base, ours, theirs), merge_text(base, theirs, ours)
    assert first.conflict == second.conflict
    if not first.conflict:
        assert sorted(first.text.split("\n")) == sorted(second.text.split("\n"))


@given(TEXTS, TEXTS, TEXTS)
def test_every_line_that_one_side_added_is_in_the_result_or_it_is_a_conflict(base: str, ours: str, theirs: str) -> None:
    merged = merge_text(base, ours, theirs)
    for side in (ours, theirs):
        for line in set(side.split("\n")) - set(base.split("\n")):
            assert merged.conflict or line in merged.text.split("\n")


def test_edits_in_two_places_of_repeating_lines() -> None:
    base = ["", "x = 1"] * 50
    ours, theirs, both = list(base), list(base), list(base)
    ours[20] = both[20] = "y"
    theirs[70] = both[70] = "z"
    assert merge_text("\n".join(base), "\n".join(ours), "\n".join(theirs)) == ("\n".join(both), False)


def test_of_a_very_long_text_only_what_differs_is_compared() -> None:
    base = "x\n" * 20_000
    assert merge_text(base, base + "a", base + "b") == (base + "a", True)
    assert merge_text(base, "0\n" + base, base + "b") == ("0\n" + base + "b", False)
    other, third = "".join(f"{n}\n" for n in range(20_000)), "".join(f"{-n}\n" for n in range(20_000))
    assert merge_text(base, other, third) == (other, True)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "alive", "merged"),
    [
        ("abc", "abXc", "abc", "abXc", "abXc"),
        ("abc", "abc", "aYbc", "aYbc", "aYbc"),
        ("abc", "abXc", "aYbc", "aYbXc", "aYbXc"),
        ("abc", "cab", "abcY", "abcY", "cYab"),
        ("abc", "ac", "abc", "ac", "ac"),
        ("abc", "ac", "abc", "abc", "abc"),
        ("abc", "cba", "bac", "abc", "cba"),
        ("abc", "abc", "cba", "abc", "cba"),
        ("", "x", "y", "xy", "xy"),
    ],
)
def test_orders_are_merged(base: str, ours: str, theirs: str, alive: str, merged: str) -> None:
    assert "".join(merge_order(base, ours, theirs, alive)) == merged


@given(IDS, IDS, IDS)
def test_every_remaining_cell_is_there_once(base: list[str], ours: list[str], theirs: list[str]) -> None:
    alive = set(ours) | set(theirs)
    assert sorted(merge_order(base, ours, theirs, alive)) == sorted(alive)
