"""A field's value: from its source text to what a person sees, and from what a person gives to source text.

The page does the same in `labextension/src/forms/fieldValue.ts`; one table of tests holds both to it.
"""

from __future__ import annotations

import ast
import calendar
import difflib
import math
import re
import warnings
from collections.abc import Sequence

from ownlab.errors import UsageError
from ownlab.lab.forms.grammar import Field
from ownlab.lab.forms.source_lines import lines_of

__all__ = ["described", "nearest", "read_string", "shown", "source_text", "written_string"]

_WORDS: dict[str, str] = {"raw": "Python", "slider": "number"}
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WHOLE = re.compile(r"[-+]?\s*(?:0(?:_?0)*|[1-9](?:_?[0-9])*)")
_BASED = re.compile(r"[-+]?\s*(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)")
_FLOAT = re.compile(  # with a point or an exponent: 007 is no number
    r"[-+]?\s*(?=\.?[0-9])(?=.*[.eE])(?:[0-9](?:_?[0-9])*)?(?:\.(?:[0-9](?:_?[0-9])*)?)?(?:[eE][-+]?[0-9](?:_?[0-9])*)?"
)


def shown(field: Field) -> str:
    """What the field shows: a string without its quotes, anything else as it stands in the source."""
    said = read_string(field.value) if _kind(field) in ("string", "date") else None
    return field.value if said is None else said


def source_text(field: Field, given: str) -> str:
    """What is given, as it is written into the source. UsageError where the field does not take it.

    What the field shows already leaves the source as it is, whatever that is: f"{name}", os.getcwd(), r"C:\\data".
    """
    if given == shown(field) and field.value:
        return field.value
    if field.choices is not None and not field.allow_input and given not in field.choices:
        near = nearest(given, field.choices)
        raise UsageError(
            f"{field.name} must be one of {', '.join(field.choices)}; not {given!r}."
            + (f" Did you mean {near}?" if near else "")
        )
    kind = _kind(field)
    if kind == "string":
        return written_string(given, field.value)
    if kind == "date":
        return written_string(_date(field, given), field.value)
    if kind == "boolean":
        return _boolean(field, given)
    if kind in ("number", "integer", "slider"):
        return _number(field, given.strip(), kind)
    return _expression(field, given.strip())


def described(field: Field) -> str:
    """The type in words, for help: "integer from 1 to 10", "one of fp16, fp32"."""
    if field.choices is not None:
        return f"one of {', '.join(field.choices)}" + (", or anything" if field.allow_input else "")
    words = _WORDS.get(field.type, field.type)
    low, high = field.min, field.max
    if low is not None and high is not None:
        words += f" from {_short(low)} to {_short(high)}"
    elif low is not None:
        words += f" from {_short(low)}"
    elif high is not None:
        words += f" up to {_short(high)}"
    if field.type == "slider" and field.step not in (None, 1):
        words += f" in steps of {_short(field.step)}"
    return words


def nearest(given: str, known: Sequence[str]) -> str | None:
    """The one that was probably meant."""
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.6)
    return close[0] if close else None


def _kind(field: Field) -> str:
    return field.value_type if field.type == "dropdown" else field.type


def _date(field: Field, given: str) -> str:
    if _DATE.fullmatch(given) and _is_day(*map(int, given.split("-"))):
        return given
    raise UsageError(f"{field.name} must be a date such as 2026-01-31, not {given!r}.")


def _is_day(year: int, month: int, day: int) -> bool:
    return year > 0 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


def _boolean(field: Field, given: str) -> str:
    word = given.strip().lower()
    if word in _YES:
        return "True"
    if word in _NO:
        return "False"
    raise UsageError(f"{field.name} must be True or False, not {given!r}.")


def _number(field: Field, given: str, kind: str) -> str:
    value, whole = _read_number(given)
    if value is None or (kind == "integer" and not value.is_integer()):
        wanted = "a whole number" if kind == "integer" else "a number"
        raise UsageError(f"{field.name} must be {wanted}, not {given!r}.")
    low, high = field.min, field.max
    if (low is not None and value < low) or (high is not None and value > high):
        raise UsageError(f"{field.name} must be {_a(described(field))}, not {given!r}.")
    return str(int(value)) if kind == "integer" and not whole else given


def _read_number(text: str) -> tuple[float | None, bool]:
    """Its value, None where it is none that is finite; and whether it is written as a whole number."""
    bare = re.sub(r"[_\s]", "", text)
    whole = _WHOLE.fullmatch(text) is not None
    if _BASED.fullmatch(text):
        value, whole = _as_float(int(bare, 0)), True
    elif whole or _FLOAT.fullmatch(text):
        value = float(bare)
    else:
        return None, False
    return (value if math.isfinite(value) else None), whole


def _as_float(number: int) -> float:
    return float(number) if number.bit_length() < 1024 else math.inf


def _expression(field: Field, given: str) -> str:
    lines = lines_of(given)
    # A comment, or a line's end, would swallow the one that makes the field.
    if len(lines) != 1 or lines[0].comment is not None or not lines[0].whole or not _parses(given):
        raise UsageError(
            f"{field.name} must be one line of Python, such as 10, None or [1, 2]; not {given!r}.",
            hint='A string has its quotes: "…"',
        )
    return given


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\\d" is one
            ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _a(words: str) -> str:
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def _short(number: float | None) -> str:
    return f"{number:.15g}" if number is not None else ""


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
