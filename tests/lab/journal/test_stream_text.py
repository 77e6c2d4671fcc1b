"""Text with a cursor. test_jupyterlab.py compares it with JupyterLab's own code."""

from __future__ import annotations

import random

import pytest

from ownlab.lab.journal.stream_text import StreamText


def text_of(*pieces: str) -> StreamText:
    text = StreamText()
    for piece in pieces:
        text.add(piece)
    return text


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["a", "b\n", "c"], "ab\nc"),
        (["10%", "\r", "20"], "20%"),
        (["old line", "\rnew\n", "x"], "new line\nx"),
        (["one\n", "\b\bx"], "one\nx"),
        (["abc\b\bd"], "ad"),
        (["abcd\rx\by"], "yd"),  # a backspace takes the character under the cursor as well
        (["windows\r\n", "lines\r", "\n"], "windows\nlines\n"),
        (["😀😀\rab"], "ab😀"),  # counted in UTF-16, as JavaScript does
        (["😀\ra"], "a\ufffd"),
    ],
)
def test_pieces_are_printed_at_the_cursor(pieces: list[str], expected: str) -> None:
    assert text_of(*pieces).whole() == expected


def test_replayed_text_continues_the_same_way() -> None:
    chance = random.Random(4)
    for _ in range(500):
        pieces = chance.choices(["a", "bc", "\n", "\r", "\b", "é", "long text"], k=12)
        text = text_of(*pieces)
        again = text_of(text.replay())
        loaded = StreamText.load(text.dump())
        for stream in (text, again, loaded):
            stream.add("x\by\rz")
        assert again.whole() == text.whole() == loaded.whole(), pieces


def test_the_beginning_is_removed_from_whole_lines_and_the_last() -> None:
    text = text_of("one\n", "two\n", "three")
    assert text.take_front(5) == "one\nt"
    assert text.whole() == "wo\nthree"
    assert text.take_front(4) == "wo\nt"
    text.add("!")
    assert text.whole() == "hree!"
    assert text.take_front(100) == "hree!"
    assert (text.whole(), text.size) == ("", 0)
