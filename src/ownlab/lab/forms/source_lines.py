"""The lines of a cell, as far as forms need them: where the comment begins, and what stands inside strings."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

__all__ = ["Line", "lines_of"]

# As Python counts them. str.splitlines() knows more ends, and some of those may stand inside a string.
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_MAGIC = re.compile(r"%%(\w+)")
# !ls, %cd, and what takes their results. What a shell means by quotes and brackets is none of ours.
_COMMAND = re.compile(r"(?:\w[\w, ]*=\s*)?[!%]")
# Cell magics whose body is Python.
_OF_PYTHON = frozenset(("time", "timeit", "capture", "prun", "mprun", "memit", "python", "python3", "pypy", "debug"))
_TOKEN = re.compile(
    r"""(?:(?<!\w)(?P<prefix>[A-Za-z]{1,2}))?(?P<quote>\"{3}|'{3}|"|')|(?P<comment>\#)|(?P<open>[(\[{])|(?P<close>[)\]}])"""
    r"""|(?P<equals>(?<![=!<>:+\-*/%&|^@])=(?!=))|(?P<semicolon>;)|(?P<joined>\\\Z)"""
)
_ENDS = {quote: re.compile(r"\\|" + quote) for quote in ('"""', "'''", '"', "'")}
# From Python 3.12 on any quote may stand between the braces.
_FORMATTED = {
    quote: re.compile(
        rf"(?:[^{quote}\\{{}}]|\\.|\{{\{{|\}}\}}|\{{(?!\{{)[^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\}})*{quote}"
    )
    for quote in "\"'"
}
_PARAM = re.compile(r"#\s*@param")


class Line(NamedTuple):
    """One line of a source."""

    number: int  # from 0
    start: int  # in the whole source
    text: str  # without its end
    comment: int | None = None  # within text: where "#" begins a comment
    whole: bool = False  # nothing from before reaches into the line, and nothing of it goes on
    equals: tuple[int, ...] = ()  # within text: each "=" of an assignment, outside brackets
    semicolons: tuple[int, ...] = ()  # likewise


def lines_of(source: str) -> list[Line]:
    """Every line but empty ones. What stands inside a string of several lines has no comment.

    A bracket or a string that is never closed (somebody is typing it) does not swallow the rest of the cell.
    """
    lines, unclosed = _scan(source, ())
    return _scan(source, unclosed)[0] if unclosed else lines


def _scan(source: str, ignored: Collection[int]) -> tuple[list[Line], frozenset[int]]:
    scan = _Scan(ignored)
    lines: list[Line] = []
    begun = foreign = command = False
    for number, found in enumerate(_LINE.finditer(source)):
        line = Line(number, found.start(), found[1])
        if not line.text and scan.at_rest:
            continue
        inner = line.text.lstrip("\ufeff \t\f")
        magic = _MAGIC.match(inner) if not begun else None
        if magic:
            foreign = magic[1] not in _OF_PYTHON
        elif foreign:
            line = _Scan(()).take(line)  # each line for itself: brackets and quotes are another language's
        elif command or (scan.at_rest and _COMMAND.match(inner)):
            command = line.text.endswith("\\")
        else:
            line = scan.take(line)
        lines.append(line)
        begun = begun or bool(inner and inner[0] != "#")  # comments may stand above a cell magic: so it is on Colab
    return lines, scan.unclosed


class _Scan:
    """Strings, brackets and backslashes that go on over the end of a line."""

    def __init__(self, ignored: Collection[int]) -> None:
        self._ignored = ignored  # places of quotes and brackets that are never closed
        self._quote = ""  # of the string that we are in
        self._quote_at = 0
        self._open: list[int] = []
        self._joined = False  # the line before ended in a backslash
        self._nested = True  # f-strings of this line are looked into; after one that is odd, no more: it costs

    @property
    def at_rest(self) -> bool:
        return not (self._quote or self._open or self._joined)

    @property
    def unclosed(self) -> frozenset[int]:
        """Places in the source; of a string, and of brackets."""
        return frozenset([*self._open, self._quote_at] if self._quote else self._open)

    def take(self, line: Line) -> Line:
        """Go over one line."""
        fresh = self.at_rest
        found, complete = self._over(line, len(line.text))
        if not complete and fresh and (param := _PARAM.search(line.text)):
            # A quote is open at the line's end, which is no Python: it swallowed the comment.
            self._open.clear()
            self._quote, self._joined = "", False
            found = self._over(line, param.start())[0]._replace(comment=param.start())
        return found._replace(whole=fresh and self.at_rest)

    def _over(self, line: Line, end: int) -> tuple[Line, bool]:
        """The line up to a place; False: with a string that Python would not let end there."""
        text, complete, place = line.text, True, 0
        equals: list[int] = []
        semicolons: list[int] = []
        if self._quote:
            place, complete = self._rest_of_string(text, 0, end)
        self._joined, self._nested = False, True
        while place < end and (token := _TOKEN.search(text, place, end)):
            place, kind = token.end(), token.lastgroup
            if kind == "comment":
                return line._replace(
                    comment=token.start(), equals=tuple(equals), semicolons=tuple(semicolons)
                ), complete
            if kind == "quote":
                place, closed = self._string(line, token, end)
                complete = complete and closed
            elif kind == "open" and line.start + token.start() not in self._ignored:
                self._open.append(line.start + token.start())
            elif kind == "close" and self._open:
                self._open.pop()
            elif kind == "equals" and not self._open:
                equals.append(token.start())
            elif kind == "semicolon" and not self._open:
                semicolons.append(token.start())
            elif kind == "joined":
                self._joined = True
        return line._replace(equals=tuple(equals), semicolons=tuple(semicolons)), complete

    def _string(self, line: Line, token: re.Match[str], end: int) -> tuple[int, bool]:
        text, quote = line.text, token["quote"]
        at = line.start + token.start("quote")
        if at in self._ignored:
            return token.end(), True
        if len(quote) == 1 and self._nested and "f" in (token["prefix"] or "").lower():
            formatted = _FORMATTED[quote].match(text, token.end(), end)
            if formatted:
                return formatted.end(), True
            self._nested = False
        self._quote, self._quote_at = quote, at
        return self._rest_of_string(text, token.end(), end)

    def _rest_of_string(self, text: str, place: int, end: int) -> tuple[int, bool]:
        """Where the string that we are in ends, or this line does."""
        while found := _ENDS[self._quote].search(text, place, end):
            if found[0] != "\\":
                self._quote = ""
                return found.end(), True
            place = found.end() + 1
        goes_on = len(self._quote) == 3 or place > end  # its last character is a backslash
        if not goes_on:
            self._quote = ""
        return end, goes_on
