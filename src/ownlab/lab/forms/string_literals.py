"""Python's string literals, read and written without Python: a field's text may be anything, and warns of nothing."""

from __future__ import annotations

import re

__all__ = ["read_string", "written_string"]

_OPENED = re.compile(r"([rRuU]?)(\"{3}|'{3}|\"|')")
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<other>.))",
    re.DOTALL,
)
_MEANT = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
          "\n": ""}  # fmt: skip
_NAMED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANK = " \t\f"


def read_string(text: str) -> str | None:
    """What a string literal says, or several beside each other. None: it is none, or one with Unicode's names."""
    said: list[str] = []
    place, text = 0, text.strip()
    while place < len(text):
        opened = _OPENED.match(text, place)
        end = _closing(text, opened.end(), opened[2]) if opened else None
        if opened is None or end is None:
            return None
        inner = text[opened.end() : end]
        one = inner if opened[1] in ("r", "R") else _unescaped(inner)
        if one is None:
            return None
        said.append(one)
        place = end + len(opened[2])
        while place < len(text) and text[place] in _BLANK:
            place += 1
    return "".join(said) if said else None


def written_string(text: str, before: str) -> str:
    """A literal, in the quotes of the one that stood there."""
    quote = "'" if before.startswith("'") and not before.startswith("'''") else '"'
    return quote + "".join(f"\\{char}" if char == quote else _escaped(char) for char in text) + quote


def _closing(text: str, place: int, quote: str) -> int | None:
    while place < len(text):
        if text[place] == "\\":
            place += 2
        elif text.startswith(quote, place):
            return place
        elif text[place] in "\r\n" and len(quote) == 1:
            return None
        else:
            place += 1
    return None


def _unescaped(inner: str) -> str | None:
    unknown = False

    def meant(found: re.Match[str]) -> str:
        nonlocal unknown
        other = found["other"]
        if other is None:
            code = int(found["octal"], 8) if found["octal"] else int(found["x"] or found["u"] or found["U"], 16)
            unknown = unknown or code > 0x10FFFF
            return "" if unknown else chr(code)
        unknown = unknown or other in "NxuU"  # a name, or too few digits
        return _MEANT.get(other, found[0])

    said = _ESCAPE.sub(meant, inner)
    return None if unknown else said


def _escaped(char: str) -> str:
    """As repr has it: what cannot be seen is written by its number."""
    if char.isprintable() and char != "\\":
        return char
    code = ord(char)
    return _NAMED.get(char) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )
