"""The form grammar: parse `#@title`, `#@param` and `#@markdown` comments of a cell into a form, with exact positions.

Annotations (`{…}` and `[…]`) are JavaScript-like literals, read as people wrote them. Nothing here raises: a cell may be
unfinished. docs/FORMS.md describes the grammar.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ownlab.lab.forms.source_lines import Line, scan_lines

__all__ = ["Field", "FieldType", "Form", "Markdown", "parse_form"]

FieldType = Literal["string", "raw", "number", "integer", "boolean", "slider", "date", "dropdown"]

_MARK = re.compile(r"#\s*@(title|markdown)(?!\w)(.*)", re.DOTALL)
_PARAM = re.compile(r"#\s*@param(?!\w)")
_ANY = re.compile(r"@(?:title|markdown|param)")
_DISABLED = re.compile(r"#\s*#")  # x = 1 ##@param: a field that was disabled
_TARGET = re.compile(r"\s*(\w+)\s*(?::.*)?", re.DOTALL)  # one name, perhaps with a type annotation
_LAMBDA = re.compile(r"\blambda\b")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_CONSTANTS = frozenset(("true", "false", "null", "none"))
_BLANK = "\ufeff \t\f"
_TYPES: dict[str, FieldType] = {
    "string": "string", "str": "string", "text": "string", "raw": "raw", "number": "number", "float": "number",
    "integer": "integer", "int": "integer", "boolean": "boolean", "bool": "boolean", "slider": "slider", "date": "date",
}  # fmt: skip
_SLIDER = {"min": 0, "max": 100, "step": 1}
_OPTIONS = frozenset(("display-mode", "run", "vertical-output", "form-width"))


class Markdown(Struct, frozen=True, tag_field="part", tag="markdown"):
    """Text between fields."""

    text: str
    line: int


class Field(Struct, frozen=True, tag_field="part", tag="field"):
    """One value that can be set. `value` is Python source; `start` and `end` are its position in the cell's source."""

    name: str
    type: FieldType
    value: str
    line: int  # from 0
    start: int
    end: int
    choices: tuple[str, ...] | None = None  # of a dropdown: strings without quotes, or Python source where raw
    value_type: FieldType = "string"  # the type of a dropdown's choices
    allow_input: bool = False
    min: float | None = None
    max: float | None = None
    step: float | None = None
    placeholder: str | None = None


class Form(Struct, frozen=True):
    """What a cell shows next to, or instead of, its code."""

    title: str | None
    parts: tuple[Field | Markdown, ...]
    hidden: bool = False  # the code is not shown
    auto: bool = False  # the cell runs again after each change, once it has run
    vertical: bool = False  # the form is above the outputs
    width: str | None = None  # of a form next to the code: "50%", "150px"

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields, in order."""
        return tuple(part for part in self.parts if isinstance(part, Field))


def parse_form(source: str, metadata: Mapping[str, Any] | None = None) -> Form | None:
    """Parse the form of a cell; None where it has none. Never raises, whatever the source is."""
    view = (metadata or {}).get("cellView")
    title: str | None = None
    options: dict[str, str] = {}
    parts: list[Field | Markdown] = []
    for line in scan_lines(source) if _ANY.search(source) else ():
        if line.comment is None:
            continue
        if line.text[: line.comment].strip(_BLANK):
            parts.extend(_field(line, line.comment))
        elif (marked := _MARK.match(line.text, line.comment)) is None:
            continue
        elif marked[1] == "markdown":
            parts.append(Markdown(marked[2].strip(), line.number))
        elif title is None:
            title, options = _title(marked[2].strip())
    mode = view if isinstance(view, str) else options.get("display-mode")
    if title is None and not parts and mode != "form":
        return None
    return Form(
        title=title,
        parts=tuple(parts),
        hidden=mode == "form",
        auto=options.get("run") == "auto",
        vertical=_is_true(options.get("vertical-output")),
        width=str(options["form-width"]) if "form-width" in options else None,
    )


def _title(text: str) -> tuple[str, dict[str, str]]:
    """Split a title from its options, which end the line in one pair of braces; braces without an option are text."""
    start = text.rfind("{")
    if start >= 0 and text.endswith("}"):
        options = parse_literal(text, start).value
        if isinstance(options, dict) and options.keys() & _OPTIONS:
            return text[:start].strip(), options
    return text, {}


class _Assignment(NamedTuple):
    name: str
    value: str
    start: int  # of the value, within the line


def _assignment(line: Line, end: int) -> _Assignment | None:
    """Return the last assignment on a line to one or more names (a = b = 1); not to an attribute or item."""
    begin = 0
    for position in reversed(line.semicolons):
        if line.text[position + 1 : end].strip():
            begin = position + 1
            break
        end = position
    equals = [position for position in line.equals if begin <= position < end]
    target = _TARGET.fullmatch(line.text[begin : equals[0]].lstrip(_BLANK)) if equals and line.whole else None
    if target is None or not _is_name(target[1]):
        return None
    last = 0
    while last + 1 < len(equals) and _is_name(line.text[equals[last] + 1 : equals[last + 1]].strip()):
        last += 1
    if last + 1 < len(equals) and not _LAMBDA.search(line.text, equals[last], equals[last + 1]):
        return None
    text = line.text[equals[last] + 1 : end]
    return _Assignment(target[1], text.strip(), equals[last] + 1 + len(text) - len(text.lstrip()))


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _field(line: Line, comment: int) -> Iterator[Field]:
    param = _PARAM.search(line.text, comment)  # perhaps after other text: x = 1 # pixels #@param
    if param is None or (param.start() > comment and _DISABLED.match(line.text, comment)):
        return
    assignment = _assignment(line, comment)
    if assignment is None:
        return
    choices, options = _annotation(line.text[param.end() :])
    kind = _TYPES.get(options.get("type", "").strip("\\\"' ").lower())  # {type:\"string\"}: a notebook copied as JSON
    start = line.start + assignment.start
    common: dict[str, Any] = {
        "name": assignment.name, "value": assignment.value, "line": line.number, "start": start, "end": start + len(assignment.value),
        "placeholder": str(options["placeholder"]) if "placeholder" in options else None,
        "allow_input": _is_true(options.get("allow-input", options.get("allow_input"))),
    }  # fmt: skip
    if choices:
        choice_type = _choice_type(kind, choices, assignment.value)
        yield Field(type="dropdown", choices=tuple(map(str, choices)), value_type=choice_type, **common)
        return
    # Without a type, or with an unknown one, the value is Python source.
    kind = kind or "raw"
    limits: dict[str, Any] = {}
    if kind in ("number", "integer", "slider"):
        limits = {name: _number(options.get(name)) for name in _SLIDER}
    if kind == "slider":
        limits = {name: default if limits[name] is None else limits[name] for name, default in _SLIDER.items()}
    yield Field(type=kind, value_type="number" if kind == "slider" else kind, **limits, **common)


def _choice_type(kind: FieldType | None, choices: list[str], value: str) -> FieldType:
    """Return the type of a dropdown's choices: string, unless something else is declared or evident."""
    if kind in ("raw", "number", "integer", "boolean"):
        return kind
    # x = 1 #@param [1, 2]: Colab turns these into strings at the first change, and the code fails.
    numbers = all(isinstance(choice, Bareword) and _is_constant(choice) for choice in choices)
    return "raw" if kind is None and numbers and _is_constant(value) else "string"


def _annotation(text: str) -> tuple[list[str], dict[str, str]]:
    """Parse the list and the object after `#@param`, in either order, with separators around them."""
    choices: list[str] = []
    options: dict[str, str] = {}
    position = 0
    while position < len(text) and not (choices and options):
        char = text[position]
        if char not in "[{":
            # Blanks and a stray backslash may come before and between. Other text ends the annotation.
            if not (char.isspace() or char in "\\:,"):
                break
            position += 1
            continue
        literal = parse_literal(text, position)
        if isinstance(literal.value, list):
            choices = choices or literal.value
        elif isinstance(literal.value, dict):
            options = options or literal.value
        position = literal.end
    return choices, options


def _is_true(given: str | None) -> bool:
    return given is not None and given.lower() == "true"


def _is_constant(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None or text.lower() in _CONSTANTS


def _number(given: str | None) -> float | None:
    if given is None or not _NUMBER.fullmatch(given):
        return None
    number = float(given)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


# --- annotations: {…} and […] -----------------------------------------------------------------------------------------

_SPACE = re.compile(r"\s*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_QUOTES = "\"'`"
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class Bareword(str):
    """A value without quotes, as it was written: a number, true, an expression."""

    __slots__ = ()


LiteralValue = str | Bareword | list[str] | dict[str, str]


class ParsedLiteral(NamedTuple):
    """A value, and where the text after it begins."""

    value: LiteralValue
    end: int


def parse_literal(text: str, start: int) -> ParsedLiteral:
    """Parse the list or object whose bracket is at `start`. Everything inside is text: see `Bareword`."""
    return _list(text, start) if text[start] == "[" else _object(text, start)


def _list(text: str, start: int) -> ParsedLiteral:
    items: list[str] = []
    position = _skip(text, start + 1)
    while position < len(text) and text[position] != "]":
        if text[position] == ",":  # an empty item: [1,,2], or a trailing comma
            position = _skip(text, position + 1)
            continue
        item, end = _item(text, position, ",]")
        items.append(item)
        position = _skip(text, max(end, position + 1))
    return ParsedLiteral(items, min(position + 1, len(text)))


def _object(text: str, start: int) -> ParsedLiteral:
    items: dict[str, str] = {}
    position = _skip(text, start + 1)
    while position < len(text) and text[position] != "}":
        if text[position] in ",;":
            position = _skip(text, position + 1)
            continue
        key, end = _item(text, position, ":=,}")
        position = _skip(text, max(end, position + 1))
        value: str = Bareword("true")  # {isTemplate}
        if text[position : position + 1] in (":", "="):
            value, end = _item(text, _skip(text, position + 1), ",}")
            position = _skip(text, max(end, position + 1))
        if key:
            items.setdefault(key, value)
    return ParsedLiteral(items, min(position + 1, len(text)))


def _skip(text: str, start: int) -> int:
    space = _SPACE.match(text, start)
    return space.end() if space else start


def _item(text: str, start: int, stop: str) -> tuple[str, int]:
    return _quoted(text, start) if text[start : start + 1] in tuple(_QUOTES) else _bare(text, start, stop)


def _quoted(text: str, start: int) -> tuple[str, int]:
    quote, chars, position = text[start], [], start + 1
    while position < len(text) and text[position] != quote:
        if text[position] == "\\" and position + 1 < len(text):
            position += 1
            chars.append(_ESCAPES.get(text[position], text[position]))
        else:
            chars.append(text[position])
        position += 1
    return "".join(chars), min(position + 1, len(text))


def _bare(text: str, start: int, stop: str) -> tuple[Bareword, int]:
    """Parse up to one of the characters in `stop`; [(1, 2), f("a, b")] has two items."""
    position = start
    open_brackets: list[str] = []
    while position < len(text):
        char = text[position]
        if not open_brackets and char in stop:
            break
        if char in _CLOSING:
            open_brackets.append(_CLOSING[char])
        elif open_brackets and char in _QUOTES:
            position = _quoted(text, position)[1]
            continue
        elif open_brackets and char == open_brackets[-1]:
            open_brackets.pop()
        position += 1
    return Bareword(text[start:position].strip()), position
