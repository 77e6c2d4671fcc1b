"""The form fields of a notebook as its parameters: list them, and set them before a run (`ownlab run -p NAME=VALUE`)."""

from __future__ import annotations

import bisect
import datetime
import itertools
import math
import numbers
import os
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from msgspec import Struct

from ownlab.errors import UsageError
from ownlab.lab.forms.field_values import closest_match, to_source
from ownlab.lab.forms.grammar import Field
from ownlab.lab.forms.notebook_forms import find_forms
from ownlab.text import text

__all__ = ["FieldLocation", "Parameter", "find_parameters", "set_parameters"]


class FieldLocation(Struct, frozen=True):
    """A field in a cell."""

    cell: int  # among all cells of the notebook, from 0
    id: str | None
    field: Field


class Parameter(Struct, frozen=True):
    """All fields of one name; several cells may have one."""

    name: str
    locations: tuple[FieldLocation, ...]


class _Edit(Struct, frozen=True):
    start: int
    end: int
    source: str


def find_parameters(notebook: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Return the parameters in the order in which their names first appear."""
    locations: dict[str, list[FieldLocation]] = {}
    for cell in find_forms(notebook):
        for field in cell.form.fields:
            locations.setdefault(field.name, []).append(FieldLocation(cell.cell, cell.id, field))
    return tuple(Parameter(name, tuple(fields)) for name, fields in locations.items())


def set_parameters(notebook: MutableMapping[str, Any], given: Mapping[str, object]) -> None:
    """Write values into the cells. UsageError for an unknown name or an invalid value; then nothing is changed.

    A str is what a person typed; any other value is the Python value itself.
    """
    known = {parameter.name: parameter.locations for parameter in find_parameters(notebook)}
    edits: dict[int, list[_Edit]] = {}
    for name, value in given.items():
        if name not in known:
            raise _unknown(name, list(known))
        for location in known[name]:
            field = location.field
            source = to_source(field, _as_typed(value, field))
            edits.setdefault(location.cell, []).append(_Edit(field.start, field.end, source))
    for number, cell_edits in edits.items():
        cell = notebook["cells"][number]
        cell["source"] = _apply(cell["source"], cell_edits)


def _as_typed(value: object, field: Field) -> str:
    """Return what a person would type for a Python value."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, datetime.date) and field.type == "date":
        return value.isoformat()[:10]
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        chosen = next((choice for choice in field.choices or () if _is_number(choice, value)), None)
        return chosen or _number(value)
    return repr(value)


def _is_number(choice: str, value: numbers.Real) -> bool:
    """Return whether a choice such as 1e-4 is the number 0.0001."""
    try:
        return bool(float(choice) == value)
    except ValueError:
        return False


def _number(value: numbers.Real) -> str:
    """Write a number; also of numpy, whose repr is np.int64(5)."""
    if isinstance(value, numbers.Integral):
        return str(int(value))
    number = float(value)
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def _unknown(name: str, known: list[str]) -> UsageError:
    if not known:
        return UsageError(
            text("The notebook has no parameters, so {name} cannot be set.", name=name),
            hint=text('A parameter is an assignment with a form comment: steps = 10 #@param {type:"integer"}'),
        )
    hint = text("`ownlab run NOTEBOOK --help` lists the parameters.")
    close = closest_match(name, known)
    if close:
        message = text("The notebook has no parameter {name}. Did you mean {close}?", name=name, close=close)
        return UsageError(message, hint=hint)
    return UsageError(text("The notebook has no parameter {name}.", name=name), hint=hint)


def _apply(source: str | list[str], edits: Iterable[_Edit]) -> str | list[str]:
    """Apply edits to a source. A list of lines stays a list, split as before."""
    pieces = [source] if isinstance(source, str) else list(source)
    starts = [0, *itertools.accumulate(map(len, pieces))]
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        # A value is on one line, and so in one piece. If the list was split by hand, later pieces lose their part of it.
        first = bisect.bisect_right(starts, edit.start) - 1
        for number in range(first, len(pieces)):
            low, high = edit.start - starts[number], edit.end - starts[number]
            if number > first and high <= 0:
                break
            piece = pieces[number]
            pieces[number] = piece[: max(low, 0)] + (edit.source if number == first else "") + piece[max(high, 0) :]
    return pieces[0] if isinstance(source, str) else pieces
