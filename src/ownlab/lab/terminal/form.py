"""Forms in the terminal: each cell with its fields, what they take, and what they are set to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ownlab.lab.forms.field_values import describe_type
from ownlab.lab.forms.grammar import Field
from ownlab.lab.forms.notebook_forms import CellForm
from ownlab.render.console import labelled

__all__ = ["show_forms"]

_WIDEST = 28  # of a column of names


def show_forms(notebook: str, forms: Sequence[CellForm], out: Console) -> None:
    """One paragraph for each cell; what it says in Markdown is left to the page."""
    if not forms:
        out.print(Text(f"No cell of {notebook} has a form."))
        out.print(
            Text('A field is made by a comment behind an assignment: steps = 10 #@param {type:"integer"}', style="dim")
        )
        return
    names = [len(field.name) for one in forms for field in one.form.fields]
    width = min(max(names, default=0) + 2, _WIDEST)
    for number, one in enumerate(forms):
        if number:
            out.print()
        _line(out, _heading(one))
        for field in one.form.fields:
            labelled(out, _name(field.name, width), _words(field), width=width)
    if names:
        out.print()
        _line(out, Text(f"Set them for a run: ownlab run {shlex.quote(notebook)} -p NAME=VALUE", style="dim"))


def _heading(one: CellForm) -> Text:
    title = (one.form.title or "").lstrip("#").strip()
    hidden = "  code hidden" if one.form.hidden else ""
    return Text.assemble((f"Cell {one.cell + 1}", "dim"), "  ", (title or "(without a title)", "bold"), (hidden, "dim"))


def _name(name: str, width: int) -> str:
    return name if len(name) < width else f"{name}  "


def _words(field: Field) -> Text:
    return Text.assemble((field.value or "(empty)", "cyan"), (f"  {describe_type(field)}", "dim"))


def _line(out: Console, text: Text) -> None:
    out.print(text, no_wrap=True, overflow="ignore", crop=False)
