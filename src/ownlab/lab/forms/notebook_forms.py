"""The forms of a whole notebook, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ownlab.lab.forms.grammar import FieldType, Form, parse_form

__all__ = ["CellForm", "FieldView", "FormView", "forms_of", "source_of"]


class CellForm(Struct, frozen=True):
    """A cell that has a form."""

    cell: int  # its place among all cells of the notebook, from 0
    id: str | None
    form: Form


def forms_of(notebook: Mapping[str, Any]) -> tuple[CellForm, ...]:
    """The cells that have a form, in order. Only code has one; a cell that is damaged is passed over."""
    found: list[CellForm] = []
    cells = notebook.get("cells")
    for number, cell in enumerate(cells if isinstance(cells, list) else []):
        if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
            continue
        source = source_of(cell)
        metadata = cell.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        form = parse_form(source, metadata) if source is not None else None
        if form is not None:
            found.append(CellForm(number, _id(cell, metadata), form))
    return tuple(found)


def source_of(cell: Mapping[str, Any]) -> str | None:
    """A cell's source as one text: a file may have it as a list of lines. None where it is neither."""
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return source if isinstance(source, str) else None


def _id(cell: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    """Before the format had ids Colab kept its own in the metadata."""
    return next((name for name in (cell.get("id"), metadata.get("id")) if isinstance(name, str)), None)


class FieldView(Struct, frozen=True):
    """One field of a form."""

    name: str
    type: FieldType
    value: str  # as it stands in the source
    choices: tuple[str, ...] | None
    allow_input: bool
    min: float | None
    max: float | None
    step: float | None
    placeholder: str | None
    line: int  # of the cell's source, from 0


class FormView(Struct, frozen=True):
    """A cell that has a form: `ownlab form --json` prints an array of these."""

    cell: int  # among all cells of the notebook, from 0
    id: str | None
    title: str | None
    hidden: bool  # its code is
    fields: tuple[FieldView, ...]

    @classmethod
    def of(cls, given: CellForm) -> FormView:
        """What is told of a form."""
        fields = tuple(
            FieldView(**{name: getattr(field, name) for name in FieldView.__struct_fields__})
            for field in given.form.fields
        )
        return cls(given.cell, given.id, given.form.title, given.form.hidden, fields)
