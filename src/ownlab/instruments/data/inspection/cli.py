"""`ownlab data inspect`: parse, run the guest, render."""

from __future__ import annotations

from pathlib import Path

import click

from ownlab.cli.options import json_option
from ownlab.text import text

__all__ = ["inspect"]


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--sheet",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save small pictures from everywhere in the data as FILE.png or .jpg, or with the report as FILE.html.",
)
@click.option("--only", metavar="FOLDER", help="Look only at this folder of PATH.")
@click.option(
    "--python", metavar="PATH", help="The Python that has Pillow or pyarrow. Default: the active environment."
)
@json_option
@click.pass_context
def inspect(
    context: click.Context, /, path: Path, sheet: Path | None, only: str | None, python: str | None, as_json: bool
) -> None:
    """Show what PATH contains: kinds of files, classes, image sizes, broken images, duplicates, columns.

    PATH is anything that `ownlab data pack` takes, or packed data. Every file is read and every image decoded.

    \b
    ownlab data inspect train
    ownlab data inspect train.zip --sheet sheet.html

    Exit code: 0; 1 if something is broken.
    """
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.data.inspection.pipeline import InspectRequest, inspect_data
    from ownlab.instruments.data.progress_terminal import show_progress

    target = resolve_machine_options(python=python)
    with show_progress() as on_progress:
        request = InspectRequest(str(path), None if sheet is None else str(sheet), only)
        inspection = inspect_data(request, target.python, on_progress).plain()
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(inspection)
    else:
        from ownlab.instruments.data.inspection.terminal import show_inspection
        from ownlab.render.console import console

        show_inspection(inspection, console())
        if sheet is not None:
            click.echo(text("Saved as {path}.", path=sheet), err=True)
    context.exit(1 if inspection.broken_count else 0)
