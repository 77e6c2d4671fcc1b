"""`ownlab status`: the running labs."""

from __future__ import annotations

import os
import shlex

import click

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.errors import LabError
from ownlab.lab.service.labs import is_served, labs, read_lab
from ownlab.lab.service.overview import lab_state, own_runtimes
from ownlab.lab.service.records import LabStates
from ownlab.lab.terminal.labs import show_labs
from ownlab.render.console import console
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.command("status")
@click.argument("folder", required=False)
@json_option
def command(folder: str | None, as_json: bool) -> None:
    """Show your running labs, or the lab of FOLDER: address, token, pid, runtimes.

    \b
    ownlab status
    ownlab status ~/notebooks --json    address and token for programs

    Exit code 3 if FOLDER is given and its lab is not running.
    """
    if folder is None:
        running = [lab for lab in labs() if is_served(lab.folder)]
    else:
        lab = read_lab(os.path.expanduser(folder))
        if lab is None or not is_served(lab.folder):
            if not os.path.isdir(os.path.expanduser(folder)):
                raise LabError(text("There is no folder {folder}, and no lab of it.", folder=os.path.realpath(folder)))
            raise LabError(
                text("The lab of {folder} is not running.", folder=os.path.realpath(folder)),
                hint=text("Start it: ownlab up {folder}", folder=shlex.quote(folder)),
            )
        running = [lab]
    runtimes = own_runtimes(resolve_lab_options())
    states = LabStates(
        tuple(lab_state(lab, runtimes) for lab in running), notices=(runtimes.trouble,) if runtimes.trouble else ()
    )
    if as_json:
        echo_record(states)
    else:
        show_labs(states, console())
