"""`ownlab status`: the labs that are up."""

from __future__ import annotations

import os
import shlex

import click

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.errors import LabError
from ownlab.lab.service.labs import is_up, labs, read_lab
from ownlab.lab.service.overview import lab_state
from ownlab.lab.service.records import LabStates
from ownlab.lab.store.location import choose_store
from ownlab.lab.terminal.labs import show_labs
from ownlab.render.console import console
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.command("status")
@click.argument("folder", required=False)
@json_option
def command(folder: str | None, as_json: bool) -> None:
    """Show your labs that are up, or the one of FOLDER: address, token, pid, runtimes.

    Exit code 3 where FOLDER is given and no lab of it is up.
    """
    store = choose_store(resolve_lab_options()).folder
    if folder is None:
        found = [lab for lab in labs() if is_up(lab)]
    else:
        lab = read_lab(os.path.expanduser(folder))
        if lab is None or not is_up(lab):
            raise LabError(
                f"no lab of {os.path.realpath(folder)} is up", hint=f"Start it: ownlab up {shlex.quote(folder)}"
            )
        found = [lab]
    states = LabStates(tuple(lab_state(lab, store) for lab in found))
    if as_json:
        echo_record(states)
    else:
        show_labs(states, console())
