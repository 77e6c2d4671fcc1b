"""A notebook's fields as its parameters: by name, to be listed and to be set from outside."""

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
from ownlab.lab.forms.field_values import nearest, source_text
from ownlab.lab.forms.grammar import Field
from ownlab.lab.forms.notebook_forms import forms_of

__all__ = ["Parameter", "Place", "fill", "parameters_of"]

_LISTED = "`ownlab run NOTEBOOK --help` lists what can be set."
_HOW = 'A parameter is an assignment with a form\'s comment behind it: steps = 10 #@param {type:"integer"}'


class Place(Struct, frozen=True):
    """Where a parameter stands."""

    cell: int  # among all cells of the notebook, from 0
    id: str | None
    field: Field


class Parameter(Struct, frozen=True):
    """What has one name; it may be a field in several cells."""

    name: str
    places: tuple[Place, ...]


class _Edit(Struct, frozen=True):
    start: int
    end: int
    text: str


def parameters_of(notebook: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """All that can be set, in the order in which the names appear."""
    found: dict[str, list[Place]] = {}
    for cell in forms_of(notebook):
        for field in cell.form.fields:
            found.setdefault(field.name, []).append(Place(cell.cell, cell.id, field))
    return tuple(Parameter(name, tuple(places)) for name, places in found.items())


def fill(notebook: MutableMapping[str, Any], given: Mapping[str, object]) -> None:
    """Write values into the cells. UsageError, and nothing is changed, where a name or a value is not possible.

    Text is what a person typed; any other value is the Python value that is meant.
    """
    known = {parameter.name: parameter.places for parameter in parameters_of(notebook)}
    edits: dict[int, list[_Edit]] = {}
    for name, value in given.items():
        if name not in known:
            raise _unknown(name, list(known))
        for place in known[name]:
            field = place.field
            text = source_text(field, _typed(value, field))
            edits.setdefault(place.cell, []).append(_Edit(field.start, field.end, text))
    for number, wanted in edits.items():
        cell = notebook["cells"][number]
        cell["source"] = _edited(cell["source"], wanted)


def _typed(value: object, field: Field) -> str:
    """What a person would have typed for a Python value."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, datetime.date) and field.type == "date":
        return value.isoformat()[:10]
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        chosen = next((choice for choice in field.choices or () if _is_number(choice, value)), None)
        return chosen or _number(value)
    return repr(value)


def _is_number(choice: str, value: numbers.Real) -> bool:
    """0.0001 where the choices say 1e-4."""
    try:
        return bool(float(choice) == value)
    except ValueError:
        return False


def _number(value: numbers.Real) -> str:
    """Also of numpy, whose repr is np.int64(5)."""
    if isinstance(value, numbers.Integral):
        return str(int(value))
    number = float(value)
    return repr(number) if math.isfinite(number) else f'float("{number}")'


def _unknown(name: str, known: list[str]) -> UsageError:
    if not known:
        return UsageError(f"the notebook has no parameters, so {name} cannot be set.", hint=_HOW)
    near = nearest(name, known)
    return UsageError(
        f"the notebook has no parameter {name}." + (f" Did you mean {near}?" if near else ""), hint=_LISTED
    )


def _edited(source: str | list[str], edits: Iterable[_Edit]) -> str | list[str]:
    """A list stays one, piece by piece: what is not edited is left as it was split."""
    pieces = [source] if isinstance(source, str) else list(source)
    starts = [0, *itertools.accumulate(map(len, pieces))]
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        # A value stands on one line, and so in one piece; were it cut by hand, the pieces after the first lose their part.
        first = bisect.bisect_right(starts, edit.start) - 1
        for number in range(first, len(pieces)):
            low, high = edit.start - starts[number], edit.end - starts[number]
            if number > first and high <= 0:
                break
            piece = pieces[number]
            pieces[number] = piece[: max(low, 0)] + (edit.text if number == first else "") + piece[max(high, 0) :]
    return pieces[0] if isinstance(source, str) else pieces
