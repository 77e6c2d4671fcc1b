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
from ownlab.lab.terminal.types import show_environments
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.group("env", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Let notebooks run in your own Python environments, beside ownlab's.

    An environment that is added here becomes a set of runtime types under its name: on the CPU, and on each card. It
    needs ipykernel, and nothing of ownlab.

    \b
    ownlab env add torch --python ~/envs/torch     an environment's folder, or an interpreter
    ownlab env add torch                           the environment that is active now
    ownlab env list
    ownlab env remove torch                        forgets it; nothing of it is deleted
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(as_json)


@command.command("add")
@click.argument("name")
@click.option(
    "--python",
    metavar="PATH",
    help="An interpreter, or an environment's folder. Default: the active environment (also OWNLAB_PYTHON).",
)
@json_option
def add(name: str, python: str | None, as_json: bool) -> None:
    """Add an environment under NAME (small letters, digits, hyphens)."""
    with working("Asking that Python"):
        added = add_environment(name, find_python(python))
        refresh_specs()
    if as_json:
        echo_record(EnvironmentList((added,)))
    else:
        click.echo(f"Added {name}: Python {added.version} with ipykernel {added.ipykernel}, {added.python}")


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the environments that were added."""
    _show(as_json)


@command.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Forget an environment. Nothing of it is deleted, and what runs in it goes on."""
    removed = remove_environment(name)
    refresh_specs()
    if as_json:
        _show(as_json)
    else:
        click.echo(f"Removed {name}. The environment itself is where it was: {removed.python}")


def _show(as_json: bool) -> None:
    found = EnvironmentList(list_environments())
    if as_json:
        echo_record(found)
    else:
        show_environments(found, console())
