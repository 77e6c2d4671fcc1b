"""`ownlab env`: the Python environments that runtimes can start in."""

from __future__ import annotations

import click

from ownlab.cli.options import json_below, json_option
from ownlab.lab.environments.registry import (
    EnvironmentList,
    add_environment,
    find_python,
    list_environments,
    remove_environment,
)
from ownlab.lab.runtimes.runtime_types import refresh_specs
from ownlab.lab.terminal.runtimes import show_environments
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.group("env", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Let notebooks run in your own Python environments.

    Each added environment gets its own runtime types: on the CPU and on each card. It needs ipykernel, but not ownlab.

    \b
    ownlab env add torch --python ~/envs/torch     the folder of an environment, or an interpreter
    ownlab env add torch                           the active environment
    ownlab env list
    ownlab env remove torch                        removes it from the list; deletes no files
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(as_json)


@command.command("add")
@click.argument("name")
@click.option(
    "--python",
    metavar="PATH",
    help="An interpreter or the folder of an environment. Default: the active environment (also OWNLAB_PYTHON).",
)
@json_option
def add(name: str, python: str | None, as_json: bool) -> None:
    """Add an environment as NAME (lower-case letters, digits, hyphens)."""
    with working(text("Checking the interpreter")):
        added = add_environment(name, find_python(python))
        refresh_specs()
    if as_json:
        echo_record(EnvironmentList((added,)))
    else:
        message = text(
            "Added {name}: Python {version} with ipykernel {ipykernel}, {python}.",
            name=name,
            version=added.version,
            ipykernel=added.ipykernel,
            python=added.python,
        )
        click.echo(message)


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the added environments."""
    _show(as_json)


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove an environment from the list. No files are deleted, and its runtimes keep running."""
    removed = remove_environment(name)
    refresh_specs()
    if as_json:
        _show(as_json)
    else:
        click.echo(
            text("Removed {name}. The environment itself was not deleted: {python}", name=name, python=removed.python)
        )


def _show(as_json: bool) -> None:
    found = EnvironmentList(list_environments())
    if as_json:
        echo_record(found)
    else:
        show_environments(found, console())
