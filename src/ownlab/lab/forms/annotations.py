"""The values inside `{…}` and `[…]` of a form's comment: JavaScript-like, as people wrote them, never an error."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Read", "Value", "Word", "read_literal"]

_SPACE = re.compile(r"\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_QUOTES = "\"'`"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Word(str):
    """What stands there without quotes, as it was written: a number, true, an expression."""

    __slots__ = ()


Value = str | Word | list[str] | dict[str, str]


class Read(NamedTuple):
    """A value, and where the text after it begins."""

    value: Value
    end: int


def read_literal(text: str, start: int) -> Read:
    """The list or the object whose bracket stands at a place. Inside them everything is text: see `Word`."""
    return _list(text, start) if text[start] == "[" else _object(text, start)


def _list(text: str, start: int) -> Read:
    items: list[str] = []
    place = _skip(text, start + 1)
    while place < len(text) and text[place] != "]":
        if text[place] == ",":  # [1,,2], or one at the end: nothing stands between
            place = _skip(text, place + 1)
            continue
        item, end = _item(text, place, ",]")
        items.append(item)
        place = _skip(text, max(end, place + 1))
    return Read(items, min(place + 1, len(text)))


def _object(text: str, start: int) -> Read:
    found: dict[str, str] = {}
    place = _skip(text, start + 1)
    while place < len(text) and text[place] != "}":
        if text[place] in ",;":
            place = _skip(text, place + 1)
            continue
        key, end = _item(text, place, ":=,}")
        place = _skip(text, max(end, place + 1))
        value: str = Word("true")  # {isTemplate}
        if text[place : place + 1] in (":", "="):
            value, end = _item(text, _skip(text, place + 1), ",}")
            place = _skip(text, max(end, place + 1))
        if key:
            found.setdefault(key, value)
    return Read(found, min(place + 1, len(text)))


def _skip(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def _item(text: str, start: int, stop: str) -> tuple[str, int]:
    return _quoted(text, start) if text[start : start + 1] in tuple(_QUOTES) else _bare(text, start, stop)


def _quoted(text: str, start: int) -> tuple[str, int]:
    quote, said, place = text[start], [], start + 1
    while place < len(text) and text[place] != quote:
        if text[place] == "\\" and place + 1 < len(text):
            place += 1
            said.append(_ESCAPES.get(text[place], text[place]))
        else:
            said.append(text[place])
        place += 1
    return "".join(said), min(place + 1, len(text))


def _bare(text: str, start: int, stop: str) -> tuple[Word, int]:
    """Up to one of the characters in `stop`; [(1, 2), f("a, b")] are two."""
    place = start
    open_brackets: list[str] = []
    while place < len(text):
        char = text[place]
        if not open_brackets and char in stop:
            break
        if char in _CLOSING:
            open_brackets.append(_CLOSING[char])
        elif open_brackets and char in _QUOTES:
            place = _quoted(text, place)[1]
            continue
        elif open_brackets and char == open_brackets[-1]:
            open_brackets.pop()
        place += 1
    return Word(text[start:place].strip()), place
