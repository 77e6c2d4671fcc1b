"""`ownlab store`: where runtimes and leases are recorded, and who shares them."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click
from msgspec.structs import replace

from ownlab.cli.options import json_below, json_option
from ownlab.config.limits import preset_limits
from ownlab.config.loader import resolve_lab_options
from ownlab.config.settings import PRESETS
from ownlab.errors import LabError, UsageError
from ownlab.lab.store.location import SHARED_FOLDER, StoreChoice, StoreRepair, choose_store, view_store
from ownlab.lab.terminal.config import show_store
from ownlab.render.console import console
from ownlab.render.documents import echo_record
from ownlab.text import sentences, text

__all__ = ["command"]


@click.group("store", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show where the leases of cards are recorded.

    Everyone who uses the same store sees the others' runtimes, and no card is leased twice. By default the store is your
    own. An administrator can create one for everyone on this machine.

    \b
    ownlab store
    sudo ownlab store init --shared
    """
    json_below(context, as_json)
    if context.invoked_subcommand is None:
        _show(choose_store(resolve_lab_options()), as_json)


@command.command("init")
@click.option("--shared", is_flag=True, help="For everyone on this machine; needs administrator rights.")
@click.option("--folder", default=SHARED_FOLDER, show_default=True, metavar="PATH", help="A folder on a local disk.")
@click.option("--group", metavar="NAME", help="Only members of this group may use it. Default: every user.")
@click.option(
    "--limits", type=click.Choice(list(PRESETS)), default="none", show_default=True, help="Limits for everyone."
)
@json_option
def init(shared: bool, folder: str, group: str | None, limits: str, as_json: bool) -> None:
    """Create a store that several people share.

    These limits apply to everyone; a person's own configuration can only be stricter. They are in the file policy.json in
    the folder, in seconds.

    \b
    sudo ownlab store init --shared
    sudo ownlab store init --shared --group students --limits colab
    """
    if not shared:
        raise UsageError(
            text("Your own store is created automatically with the first runtime."),
            hint=text(
                "For a store for everyone on this machine, the administrator runs: {command}",
                command=_as_administrator(folder, group, limits),
            ),
        )
    _refuse_without_rights(folder, _as_administrator(folder, group, limits))
    from ownlab.lab.store.setup import init_shared

    init_shared(folder, group=group, limits=_limits(limits))
    notice = "" if folder == SHARED_FOLDER else text("To use it, set OWNLAB_STORE or store.folder to this folder.")
    _show(StoreChoice(os.path.abspath(folder), True, text("named by --folder"), notice), as_json)


@command.command("repair")
@json_option
def repair(as_json: bool) -> None:
    """Replace the database of the store if it is damaged or lost.

    The old one is renamed, not removed. Running runtimes keep their cards: their locks name them, and they register again
    within seconds. Only the record of past usage stays in the old database.

    \b
    ownlab store repair
    """
    choice = choose_store(resolve_lab_options())
    from ownlab.lab.store.setup import repair as repair_store

    aside = repair_store(choice.folder)
    if as_json:
        echo_record(StoreRepair(choice.folder, aside or None))
    elif aside:
        click.echo(
            text("The store {folder} has a new database. The old one is {path}.", folder=choice.folder, path=aside)
        )
    else:
        click.echo(text("The database of the store {folder} is in order.", folder=choice.folder))


def _as_administrator(folder: str, group: str | None, limits: str) -> str:
    """Return the full command: sudo does not search the bin folder of an environment."""
    program = os.path.join(os.path.dirname(sys.executable), "ownlab")
    words = ["sudo", program] if os.path.exists(program) else ["sudo", sys.executable, "-m", "ownlab"]
    words += ["store", "init", "--shared"]
    if folder != SHARED_FOLDER:
        words += ["--folder", os.path.abspath(folder)]
    if group is not None:
        words += ["--group", group]
    if limits != "none":
        words += ["--limits", limits]
    return shlex.join(words)


def _refuse_without_rights(folder: str, command: str) -> None:
    path = Path(os.path.abspath(folder))
    nearest = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
    if not os.access(nearest, os.W_OK):
        raise LabError(
            text("Only the administrator can create a shared store: you cannot write to {folder}.", folder=nearest),
            hint=text("Run, or ask the administrator to run: {command}", command=command),
        )


def _limits(preset: str) -> dict[str, float] | None:
    """Return the limits of a preset, in seconds, by the fields of Limits."""
    return preset_limits(PRESETS[preset]) or None


def _show(choice: StoreChoice, as_json: bool) -> None:
    view = view_store(choice)
    if view.made:
        from ownlab.lab.store.locks_only import open_any

        with open_any(choice.folder, create=False) as store:
            view = replace(view, notice=sentences(view.notice, store.trouble))
    if as_json:
        echo_record(view)
    else:
        show_store(view, console())
