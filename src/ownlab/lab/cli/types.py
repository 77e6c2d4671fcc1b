"""`ownlab types`: the kinds of runtime that can be started here."""

from __future__ import annotations

import click

from ownlab.cli.options import json_below, json_option
from ownlab.config.paths import kernels_folder
from ownlab.lab.runtimes.kernelspecs import remove_specs
from ownlab.lab.runtimes.records import RemovedTypes
from ownlab.lab.runtimes.runtime_types import list_types, refresh_specs
from ownlab.lab.terminal.types import show_types
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.group("types", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the runtime types: Python on the CPU, on a whole card, on a part of one, on several.

    Each is a kernel for Jupyter, so that the same types are in JupyterLab's launcher, in VS Code, and can be named to
    `jupyter execute` and papermill. The list follows the hardware: `ownlab up` writes it, `ownlab types refresh` too.
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(as_json)


@command.command("refresh")
@json_option
def refresh(as_json: bool) -> None:
    """Write the list for Jupyter anew, as the cards and environments are now."""
    with working("Looking at the cards"):
        changed = refresh_specs()
    if not as_json:
        click.echo("The list has changed." if changed else "Nothing has changed.", err=True)
    _show(as_json)


@command.command("remove")
@json_option
def remove(as_json: bool) -> None:
    """Remove all that ownlab wrote for Jupyter. Other kernels are left alone; `ownlab up` writes ours anew."""
    folder = kernels_folder()
    removed = remove_specs(folder)
    if as_json:
        echo_record(RemovedTypes(str(folder), removed))
    else:
        click.echo(f"Removed {removed} runtime type{'' if removed == 1 else 's'} from {folder}.")


def _show(as_json: bool) -> None:
    with working("Looking at the cards"):
        found = list_types()
    if as_json:
        echo_record(found)
    else:
        show_types(found, console())
