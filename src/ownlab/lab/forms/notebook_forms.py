"""The forms of a notebook, cell by cell, and the records of `ownlab form --json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ownlab.lab.forms.grammar import FieldType, Form, parse_form

__all__ = ["CellForm", "FieldView", "FormView", "cell_source", "find_forms"]


class CellForm(Struct, frozen=True):
    """A cell that has a form."""

    cell: int  # index among all cells of the notebook
    id: str | None
    form: Form


def find_forms(notebook: Mapping[str, Any]) -> tuple[CellForm, ...]:
    """Return the cells that have a form, in order. Only code cells have one; damaged cells are skipped."""
    forms: list[CellForm] = []
    cells = notebook.get("cells")
    for number, cell in enumerate(cells if isinstance(cells, list) else []):
        if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
            continue
        source = cell_source(cell)
        metadata = cell.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        form = parse_form(source, metadata) if source is not None else None
        if form is not None:
            forms.append(CellForm(number, _id(cell, metadata), form))
    return tuple(forms)


def cell_source(cell: Mapping[str, Any]) -> str | None:
    """Return a cell's source, which a file may hold as a list of lines; None where it is neither."""
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return source if isinstance(source, str) else None


def _id(cell: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    """Return the cell's id; before the format had ids, Colab kept its own in the metadata."""
    return next((name for name in (cell.get("id"), metadata.get("id")) if isinstance(name, str)), None)


class FieldView(Struct, frozen=True):
    """One field of a form."""

    name: str
    type: FieldType
    value: str  # Python source
    choices: tuple[str, ...] | None
    allow_input: bool
    min: float | None
    max: float | None
    step: float | None
    placeholder: str | None
    line: int  # of the cell's source, from 0


class FormView(Struct, frozen=True):
    """A cell that has a form: `ownlab form --json` prints an array of these."""

    cell: int  # index among all cells of the notebook
    id: str | None
    title: str | None
    hidden: bool  # whether the code is hidden
    fields: tuple[FieldView, ...]

    @classmethod
    def of(cls, cell_form: CellForm) -> FormView:
        """Make the record of a form."""
        fields = tuple(
            FieldView(**{name: getattr(field, name) for name in FieldView.__struct_fields__})
            for field in cell_form.form.fields
        )
        return cls(cell_form.cell, cell_form.id, cell_form.form.title, cell_form.form.hidden, fields)
