"""Forms in the terminal: the fields of each cell, with their types and values."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ownlab.lab.forms.field_values import describe_type
from ownlab.lab.forms.grammar import Field
from ownlab.lab.forms.notebook_forms import CellForm
from ownlab.render.console import labelled
from ownlab.text import text

__all__ = ["show_forms"]

_MAX_NAME_WIDTH = 28


def show_forms(notebook: str, forms: Sequence[CellForm], out: Console) -> None:
    """Print a paragraph per cell. Markdown is left to the page."""
    if not forms:
        out.print(Text(text("No cell of {notebook} has a form.", notebook=notebook)))
        out.print(
            Text(text('A comment after an assignment makes a field: steps = 10 #@param {type:"integer"}'), style="dim")
        )
        return
    names = [len(field.name) for cell in forms for field in cell.form.fields]
    width = min(max(names, default=0) + 2, _MAX_NAME_WIDTH)
    for number, cell in enumerate(forms):
        if number:
            out.print()
        _line(out, _heading(cell))
        for field in cell.form.fields:
            labelled(out, _name(field.name, width), _describe(field), width=width)
    if names:
        out.print()
        _line(
            out,
            Text(
                text("Set them for a run: ownlab run {notebook} -p NAME=VALUE", notebook=shlex.quote(notebook)),
                style="dim",
            ),
        )


def _heading(cell: CellForm) -> Text:
    title = (cell.form.title or "").lstrip("#").strip()
    hidden = f"  {text('code hidden')}" if cell.form.hidden else ""
    return Text.assemble(
        (text("Cell {n}", n=cell.cell + 1), "dim"), "  ", (title or text("(no title)"), "bold"), (hidden, "dim")
    )


def _name(name: str, width: int) -> str:
    return name if len(name) < width else f"{name}  "


def _describe(field: Field) -> Text:
    return Text.assemble((field.value or text("(empty)"), "cyan"), (f"  {describe_type(field)}", "dim"))


def _line(out: Console, line: Text) -> None:
    out.print(line, no_wrap=True, overflow="ignore", crop=False)
