"""Scan the lines of a cell for comments and assignments, without parsing Python: a cell may be unfinished or have magics."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

__all__ = ["Line", "scan_lines"]

# Lines as Python counts them. str.splitlines() knows more line ends, some of which may occur inside a string.
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_MAGIC = re.compile(r"%%(\w+)")
# !ls, %cd, and assignments of their results. Quotes and brackets in them belong to the shell.
_COMMAND = re.compile(r"(?:\w[\w, ]*=\s*)?[!%]")
# Cell magics whose body is Python.
_PYTHON_MAGICS = frozenset(
    ("time", "timeit", "capture", "prun", "mprun", "memit", "python", "python3", "pypy", "debug")
)
_TOKEN = re.compile(
    r"""(?:(?<!\w)(?P<prefix>[A-Za-z]{1,2}))?(?P<quote>\"{3}|'{3}|"|')|(?P<comment>\#)|(?P<open>[(\[{])|(?P<close>[)\]}])"""
    r"""|(?P<equals>(?<![=!<>:+\-*/%&|^@])=(?!=))|(?P<semicolon>;)|(?P<joined>\\\Z)"""
)
_ENDS = {quote: re.compile(r"\\|" + quote) for quote in ('"""', "'''", '"', "'")}
# Since Python 3.12 any quote may be used between the braces.
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
    comment: int | None = None  # within text: where a comment begins
    whole: bool = False  # no string or bracket continues from the line before or into the next
    equals: tuple[int, ...] = ()  # within text: each "=" of an assignment, outside brackets
    semicolons: tuple[int, ...] = ()  # likewise


def scan_lines(source: str) -> list[Line]:
    """Return all lines except empty ones. Lines inside a multi-line string have no comment.

    A bracket or string that is never closed (somebody is typing it) does not swallow the rest of the cell.
    """
    lines, unclosed = _scan(source, ())
    return _scan(source, unclosed)[0] if unclosed else lines


def _scan(source: str, ignored: Collection[int]) -> tuple[list[Line], frozenset[int]]:
    scanner = _Scanner(ignored)
    lines: list[Line] = []
    begun = foreign = command = False
    for number, match in enumerate(_LINE.finditer(source)):
        line = Line(number, match.start(), match[1])
        if not line.text and scanner.at_rest:
            continue
        inner = line.text.lstrip("\ufeff \t\f")
        magic = _MAGIC.match(inner) if not begun else None
        if magic:
            foreign = magic[1] not in _PYTHON_MAGICS
        elif foreign:
            line = _Scanner(()).scan(line)  # line by line: brackets and quotes belong to another language
        elif command or (scanner.at_rest and _COMMAND.match(inner)):
            command = line.text.endswith("\\")
        else:
            line = scanner.scan(line)
        lines.append(line)
        begun = begun or bool(inner and inner[0] != "#")  # as on Colab, comments may precede a cell magic
    return lines, scanner.unclosed


class _Scanner:
    """The state that continues over the end of a line: strings, brackets, backslashes."""

    def __init__(self, ignored: Collection[int]) -> None:
        self._ignored = ignored  # positions of quotes and brackets that are never closed
        self._quote = ""  # of the current string
        self._quote_at = 0
        self._open: list[int] = []
        self._joined = False  # the previous line ended with a backslash
        self._nested = True  # whether f-strings of this line are parsed; not after a malformed one, which is slow

    @property
    def at_rest(self) -> bool:
        return not (self._quote or self._open or self._joined)

    @property
    def unclosed(self) -> frozenset[int]:
        """Positions of the open string and brackets in the source."""
        return frozenset([*self._open, self._quote_at] if self._quote else self._open)

    def scan(self, line: Line) -> Line:
        """Scan one line."""
        fresh = self.at_rest
        scanned, complete = self._scan_to(line, len(line.text))
        if not complete and fresh and (param := _PARAM.search(line.text)):
            # A quote is open at the end of the line, which is not valid Python: it swallowed the comment.
            self._open.clear()
            self._quote, self._joined = "", False
            scanned = self._scan_to(line, param.start())[0]._replace(comment=param.start())
        return scanned._replace(whole=fresh and self.at_rest)

    def _scan_to(self, line: Line, end: int) -> tuple[Line, bool]:
        """Scan up to a position. Also return False if a string is open there that Python does not allow to end."""
        text, complete, position = line.text, True, 0
        equals: list[int] = []
        semicolons: list[int] = []
        if self._quote:
            position, complete = self._rest_of_string(text, 0, end)
        self._joined, self._nested = False, True
        while position < end and (token := _TOKEN.search(text, position, end)):
            position, kind = token.end(), token.lastgroup
            if kind == "comment":
                return line._replace(
                    comment=token.start(), equals=tuple(equals), semicolons=tuple(semicolons)
                ), complete
            if kind == "quote":
                position, closed = self._string(line, token, end)
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

    def _rest_of_string(self, text: str, position: int, end: int) -> tuple[int, bool]:
        """Return where the current string or the line ends."""
        while end_match := _ENDS[self._quote].search(text, position, end):
            if end_match[0] != "\\":
                self._quote = ""
                return end_match.end(), True
            position = end_match.end() + 1
        continues = len(self._quote) == 3 or position > end  # its last character is a backslash
        if not continues:
            self._quote = ""
        return end, continues
