"""Lines with wide characters."""

from __future__ import annotations

from itertools import pairwise

import click
import pytest
import rich.text
from rich.console import Console

from ownlab.render.wide_text import (
    align_left,
    align_right,
    break_points,
    cell_width,
    install,
    shorten,
    wrap,
    wrap_lines,
)

SENTENCE = "驱动版本 470.82 太旧，无法运行 torch 2.11；请升级驱动（R580 或更新）。"


@pytest.mark.parametrize(("words", "cells"), [("GPU", 3), ("显卡", 4), ("é", 1), ("e\u0301", 1), ("（R580）", 8)])
def test_width(words: str, cells: int) -> None:
    assert cell_width(words) == cells


@pytest.mark.parametrize("width", [10, 16, 21, 40])
def test_lines_are_full_and_begin_with_no_punctuation(width: int) -> None:
    points = [0, *break_points(SENTENCE, width), len(SENTENCE)]
    lines = [SENTENCE[start:end] for start, end in pairwise(points)]
    assert "".join(lines) == SENTENCE
    assert all(cell_width(line.rstrip()) <= width for line in lines)
    assert not any(line.startswith(("，", "。", "；", "）")) or line.endswith("（") for line in lines)
    # No line is broken early: what begins the next one would not have fitted.
    assert len(lines) <= cell_width(SENTENCE) // (width - 7) + 1


def test_words_are_not_broken_unless_they_are_longer_than_a_line() -> None:
    assert break_points("one two", 5) == [4]
    assert break_points("abcdefgh", 3) == [3, 6]
    assert break_points("abcdefgh", 3, fold=False) == []


def test_indents() -> None:
    assert wrap("甲乙丙丁戊己", 12, "- ", "  ") == "- 甲乙丙丁戊\n  己"


def test_columns_are_aligned_by_cells() -> None:
    assert align_left("显存", 6) == "显存  "
    assert align_right("显存", 6) == "  显存"
    assert align_left("card", 6) == "card  "
    assert align_right("too long", 3) == "too long"


@pytest.mark.parametrize(
    ("width", "expected"), [(8, "显存不足"), (7, "显存不…"), (6, "显存…"), (2, "…"), (1, "…"), (0, "")]
)
def test_a_shortened_text_takes_no_more_cells(width: int, expected: str) -> None:
    assert shorten("显存不足", width) == expected


def test_the_last_of_a_few_lines_says_that_more_is_left_out() -> None:
    assert wrap_lines("one two three", 20, 1) == ["one two three"]
    assert wrap_lines("one two three four", 8, 2) == ["one two", "three …"]
    assert wrap_lines("驱动太旧，无法运行", 8, 2) == ["驱动太", "旧，无 …"]


def test_rich_and_click_break_lines_between_chinese_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((rich.text, "divide_line"), (click.formatting, "wrap_text"), (click.formatting, "term_len")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    install()
    console = Console(width=19, force_terminal=False)
    with console.capture() as captured:
        console.print(rich.text.Text("GPU 工作可以运行，驱动足够新。"))
    assert captured.get() == "GPU 工作可以运行，\n驱动足够新。\n"
    formatter = click.HelpFormatter(width=30)
    formatter.write_dl([("--json", "输出一个 JSON 文档，而不是文本。"), ("--显存", "说明")])
    assert formatter.getvalue() == "--json  输出一个 JSON 文档，\n        而不是文本。\n--显存  说明\n"
