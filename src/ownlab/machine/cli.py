"""`ownlab machine`: every fact about this machine."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option, machine_options
from ownlab.config.machine_options import resolve_machine_options
from ownlab.errors import InterpreterError
from ownlab.machine.facts import Unknown
from ownlab.machine.machine_file import save_machine
from ownlab.machine.reader import read_machine
from ownlab.machine.terminal import show_machine
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import text

__all__ = ["command"]


@click.command("machine")
@json_option
@machine_options
@click.option("--save", metavar="FILE", help="Save the machine to a file, for --machine FILE.")
def command(as_json: bool, python: str | None, machine: str | None, save: str | None) -> None:
    """Show every fact about this machine with its source.

    A fact that cannot be read is shown with the reason. A saved machine (--save) can be read on another computer, and
    replaces the real one in every command that accepts --machine FILE.

    \b
    ownlab machine --save lab7.json
    ownlab doctor --machine lab7.json
    """
    with working(text("Reading this machine")):
        record = read_machine(resolve_machine_options(python=python, machine=machine))
    if save is not None:
        save_machine(record, save)
        click.echo(
            text(
                "Saved to {path}. The file contains the names and scripts of programs, but no command-line options, and"
                " the environment variables that `ownlab machine` shows. Paths in it may contain user names.",
                path=save,
            ),
            err=True,
        )
    if as_json:
        echo_record(record)
    elif save is None:
        show_machine(record, console())
    if record.origin == "live" and isinstance(record.interpreter.version, Unknown):
        click.get_current_context().exit(InterpreterError.exit_code)
