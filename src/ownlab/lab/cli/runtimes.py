"""`ownlab runtimes`: who uses which card, for how long, at what cost."""

from __future__ import annotations

import time

import click

from ownlab.cli.options import json_option
from ownlab.config.limits import limits_of, stricter
from ownlab.config.loader import resolve_lab_options
from ownlab.errors import DeadlineError
from ownlab.lab.cli.runtime_log import command as log
from ownlab.lab.runtimes.operations import extend_runtime, find_runtime, stop_runtime
from ownlab.lab.runtimes.records import RuntimeChange
from ownlab.lab.runtimes.usage_report import usage_report
from ownlab.lab.server.machine_reader import Sight, open_store
from ownlab.lab.service.down import wait_for_end
from ownlab.lab.service.overview import lab_folder
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.terminal.runtimes import short_id, short_path, show_runtimes, show_usage
from ownlab.lab.transport.journal_protocol import RELEASED
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import text
from ownlab.units import format_seconds

__all__ = ["command"]


@click.group("runtimes", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show all runtimes and cards of this machine: who uses which card, memory, time left, cost.

    Commands below name a runtime by the beginning of its id or by its notebook.
    """
    context.obj = as_json  # `ownlab runtimes --json usage` equals `ownlab runtimes usage --json`
    if context.invoked_subcommand is not None:
        return
    with working(text("Reading the runtimes")):
        sight = Sight()
        try:
            snapshot = sight.look()
        finally:
            sight.close()
    if as_json:
        echo_record(snapshot)
    else:
        show_runtimes(snapshot, console())


@command.command("stop")
@click.argument("runtime")
@json_option
@click.pass_obj
@click.option("--now", is_flag=True, help="At once, without time for on_end functions to save.")
@click.option("--released", is_flag=True, hidden=True)  # used by google.colab.runtime.unassign
def stop(outer_json: bool, runtime: str, as_json: bool, now: bool, released: bool) -> None:
    """Stop RUNTIME. What it has not saved is lost."""
    seconds = resolve_lab_options().on_end_seconds
    with open_store() as store:
        row = stop_runtime(store, runtime, now=now, why=RELEASED if released else text("it was stopped by hand"))
        saving = text("Stopping it: it has {seconds:g} s to save", seconds=seconds)
        with working(text("Stopping it at once") if now else saving):
            ended = wait_for_end(store, [row], 0.0 if now else seconds)
    if not ended:
        message = text("{runtime} did not stop in time.", runtime=_name(row))
        raise DeadlineError(message, hint=text("Use --now to stop it at once."))
    if as_json or outer_json:
        echo_record(RuntimeChange(row.id, row.notebook, "stop"))
    else:
        click.echo(text("{runtime} has stopped.", runtime=_name(row)))


@command.command("extend")
@click.argument("runtime")
@json_option
@click.pass_obj
def extend(outer_json: bool, runtime: str, as_json: bool) -> None:
    """Give RUNTIME more time before a limit ends it."""
    with open_store() as store:
        row = find_runtime(store, runtime)
        answer = extend_runtime(store, row.id)
    ends_at = answer.get("ends_at")
    if as_json or outer_json:
        echo_record(RuntimeChange(row.id, row.notebook, "extend", ends_at))
    elif ends_at is None:
        click.echo(text("{runtime} has no time limit.", runtime=_name(row)))
    else:
        left = format_seconds(max(1.0, ends_at - time.time()))
        click.echo(text("{runtime} has {duration} from now.", runtime=_name(row), duration=left))


@command.command("usage")
@json_option
@click.pass_obj
@click.option(
    "--weeks", type=click.IntRange(1, 520), default=4, show_default=True, help="How many weeks, including this one."
)
def usage(outer_json: bool, as_json: bool, weeks: int) -> None:
    """Show usage by week and person: hours, card hours, units."""
    options = resolve_lab_options()
    with open_store(options) as store:
        report = usage_report(store, weeks, stricter(limits_of(options), store.limits()))
    if as_json or outer_json:
        echo_record(report)
    else:
        show_usage(report, console())


command.add_command(log)


def _name(row: RuntimeRow) -> str:
    notebook = short_path(row.notebook, lab_folder(row))
    return f"{notebook} ({short_id(row.id)})" if notebook else short_id(row.id)
