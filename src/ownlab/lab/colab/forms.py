"""The forms of a whole notebook, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ownlab.lab.colab.form import Form, parse_form

__all__ = ["CellForm", "forms_of", "source_of"]


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
