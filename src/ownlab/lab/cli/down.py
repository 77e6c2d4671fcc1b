"""`ownlab down`: stop a lab, and with --all its runtimes."""

from __future__ import annotations

import os

import click

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import DeadlineError, LabError
from ownlab.lab.service.down import choose_labs, stop_lab, stop_runtimes
from ownlab.lab.service.overview import open_own_store, own_runtimes, runtime_summary
from ownlab.lab.service.records import LabDown
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.terminal.labs import show_running
from ownlab.lab.terminal.runtimes import short_id
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import listing, plural, text

__all__ = ["command"]


@click.command("down")
@click.argument("folder", required=False)
@json_option
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Stop the runtimes too. Without FOLDER: all your labs and all your runtimes.",
)
def command(folder: str | None, as_json: bool, everything: bool) -> None:
    """Stop the lab of FOLDER. Without FOLDER: the lab of this folder, or the only one that is running.

    Its runtimes keep running, and the next `ownlab up` finds them again. With --all they are stopped too, after functions
    registered with ownlab.on_end had time to save; so are those of other programs (`ownlab run`, papermill, VS Code) whose
    notebooks are in FOLDER, and without FOLDER all of them.

    \b
    ownlab down                      the lab of this folder, or the only one
    ownlab down ~/notebooks --all    its runtimes too
    """
    options = resolve_lab_options()
    labs = choose_labs(folder, every=everything)
    if not labs and not everything:
        raise _no_lab(folder)
    for lab in labs:
        with working(text("Stopping the lab of {folder}", folder=lab.folder)):
            stop_lab(lab)
    runtimes = own_runtimes(options)
    if not everything:
        rows = [row for lab in labs for row in runtimes.of_lab(lab.id)]
    else:  # also what the lab of a folder left running when it was stopped before
        rows = runtimes.rows if folder is None else runtimes.below(folder)
    ended = _stop(rows, options) if everything and rows else []
    summaries = {row.id: runtime_summary(row) for row in rows}
    ended_ids = {row.id for row in ended}
    report = LabDown(
        tuple(lab.folder for lab in labs),
        tuple(summary for key, summary in summaries.items() if key in ended_ids),
        tuple(summary for key, summary in summaries.items() if key not in ended_ids),
    )
    if runtimes.trouble and not as_json:
        click.echo(runtimes.trouble, err=True)
    _show(report, as_json, everything)


def _no_lab(folder: str | None) -> LabError:
    hint = text("`ownlab status` lists the running labs.")
    if folder is None:
        return LabError(text("No lab is running."), hint=hint)
    path = os.path.realpath(os.path.expanduser(folder))
    return LabError(text("The lab of {folder} is not running.", folder=path), hint=hint)


def _stop(rows: list[RuntimeRow], options: LabOptions) -> list[RuntimeRow]:
    message = plural(
        len(rows),
        "Stopping 1 runtime: it has {seconds:g} s to save",
        "Stopping {n} runtimes: they have {seconds:g} s to save",
        seconds=options.on_end_seconds,
    )
    with working(message), open_own_store(options) as store:
        return stop_runtimes(store, rows, options.on_end_seconds)


def _show(report: LabDown, as_json: bool, everything: bool) -> None:
    if as_json:
        echo_record(report)
    else:
        for folder in report.folders:
            click.echo(text("The lab of {folder} has stopped.", folder=folder))
        if report.ended:
            click.echo(text("Stopped:"))
            show_running(report.ended, console())
        elif everything and not report.running:
            click.echo(text("No runtime is running."))
        if report.running and not everything:
            click.echo(text("Still running (stop them with: ownlab down --all):"))
            show_running(report.running, console())
    if report.running and everything:
        names = listing((runtime.notebook or short_id(runtime.id) for runtime in report.running), "{items}, {last}")
        raise DeadlineError(
            text("These runtimes did not stop in time: {names}.", names=names),
            hint=text("Stop them at once: ownlab runtimes stop --now ID"),
        )
