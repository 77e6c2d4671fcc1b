"""Lines of text with wide characters: Chinese is two cells wide, and may be broken between any two characters.

Rich and click break lines at spaces alone, so a Chinese sentence would be one long word. `install` replaces their functions
in a process that speaks Chinese.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["align_left", "align_right", "break_points", "cell_width", "install", "shorten", "wrap", "wrap_lines"]

# A line does not begin with these, nor end with those. From JIS X 4051 and GB/T 15834, as browsers do it.
_NEVER_FIRST = frozenset("，。、；：？！）》」』】〕”’…％·,.;:?!)]}%")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_UNIT = re.compile(r"(?:%|°C|[mµ]?s|h|min|d|[KMGTP]i?B|B|k?W|[MG]Hz)(?![A-Za-z])")
_NEVER_LAST = frozenset("（《「『【〔“‘([{")


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def align_left(text: str, width: int) -> str:
    """`str.ljust` by cells."""
    return text + " " * (width - cell_width(text))


def align_right(text: str, width: int) -> str:
    """`str.rjust` by cells."""
    return " " * (width - cell_width(text)) + text


def shorten(text: str, width: int) -> str:
    """Return a text that takes this many cells at most, with an ellipsis where something is left out."""
    if cell_width(text) <= width:
        return text
    kept, used = "", 1
    for character in text:
        used += _cells(character)
        if used > width:
            break
        kept += character
    return f"{kept}…" if width > 0 else ""


def _cells(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def break_points(text: str, width: int, fold: bool = True) -> list[int]:
    """Return the offsets at which lines of this width begin; takes the place of `rich._wrap.divide_line`."""
    points: list[int] = []
    used = 0
    for start, piece in _pieces(text):
        size = cell_width(piece.rstrip())
        if used + size > width and used:
            points.append(start)
            used = 0
        if size > width and fold:
            for offset, character in enumerate(piece):
                if used + _cells(character) > width:
                    points.append(start + offset)
                    used = 0
                used += _cells(character)
        else:
            used += cell_width(piece)
    return points


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield what must stay on one line, with the spaces behind it, and where it begins."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or (_may_break(text[end - 1], text[end]) and not _is_unit(text, end)):
            yield start, text[start:end]
            start = end


def _is_unit(text: str, start: int) -> bool:
    """Whether the unit of a number begins here: "93 %" stays together."""
    number = text[start - 1] == " " and start > 1 and text[start - 2].isdigit()
    return number and _UNIT.match(text, start) is not None


def _may_break(before: str, after: str) -> bool:
    if after.isspace():
        return False
    if before.isspace():
        return True
    wide = _cells(before) == 2 or _cells(after) == 2
    return wide and after not in _NEVER_FIRST and before not in _NEVER_LAST


def wrap_lines(text: str, width: int, most: int) -> list[str]:
    """Return the lines of a paragraph; where there would be more than `most`, the last one ends with an ellipsis."""
    points = [0, *break_points(text, width), len(text)]
    lines = [text[start:end].strip() for start, end in pairwise(points)]
    if len(lines) > most:
        rest = text[points[most - 1] :].strip()
        lines = [*lines[: most - 1], _cut(rest, width)]
    return lines


def _cut(text: str, width: int) -> str:
    """As many words of a text as leave room for " …"."""
    points = break_points(text, width - 2)
    return f"{text[: points[0]].rstrip()} …" if points else text


def wrap(text: str, width: int, first: str = "", later: str = "") -> str:
    """Return a paragraph in lines of this width, the first and the later ones with an indent."""
    room = max(width - max(cell_width(first), cell_width(later)), 10)
    points = [0, *break_points(text, room), len(text)]
    lines = [text[start:end].strip() for start, end in pairwise(points)]
    return "\n".join((later if number else first) + line for number, line in enumerate(lines))


def _wrap_help(
    text: str,
    width: int = 78,
    initial_indent: str = "",
    subsequent_indent: str = "",
    preserve_paragraphs: bool = False,
) -> str:
    """Take the place of `click.formatting.wrap_text`: paragraphs; "\\b" on a line of its own keeps the lines of one."""
    paragraphs = text.expandtabs().split("\n\n") if preserve_paragraphs else [text]
    wrapped = []
    for paragraph in paragraphs:
        mark, _, rest = paragraph.lstrip("\n").partition("\n")
        if mark.strip() == "\b":
            wrapped.append("\n".join(initial_indent + line for line in rest.split("\n")))
        else:
            wrapped.append(wrap(" ".join(paragraph.split("\n")).strip(), width, initial_indent, subsequent_indent))
    return "\n\n".join(wrapped)


def install() -> None:
    """Let Rich and click, as far as they are loaded, break lines so. Private names: tests/render/test_wide_text.py."""
    if "rich.text" in sys.modules:
        sys.modules["rich.text"].divide_line = break_points  # type: ignore[attr-defined]
    if "click.formatting" in sys.modules:
        sys.modules["click.formatting"].wrap_text = _wrap_help  # type: ignore[attr-defined]
        sys.modules["click.formatting"].term_len = _visible_width  # type: ignore[attr-defined]


def _visible_width(text: str) -> int:
    return cell_width(_STYLE.sub("", text))
