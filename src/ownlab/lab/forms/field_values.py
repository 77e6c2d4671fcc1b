"""A field's value: from Python source to what the form displays, and from what a person enters back to source.

The page does the same in `labextension/src/forms/fieldValue.ts`; both are tested with tests/golden/forms/values.json.
String literals are read and written here without Python's parser: a field's text may be anything, and must not raise or warn.
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
from ownlab.lab.forms.source_lines import scan_lines
from ownlab.text import listing, template, text

__all__ = ["closest_match", "describe_type", "displayed_value", "read_string", "to_source", "written_string"]

_TYPES: dict[str, str] = {
    "string": text("string"),
    "raw": text("Python"),
    "number": text("number"),
    "integer": text("integer"),
    "boolean": text("boolean"),
    "slider": text("number"),
    "date": text("date"),
    "dropdown": text("dropdown"),
}
# How a value outside its limits is refused: with an article, which depends on the noun.
_OUT_OF_RANGE = {
    "integer": template("{name} must be an {type}, not {value!r}."),
    "number": template("{name} must be a {type}, not {value!r}."),
    "slider": template("{name} must be a {type}, not {value!r}."),
}
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WHOLE = re.compile(r"[-+]?\s*(?:0(?:_?0)*|[1-9](?:_?[0-9])*)")
_BASED = re.compile(r"[-+]?\s*(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+)")
_FLOAT = re.compile(  # with a point or an exponent: 007 is not a number
    r"[-+]?\s*(?=\.?[0-9])(?=.*[.eE])(?:[0-9](?:_?[0-9])*)?(?:\.(?:[0-9](?:_?[0-9])*)?)?(?:[eE][-+]?[0-9](?:_?[0-9])*)?"
)


def displayed_value(field: Field) -> str:
    """Return what the form displays: a string without its quotes, anything else as it is in the source."""
    value = read_string(field.value) if _kind(field) in ("string", "date") else None
    return field.value if value is None else value


def to_source(field: Field, entered: str) -> str:
    """Return the source for an entered value. UsageError where the field does not accept it.

    A value that equals the displayed one leaves the source unchanged, whatever it is: f"{name}", os.getcwd(), r"C:\\data".
    """
    if entered == displayed_value(field) and field.value:
        return field.value
    if field.choices is not None and not field.allow_input and entered not in field.choices:
        raise _not_a_choice(field, entered, field.choices)
    kind = _kind(field)
    if kind == "string":
        return written_string(entered, field.value)
    if kind == "date":
        return written_string(_date(field, entered), field.value)
    if kind == "boolean":
        return _boolean(field, entered)
    if kind in ("number", "integer", "slider"):
        return _number(field, entered.strip(), kind)
    return _expression(field, entered.strip())


def describe_type(field: Field) -> str:
    """Describe the type for help: "integer from 1 to 10", "one of fp16, fp32"."""
    if field.choices is not None:
        shape = template("one of {choices}, or anything") if field.allow_input else template("one of {choices}")
        return shape.fill(choices=listing(field.choices, "{items}, {last}"))
    low, high = field.min, field.max
    stepped = field.type == "slider" and field.step not in (None, 1)
    if low is not None and high is not None:
        shape = (
            template("{type} from {low} to {high} in steps of {step}")
            if stepped
            else template("{type} from {low} to {high}")
        )
    elif low is not None:
        shape = template("{type} from {low} in steps of {step}") if stepped else template("{type} from {low}")
    elif high is not None:
        shape = template("{type} up to {high} in steps of {step}") if stepped else template("{type} up to {high}")
    else:
        shape = template("{type} in steps of {step}") if stepped else template("{type}")
    return shape.fill(type=_TYPES[field.type], low=_short(low), high=_short(high), step=_short(field.step))


def closest_match(name: str, known: Sequence[str]) -> str | None:
    """Return the name that was probably meant."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return close[0] if close else None


def _not_a_choice(field: Field, entered: str, choices: Sequence[str]) -> UsageError:
    close = closest_match(entered, choices)
    message = (
        template("{name} must be one of {choices}; not {value!r}. Did you mean {close}?")
        if close
        else template("{name} must be one of {choices}; not {value!r}.")
    )
    return UsageError(
        message.fill(name=field.name, choices=listing(choices, "{items}, {last}"), value=entered, close=close)
    )


def _kind(field: Field) -> str:
    return field.value_type if field.type == "dropdown" else field.type


def _date(field: Field, entered: str) -> str:
    if _DATE.fullmatch(entered) and _is_day(*map(int, entered.split("-"))):
        return entered
    raise UsageError(text("{name} must be a date such as 2026-01-31, not {value!r}.", name=field.name, value=entered))


def _is_day(year: int, month: int, day: int) -> bool:
    return year > 0 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]


def _boolean(field: Field, entered: str) -> str:
    word = entered.strip().lower()
    if word in _TRUE:
        return "True"
    if word in _FALSE:
        return "False"
    raise UsageError(text("{name} must be True or False, not {value!r}.", name=field.name, value=entered))


def _number(field: Field, entered: str, kind: str) -> str:
    value, whole = _read_number(entered)
    if kind == "integer" and (value is None or not value.is_integer()):
        raise UsageError(text("{name} must be a whole number, not {value!r}.", name=field.name, value=entered))
    if value is None:
        raise UsageError(text("{name} must be a number, not {value!r}.", name=field.name, value=entered))
    low, high = field.min, field.max
    if (low is not None and value < low) or (high is not None and value > high):
        raise UsageError(_OUT_OF_RANGE[kind].fill(name=field.name, type=describe_type(field), value=entered))
    return str(int(value)) if kind == "integer" and not whole else entered


def _read_number(entered: str) -> tuple[float | None, bool]:
    """Return the value, None where it is not a finite number; and whether it is written as a whole number."""
    bare = re.sub(r"[_\s]", "", entered)
    whole = _WHOLE.fullmatch(entered) is not None
    if _BASED.fullmatch(entered):
        value, whole = _as_float(int(bare, 0)), True
    elif whole or _FLOAT.fullmatch(entered):
        value = float(bare)
    else:
        return None, False
    return (value if math.isfinite(value) else None), whole


def _as_float(number: int) -> float:
    return float(number) if number.bit_length() < 1024 else math.inf


def _expression(field: Field, entered: str) -> str:
    lines = scan_lines(entered)
    # A comment or a line break would swallow the comment that makes the field.
    if len(lines) != 1 or lines[0].comment is not None or not lines[0].whole or not _is_expression(entered):
        raise UsageError(
            text(
                "{name} must be one line of Python, such as 10, None or [1, 2]; not {value!r}.",
                name=field.name,
                value=entered,
            ),
            hint=text('Write a string with its quotes: "…"'),
        )
    return entered


def _is_expression(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\\d" is one
            ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _short(number: float | None) -> str:
    return f"{number:.15g}" if number is not None else ""


# --- string literals --------------------------------------------------------------------------------------------------

_OPENING = re.compile(r"([rRuU]?)(\"{3}|'{3}|\"|')")
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<other>.))",
    re.DOTALL,
)
_UNESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v",
          "\n": ""}  # fmt: skip
_ESCAPED = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLANK = " \t\f"


def read_string(source: str) -> str | None:
    """Return the value of a string literal, or of adjacent ones. None: it is not one, or it uses a name escape."""
    values: list[str] = []
    position, source = 0, source.strip()
    while position < len(source):
        opening = _OPENING.match(source, position)
        end = _closing(source, opening.end(), opening[2]) if opening else None
        if opening is None or end is None:
            return None
        inner = source[opening.end() : end]
        value = inner if opening[1] in ("r", "R") else _unescape(inner)
        if value is None:
            return None
        values.append(value)
        position = end + len(opening[2])
        while position < len(source) and source[position] in _BLANK:
            position += 1
    return "".join(values) if values else None


def written_string(value: str, before: str) -> str:
    """Return a string literal, in the quotes of the previous one."""
    quote = "'" if before.startswith("'") and not before.startswith("'''") else '"'
    return quote + "".join(f"\\{char}" if char == quote else _escape(char) for char in value) + quote


def _closing(source: str, position: int, quote: str) -> int | None:
    while position < len(source):
        if source[position] == "\\":
            position += 2
        elif source.startswith(quote, position):
            return position
        elif source[position] in "\r\n" and len(quote) == 1:
            return None
        else:
            position += 1
    return None


def _unescape(inner: str) -> str | None:
    unknown = False

    def replace(escape: re.Match[str]) -> str:
        nonlocal unknown
        other = escape["other"]
        if other is None:
            code = int(escape["octal"], 8) if escape["octal"] else int(escape["x"] or escape["u"] or escape["U"], 16)
            unknown = unknown or code > 0x10FFFF
            return "" if unknown else chr(code)
        unknown = unknown or other in "NxuU"  # a name escape, or too few digits
        return _UNESCAPED.get(other, escape[0])

    value = _ESCAPE.sub(replace, inner)
    return None if unknown else value


def _escape(char: str) -> str:
    """Escape a character as repr does: invisible ones by their number."""
    if char.isprintable() and char != "\\":
        return char
    code = ord(char)
    return _ESCAPED.get(char) or (
        f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    )
