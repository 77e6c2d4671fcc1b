"""Bars and graphs, without a terminal."""

from __future__ import annotations

import pytest

from ownlab.instruments.top.screen.widgets import BLOCKS, PLAIN, bar, glyphs_for, graph


@pytest.mark.parametrize(
    ("percent", "filled"),
    [(0, ""), (0.01, "▏"), (50, "█████"), (55, "█████▌"), (100, "██████████"), (140, "██████████"), (None, "")],
)
def test_a_bar_shows_every_value_above_zero(percent: float | None, filled: str) -> None:
    drawn, empty = bar(percent, 10)
    assert drawn == filled
    assert len(drawn + empty) == 10


def test_a_graph_distinguishes_zero_from_unknown() -> None:
    assert graph([None, 0, 50, 100], 6) == ["   ▁▄▇"]
    assert graph([0, 100], 2, height=2) == [" ▇", "▁█"]
    assert graph([1, 2, 3], 0) == [""]


def test_a_terminal_without_blocks_gets_plain_characters() -> None:
    assert glyphs_for({"TERM": "xterm-256color"}, "utf-8") is BLOCKS
    assert glyphs_for({"TERM": "linux"}, "UTF-8") is PLAIN
    assert glyphs_for({"TERM": "xterm"}, "ascii") is PLAIN
    assert bar(50, 4, PLAIN) == ("##", "..")
    assert graph([0, 100], 2, 1, PLAIN) == [".*"]
