"""The form that a cell's comments describe: `#@title`, `#@param`, `#@markdown`; with exact places for writing back."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ownlab.lab.forms.source_lines import Line, lines_of

__all__ = ["Field", "FieldType", "Form", "Markdown", "Read", "Value", "Word", "parse_form", "read_literal"]

FieldType = Literal["string", "raw", "number", "integer", "boolean", "slider", "date", "dropdown"]

_MARK = re.compile(r"#\s*@(title|markdown)(?!\w)(.*)", re.DOTALL)
_PARAM = re.compile(r"#\s*@param(?!\w)")
_ANY = re.compile(r"@(?:title|markdown|param)")
_TAKEN_BACK = re.compile(r"#\s*#")  # x = 1 ##@param: so people switch a field off
_TARGET = re.compile(r"\s*(\w+)\s*(?::.*)?", re.DOTALL)  # one name, perhaps with a type beside it
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
    """Words between fields."""

    text: str
    line: int


class Field(Struct, frozen=True, tag_field="part", tag="field"):
    """One value that can be set. `value` is source text; `start` to `end` is its place in the cell's source."""

    name: str
    type: FieldType
    value: str
    line: int  # from 0
    start: int
    end: int
    choices: tuple[str, ...] | None = None  # what a dropdown shows; strings without quotes, or source text where raw
    value_type: FieldType = "string"  # how a dropdown's choice is written: "string", "raw", "number", …
    allow_input: bool = False
    min: float | None = None
    max: float | None = None
    step: float | None = None
    placeholder: str | None = None


class Form(Struct, frozen=True):
    """What a cell shows beside, or instead of, its code."""

    title: str | None
    parts: tuple[Field | Markdown, ...]
    hidden: bool = False  # the code is not shown
    auto: bool = False  # runs again at each change, after it ran once
    vertical: bool = False  # the form stands above the outputs
    width: str | None = None  # of the form beside the code: "50%", "150px"

    @property
    def fields(self) -> tuple[Field, ...]:
        """Those that can be set, in order."""
        return tuple(part for part in self.parts if isinstance(part, Field))


def parse_form(source: str, metadata: Mapping[str, Any] | None = None) -> Form | None:
    """None where a cell has no form. Never fails, whatever the source is."""
    view = (metadata or {}).get("cellView")
    title: str | None = None
    options: dict[str, str] = {}
    parts: list[Field | Markdown] = []
    for line in lines_of(source) if _ANY.search(source) else ():
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
    """Options stand at the end of the line, in one pair of braces; braces that hold no option are words."""
    start = text.rfind("{")
    if start >= 0 and text.endswith("}"):
        options = read_literal(text, start).value
        if isinstance(options, dict) and options.keys() & _OPTIONS:
            return text[:start].strip(), options
    return text, {}


class _Assignment(NamedTuple):
    name: str
    value: str
    start: int  # of the value, within the line


def _assignment(line: Line, end: int) -> _Assignment | None:
    """What is assigned last on a line, to a name or to several (a = b = 1); not to a part of something."""
    begin = 0
    for place in reversed(line.semicolons):
        if line.text[place + 1 : end].strip():
            begin = place + 1
            break
        end = place
    equals = [place for place in line.equals if begin <= place < end]
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
    param = _PARAM.search(line.text, comment)  # perhaps behind other words: x = 1 # pixels #@param
    if param is None or (param.start() > comment and _TAKEN_BACK.match(line.text, comment)):
        return
    found = _assignment(line, comment)
    if found is None:
        return
    choices, options = _spec(line.text[param.end() :])
    kind = _TYPES.get(options.get("type", "").strip("\\\"' ").lower())  # {type:\"string\"}: a notebook copied as JSON
    start = line.start + found.start
    common: dict[str, Any] = {
        "name": found.name, "value": found.value, "line": line.number, "start": start, "end": start + len(found.value),
        "placeholder": str(options["placeholder"]) if "placeholder" in options else None,
        "allow_input": _is_true(options.get("allow-input", options.get("allow_input"))),
    }  # fmt: skip
    if choices:
        written = _written(kind, choices, found.value)
        yield Field(type="dropdown", choices=tuple(map(str, choices)), value_type=written, **common)
        return
    # Without a type, and with one that nobody knows: Python as it stands.
    kind = kind or "raw"
    limits: dict[str, Any] = {}
    if kind in ("number", "integer", "slider"):
        limits = {name: _number(options.get(name)) for name in _SLIDER}
    if kind == "slider":
        limits = {name: default if limits[name] is None else limits[name] for name, default in _SLIDER.items()}
    yield Field(type=kind, value_type="number" if kind == "slider" else kind, **limits, **common)


def _written(kind: FieldType | None, choices: list[str], value: str) -> FieldType:
    """How a choice of a dropdown is written: as a string, unless something says otherwise."""
    if kind in ("raw", "number", "integer", "boolean"):
        return kind
    # x = 1 #@param [1, 2]: Colab would make strings of them at the first change, and the code would fail.
    numbers = all(isinstance(choice, Word) and _is_constant(choice) for choice in choices)
    return "raw" if kind is None and numbers and _is_constant(value) else "string"


def _spec(text: str) -> tuple[list[str], dict[str, str]]:
    """The list and the object behind `#@param`, in either order, with whatever stands around them."""
    choices: list[str] = []
    options: dict[str, str] = {}
    place = 0
    while place < len(text) and not (choices and options):
        char = text[place]
        if char not in "[{":
            # Blanks and a stray backslash may stand before, and between. Other words end it.
            if not (char.isspace() or char in "\\:,"):
                break
            place += 1
            continue
        read = read_literal(text, place)
        if isinstance(read.value, list):
            choices = choices or read.value
        elif isinstance(read.value, dict):
            options = options or read.value
        place = read.end
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
