"""`ownlab machine`: all that is known of this machine."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option, machine_options
from ownlab.config.target import resolve_machine_options
from ownlab.errors import InterpreterError
from ownlab.machine.facts import Unknown
from ownlab.machine.machine_file import save_machine
from ownlab.machine.reader import read_machine
from ownlab.machine.terminal import show_machine
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.command("machine")
@json_option
@machine_options
@click.option("--save", metavar="FILE", help="Write the machine to a file, which can stand in for it anywhere.")
def command(as_json: bool, python: str | None, machine: str | None, save: str | None) -> None:
    """Show all that is known of this machine, each fact with its source.

    A fact that cannot be read says why. A machine that was saved (--save) can be looked at elsewhere, and stands in for
    the real one wherever a machine is looked at (--machine FILE).
    """
    with working("Reading this machine"):
        record = read_machine(resolve_machine_options(python=python, machine=machine))
    if save is not None:
        save_machine(record, save)
        click.echo(
            f"Saved to {save}. Of programs it holds names and scripts, never their options; of variables, those that"
            " `ownlab machine` shows. Paths in it may name people.",
            err=True,
        )
    if as_json:
        echo_record(record)
    elif save is None:
        show_machine(record, console())
    if record.origin == "live" and isinstance(record.interpreter.version, Unknown):
        click.get_current_context().exit(InterpreterError.exit_code)
