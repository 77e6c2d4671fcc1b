"""`ownlab down`: ends a lab, and its runtimes where that is asked."""

from __future__ import annotations

import os

import click

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import LabOptions
from ownlab.errors import DeadlineError, LabError
from ownlab.lab.service.down import choose_labs, end_lab, end_runtimes
from ownlab.lab.service.labs import lab_id
from ownlab.lab.service.overview import runtime_word, still_running
from ownlab.lab.service.records import LabDown
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.rows import RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.lab.terminal.labs import show_running
from ownlab.lab.terminal.runtimes import short_id
from ownlab.render.console import console, working
from ownlab.render.documents import echo_record

__all__ = ["command"]


@click.command("down")
@click.argument("folder", required=False)
@json_option
@click.option(
    "--all", "everything", is_flag=True, help="End the runtimes too. Without FOLDER: all your labs and theirs."
)
def command(folder: str | None, as_json: bool, everything: bool) -> None:
    """End the lab of FOLDER; without FOLDER that of this folder, or the only one that is up.

    Its runtimes go on, and the next `ownlab up` finds them again; with --all they end, after the functions that were given
    to ownlab.on_end had their time to save.
    """
    options = resolve_lab_options()
    store = choose_store(options).folder
    labs = choose_labs(folder, every=everything)
    if not labs and not everything:
        where = "" if folder is None else f" of {os.path.realpath(os.path.expanduser(folder))}"
        raise LabError(f"no lab{where} is up", hint="`ownlab status` lists those that are.")
    for lab in labs:
        with working(f"Ending the lab of {lab.folder}"):
            end_lab(lab)
    # Of a folder's lab also what it left running when it was ended before.
    identity = lab_id(os.path.expanduser(folder)) if folder is not None else None
    concerned = {lab.id for lab in labs} if not everything else set()
    rows = [row for row in still_running(store, identity) if everything or row.lab in concerned]
    ended = _end(store, rows, options) if everything and rows else []
    words = {row.id: runtime_word(row) for row in rows}
    gone = {row.id for row in ended}
    report = LabDown(
        tuple(lab.folder for lab in labs),
        tuple(word for key, word in words.items() if key in gone),
        tuple(word for key, word in words.items() if key not in gone),
    )
    _show(report, as_json, everything)


def _end(store_folder: str, rows: list[RuntimeRow], options: LabOptions) -> list[RuntimeRow]:
    count = "1 runtime" if len(rows) == 1 else f"{len(rows)} runtimes"
    with working(f"Ending {count}: they have {options.on_end_seconds:g} s to save"), Store.open(store_folder) as store:
        return end_runtimes(store, rows, options.on_end_seconds)


def _show(report: LabDown, as_json: bool, everything: bool) -> None:
    if as_json:
        echo_record(report)
    else:
        for folder in report.folders:
            click.echo(f"The lab of {folder} has ended.")
        if report.ended:
            click.echo("Ended:")
            show_running(report.ended, console())
        elif everything and not report.running:
            click.echo("No runtime is left.")
        if report.running and not everything:
            click.echo("Still running, and going on (end them: ownlab down --all):")
            show_running(report.running, console())
    if report.running and everything:
        names = ", ".join(word.notebook or short_id(word.id) for word in report.running)
        raise DeadlineError(f"not ended in time: {names}", hint="End it at once: ownlab runtimes stop --now ID")
