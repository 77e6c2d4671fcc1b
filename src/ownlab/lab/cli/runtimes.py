"""`ownlab runtimes`: who uses which card, for how long, at what cost."""

from __future__ import annotations

import time

import click
from msgspec.structs import replace

from ownlab.cli.options import json_option
from ownlab.config.limits import limits_of, stricter
from ownlab.config.loader import resolve_lab_options
from ownlab.errors import DeadlineError, LabError
from ownlab.lab.cli.runtime_log import command as log
from ownlab.lab.cli.script_log import find_script_run
from ownlab.lab.engines.interface import Engine, Job
from ownlab.lab.engines.registry import DEFAULT_ENGINE, find_engine
from ownlab.lab.runtimes.operations import end_own_job, extend_runtime, find_runtime, stop_runtime
from ownlab.lab.runtimes.records import RuntimeChange
from ownlab.lab.runtimes.usage_report import usage_report
from ownlab.lab.scripts.cluster_jobs import jobs_on_clusters
from ownlab.lab.scripts.records import StartedScript
from ownlab.lab.server.machine_reader import MachineReader, open_store
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

# Seconds. Slurm gives a job that is cancelled KillWait seconds (30 by default) to save.
_STOPS_WITHIN = 120.0
_BETWEEN_LOOKS = 0.1
_NODES_ANSWER_WITHIN = 5.0


@click.group("runtimes", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show all runtimes and cards of this machine: who uses which card, memory, time left, cost; and your scripts on a cluster.

    Commands below name a runtime by the beginning of its id or by its notebook.

    \b
    ownlab runtimes
    ownlab runtimes log train.ipynb -f
    ownlab runtimes stop train.ipynb
    """
    context.obj = as_json  # `ownlab runtimes --json usage` equals `ownlab runtimes usage --json`
    if context.invoked_subcommand is not None:
        return
    with working(text("Reading the runtimes")):
        reader = MachineReader()
        try:
            snapshot = reader.read_with_nodes(_NODES_ANSWER_WITHIN)
        finally:
            reader.close()
        jobs, notices = jobs_on_clusters()
        snapshot = replace(snapshot, jobs=jobs, notices=(*snapshot.notices, *notices))
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
    """Stop RUNTIME. What it has not saved is lost.

    \b
    ownlab runtimes stop train.ipynb
    ownlab runtimes stop 3f2a91 --now
    """
    script = find_script_run(runtime)
    if script is not None and script[1].engine != DEFAULT_ENGINE:
        _stop_job(*script, now=now, as_json=as_json or outer_json)
        return
    why = RELEASED if released else text("it was stopped by hand")
    if end_own_job(runtime, why, now=now):
        return
    seconds = resolve_lab_options().on_end_seconds
    with open_store() as store:
        row = stop_runtime(store, runtime, now=now, why=why)
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


def _stop_job(folder: str, start: StartedScript, *, now: bool, as_json: bool) -> None:
    """Stop a script that another engine runs."""
    engine, job = find_engine(start.engine), Job(start.runtime, folder, start.reference)
    name = text("{name} ({runtime})", name=short_path(start.script[0], None), runtime=short_id(start.runtime))
    with working(text("Stopping {name}", name=name)):
        if engine.status([job])[0].has_ended:
            raise LabError(text("{name} has ended already.", name=name), hint=text("`ownlab runtimes log` says how."))
        engine.cancel(job, "now" if now else "end", text("it was stopped by hand"))
        if not _has_ended(engine, job):
            message = text("{name} did not stop in time.", name=name)
            raise DeadlineError(message, hint=text("Use --now to stop it at once."))
    if as_json:
        echo_record(RuntimeChange(start.runtime, start.script[0], "stop"))
    else:
        click.echo(text("{name} has stopped.", name=name))


def _has_ended(engine: Engine, job: Job) -> bool:
    """Wait for the end of a job, which may save before."""
    deadline = time.monotonic() + _STOPS_WITHIN
    while not engine.status([job])[0].has_ended:
        if time.monotonic() > deadline:
            return False
        time.sleep(_BETWEEN_LOOKS)
    return True


@command.command("extend")
@click.argument("runtime")
@json_option
@click.pass_obj
def extend(outer_json: bool, runtime: str, as_json: bool) -> None:
    """Give RUNTIME more time before a limit ends it.

    \b
    ownlab runtimes extend train.ipynb
    """
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
    """Show usage by week and person: hours, card hours, units.

    \b
    ownlab runtimes usage --weeks 4
    """
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
