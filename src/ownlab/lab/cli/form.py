"""`ownlab form`: the form fields of a notebook."""

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
    """Show the forms of NOTEBOOK, which Colab's comments #@title, #@param and #@markdown define.

    Each field is a parameter of a run: ownlab run NOTEBOOK -p NAME=VALUE. docs/FORMS.md describes the syntax.

    \b
    ownlab form train.ipynb
    ownlab run train.ipynb -p epochs=20    run it with another value
    """
    forms = find_forms(replace_lone_surrogates(read_notebook(notebook)))
    shown = tuple(
        each for each in forms if each.form.title is not None or each.form.parts
    )  # hidden code alone is not a form
    if as_json:
        echo_record(tuple(map(FormView.of, shown)))
    else:
        show_forms(notebook, shown, console())
