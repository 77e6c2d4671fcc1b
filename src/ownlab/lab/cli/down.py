"""`ownlab down`: stop a lab, and with --all its runtimes."""

from __future__ import annotations

import os

import click

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import DeadlineError, LabError
from ownlab.lab.service.down import choose_labs, stop_lab, stop_runtimes
from ownlab.lab.service.labs import lab_id
from ownlab.lab.service.overview import runtime_summary, still_running
from ownlab.lab.service.records import LabDown
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.lab.terminal.labs import show_running
from ownlab.lab.terminal.runtimes import short_id
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record
from ownlab.text import plural, text

__all__ = ["command"]


@click.command("down")
@click.argument("folder", required=False)
@json_option
@click.option(
    "--all", "everything", is_flag=True, help="Stop the runtimes too. Without FOLDER: all your labs and their runtimes."
)
def command(folder: str | None, as_json: bool, everything: bool) -> None:
    """Stop the lab of FOLDER. Without FOLDER: the lab of this folder, or the only one that is running.

    Its runtimes keep running, and the next `ownlab up` finds them again. With --all they are stopped too, after functions
    registered with ownlab.on_end had time to save.
    """
    options = resolve_lab_options()
    store = choose_store(options).folder
    labs = choose_labs(folder, every=everything)
    if not labs and not everything:
        raise _no_lab(folder)
    for lab in labs:
        with working(text("Stopping the lab of {folder}", folder=lab.folder)):
            stop_lab(lab)
    # Also what the lab of a folder left running when it was stopped before.
    identity = lab_id(os.path.expanduser(folder)) if folder is not None else None
    stopped = {lab.id for lab in labs} if not everything else set()
    rows = [row for row in still_running(store, identity) if everything or row.lab in stopped]
    ended = _stop(store, rows, options) if everything and rows else []
    summaries = {row.id: runtime_summary(row) for row in rows}
    ended_ids = {row.id for row in ended}
    report = LabDown(
        tuple(lab.folder for lab in labs),
        tuple(summary for key, summary in summaries.items() if key in ended_ids),
        tuple(summary for key, summary in summaries.items() if key not in ended_ids),
    )
    _show(report, as_json, everything)


def _no_lab(folder: str | None) -> LabError:
    hint = text("`ownlab status` lists the running labs.")
    if folder is None:
        return LabError(text("No lab is running."), hint=hint)
    path = os.path.realpath(os.path.expanduser(folder))
    return LabError(text("The lab of {folder} is not running.", folder=path), hint=hint)


def _stop(store_folder: str, rows: list[RuntimeRow], options: LabOptions) -> list[RuntimeRow]:
    message = plural(
        len(rows),
        "Stopping 1 runtime: it has {seconds:g} s to save",
        "Stopping {n} runtimes: they have {seconds:g} s to save",
        seconds=options.on_end_seconds,
    )
    with working(message), Store.open(store_folder) as store:
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
        names = ", ".join(runtime.notebook or short_id(runtime.id) for runtime in report.running)
        raise DeadlineError(
            text("These runtimes did not stop in time: {names}.", names=names),
            hint=text("Stop them at once: ownlab runtimes stop --now ID"),
        )
