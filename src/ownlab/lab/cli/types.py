"""`ownlab types`: the runtime types of this machine."""

from __future__ import annotations

import click

from ownlab.cli.options import json_below, json_option
from ownlab.config.paths import kernels_folder
from ownlab.errors import UsageError
from ownlab.lab.engines.interface import OfferList
from ownlab.lab.engines.registry import find_engine
from ownlab.lab.runtimes.kernelspecs import remove_specs
from ownlab.lab.runtimes.records import RemovedTypes
from ownlab.lab.runtimes.runtime_types import list_types, refresh_specs
from ownlab.lab.terminal.offers import show_offers
from ownlab.lab.terminal.runtimes import show_types
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import plural, text

__all__ = ["command"]


@click.group("types", invoke_without_command=True)
@json_option
@click.option("--engine", metavar="NAME", help="Instead: what scripts can be run on there: local or slurm.")
@click.pass_context
def command(context: click.Context, as_json: bool, engine: str | None) -> None:
    """List the runtime types: Python on the CPU, on a whole card, on a part of a card, or on several cards.

    Each is a Jupyter kernelspec: JupyterLab's launcher and VS Code list the same types, and `jupyter execute` and papermill
    accept their names. `ownlab up` and `ownlab types refresh` update the list to the current hardware.

    \b
    ownlab types
    ownlab types --engine slurm    the partitions of a cluster
    """
    json_below(context, as_json)
    if engine is not None:
        if context.invoked_subcommand is not None:
            raise UsageError(text("--engine cannot be combined with {command}.", command=context.invoked_subcommand))
        _show_engine(engine, as_json)
    elif context.invoked_subcommand is None:
        _show(as_json)


@command.command("refresh")
@json_option
def refresh(as_json: bool) -> None:
    """Update the kernelspecs to the current cards and environments.

    \b
    ownlab types refresh
    """
    with working(text("Reading the cards")):
        changed = refresh_specs()
    if not as_json:
        click.echo(text("The list has changed.") if changed else text("Nothing has changed."), err=True)
    _show(as_json)


@command.command("remove")
@json_option
def remove(as_json: bool) -> None:
    """Remove all kernelspecs of ownlab. Others are not changed. `ownlab up` writes them again.

    \b
    ownlab types remove
    """
    folder = kernels_folder()
    removed = remove_specs(folder)
    if as_json:
        echo_record(RemovedTypes(str(folder), removed))
    else:
        click.echo(
            plural(
                removed,
                "Removed 1 runtime type from {folder}.",
                "Removed {n} runtime types from {folder}.",
                folder=folder,
            )
        )


def _show_engine(name: str, as_json: bool) -> None:
    with working(text("Reading what {engine} offers", engine=name)):
        found = OfferList(name, find_engine(name).offers())
    if as_json:
        echo_record(found)
    else:
        show_offers(found, console())


def _show(as_json: bool) -> None:
    with working(text("Reading the cards")):
        found = list_types()
    if as_json:
        echo_record(found)
    else:
        show_types(found, console())
