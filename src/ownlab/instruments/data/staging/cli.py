"""`ownlab data stage` and `ownlab data sets`."""

from __future__ import annotations

import click

from ownlab.cli.options import json_option
from ownlab.errors import InputError
from ownlab.instruments.data.staging.pipeline import list_data_sets, stage_detached, unstage
from ownlab.instruments.data.staging.pipeline import stage as stage_source
from ownlab.instruments.data.staging.records import StageReport
from ownlab.render.documents import echo_record
from ownlab.text import plural, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["sets", "stage"]


@click.command("stage")
@click.argument("source", metavar="SRC", type=click.Path())
@click.option("--background", is_flag=True, help="Return at once; the copy goes on by itself.")
@click.option("--remove", is_flag=True, help="Remove the copy of SRC instead.")
@json_option
def stage(source: str, background: bool, remove: bool, as_json: bool) -> None:
    """Copy a file or a folder from a slow place (Drive, NFS, a hard disk) to the local scratch disk, and print the path.

    A copy is read back and compared; the same command again continues it, brings it up to date, or only prints the path. If there is
    no room, copies that were used least recently are removed, never those that a process has open, and never anything else. The
    settings are data.stage_folder and data.stage_gb (`ownlab config`).

    \b
    python train.py --data "$(ownlab data stage /mnt/nfs/imagenet)"
    ownlab data stage ~/drive/photos --background
    ownlab data stage ~/drive/photos --remove
    """
    if remove:
        _remove(source, as_json)
        return
    if background:
        report = stage_detached(source)
    else:
        from ownlab.instruments.data.download.terminal import ProgressDisplay  # Rich is slow to import

        try:
            with ProgressDisplay() as progress:
                report = stage_source(source, progress)
        except KeyboardInterrupt:
            click.echo(text("What was copied is kept. Run the same command again to continue."), err=True)
            raise
    if as_json:
        echo_record(report)
    else:
        _show(report)


@click.command("sets")
@json_option
def sets(as_json: bool) -> None:
    """List data sets: staged copies, and folders that were downloaded or unpacked, with size, place and last use.

    \b
    ownlab data sets
    """
    listed = list_data_sets()
    if as_json:
        echo_record(listed)
        return
    from ownlab.instruments.data.staging.terminal import show_data_sets
    from ownlab.render.console import console

    show_data_sets(listed, console())


def _remove(source: str, as_json: bool) -> None:
    report = unstage(source)
    if report is None:
        raise InputError(
            text("There is no staged copy of {source}.", source=source), hint=text("See: ownlab data sets")
        )
    if as_json:
        echo_record(report)
    else:
        click.echo(text("Removed the copy of {source}.", source=source))


def _show(report: StageReport) -> None:
    """Print the path alone to stdout, so that a script can use it."""
    for evicted in report.evicted:
        click.echo(text("Removed the copy of {source} to make room.", source=evicted), err=True)
    if not report.complete:
        click.echo(text("Copying in the background. See: ownlab data sets"), err=True)
    elif report.copied:
        click.echo(
            text(
                "Copied {size} in {time}, and read it back ({files}).",
                size=format_bytes(report.copied),
                time=format_seconds(report.seconds),
                files=plural(report.files, "one file", "{n} files"),
            ),
            err=True,
        )
    click.echo(report.path)
