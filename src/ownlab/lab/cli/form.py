"""`ownlab form`: the fields of a notebook's forms."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option
from ownlab.lab.forms.notebook_forms import FormView, find_forms
from ownlab.lab.notebooks.files import read_notebook
from ownlab.lab.notebooks.parsing import replace_lone_surrogates
from ownlab.lab.terminal.form import show_forms
from ownlab.render.console import console
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.command("form")
@click.argument("notebook", metavar="NOTEBOOK")
@json_option
def command(notebook: str, as_json: bool) -> None:
    """Show the forms of NOTEBOOK: what Colab's comments #@title, #@param and #@markdown make of its cells.

    Each field is a parameter of a run: ownlab run NOTEBOOK -p NAME=VALUE. docs/FORMS.md says how fields are written.
    """
    forms = find_forms(replace_lone_surrogates(read_notebook(notebook)))
    found = tuple(one for one in forms if one.form.title is not None or one.form.parts)  # not: hidden code alone
    if as_json:
        echo_record(tuple(map(FormView.of, found)))
    else:
        show_forms(notebook, found, console())
