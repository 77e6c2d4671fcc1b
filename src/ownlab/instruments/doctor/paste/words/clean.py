"""Takes off what pasting puts on: colours, quoting, fences, line numbers, prefixes of logs."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Lines", "clean"]

# Longer lines are cut: one that is really read (a CSV with every field) has 6,000 characters.
_LONGEST = 20_000

# More lines than any log of 50 MB has; those in the middle are left out.
_MOST = 1_000_000

# The escape character itself is often lost on the way into a web page; "[0m" stays.
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\[\d{1,3}(?:;\d{1,3})*m")
_REPLACED = {
    "\r\n": "\n",
    "\r": "\n",
    "\x0c": "\n",
    "\xa0": " ",
    "\u2007": " ",
    "\u202f": " ",
    "\u200b": "",
    "\ufeff": "",
}
_CURLY = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "…": "..."})
_QUOTED = re.compile(r"^[ \t]{0,3}(?:>(?!>>)[ \t]?)+", re.MULTILINE)
_FENCE = re.compile(r"^\s*(?:```|~~~|</?(?:details|summary|pre|code|br)\b)")
_NUMBERED = re.compile(r"^\s*(\d{1,7})(?:[:|] ?|\t|\s{2})")

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?:?"
_PREFIX = re.compile(
    rf"""^\s*(?:
        {_TIME}[ \t]
      | \[[^\]\n]{{0,40}}\d\d:\d\d[^\]\n]{{0,40}}\][ \t]?(?:\[(?!pip|conda)[^\]\n]{{1,40}}\][ \t]?)*   # CI: [task 12:00] [train]
      | \[\s*\d+\.\d{{6}}\][ \t]?                                     # dmesg
      | \[rank\d+\]:[ ]?
      | \([^()\n]{{1,60}}\bpid=\d+[^()\n]{{0,40}}\)[ ]?               # Ray, vLLM
      | [\w.-]{{1,60}}[-_]\d+[ \t]+\|(?:[ ]|$)                        # docker compose
    ){{1,3}}""",
    re.VERBOSE,
)
# What makes a line worth the search above: nearly all lines of a long log do not.
_PREFIXED = re.compile(r"^\s*(?:\d{4}-\d\d-\d\d[T ]|\[|\(|[\w.-]+[-_]\d+[ \t]+\|)")


class Lines(NamedTuple):
    """A text's lines, twice: as they are shown to people, and bare, as reports are recognised."""

    shown: list[str]
    bare: list[str]
    left_out: int  # lines in the middle of a text that has too many


def clean(text: str) -> Lines:
    if "\x1b" in text or "[0m" in text:
        text = _COLOUR.sub("", text)
    for odd, plain in _REPLACED.items():
        if odd in text:
            text = text.replace(odd, plain)
    if "\n>" in text or text.startswith(">"):
        text = _QUOTED.sub("", text)
    lines = text.split("\n")
    left_out = max(0, len(lines) - _MOST)
    if left_out:
        del lines[_MOST // 2 : -_MOST // 2]
    shown = [_tidy(line) for line in lines]
    if _are_numbered(shown):
        shown = [_NUMBERED.sub("", line, count=1) for line in shown]
    return Lines(shown, [_bare(line) for line in shown], left_out)


def _tidy(line: str) -> str:
    if len(line) > _LONGEST and line[0] not in "<{[":  # XML and JSON may be one line
        line = line[:_LONGEST]
    # XML keeps its own entities and JSON its quotes: undone here, they would break them.
    if "&" in line and not line.lstrip().startswith("<"):
        line = html.unescape(line).replace("\xa0", " ")
    if not line.isascii() and line.lstrip()[:1] not in ('"', "{", "["):
        line = line.translate(_CURLY)
    if line and _FENCE.match(line):
        return ""
    return line.rstrip()


def _bare(line: str) -> str:
    return _PREFIX.sub("", line, count=1) if _PREFIXED.match(line) else line


def _are_numbered(lines: list[str]) -> bool:
    """Whether all lines begin with their numbers, as `cat -n` and some pages show them."""
    if len(lines) < 3:
        return False
    numbers = []
    for line in lines[:200]:
        match = _NUMBERED.match(line + "  ")
        if match is None and line:
            return False
        if match is not None:
            numbers.append(int(match[1]))
    return len(numbers) >= 3 and all(later - number == 1 for number, later in pairwise(numbers))
