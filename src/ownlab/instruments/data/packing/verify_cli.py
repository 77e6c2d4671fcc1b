"""`ownlab data verify`: parse, run the guest, render."""

from __future__ import annotations

from pathlib import Path

import click

from ownlab.cli.options import json_option

__all__ = ["verify"]


@click.command("verify")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--full", is_flag=True, help="Read every byte and compare it with its checksum.")
@click.option("--repair", metavar="FROM", help="Repair from what was packed, or from another copy of the shards.")
@click.option("--python", metavar="PATH", help="The Python that has Pillow, if images were made smaller.")
@json_option
@click.pass_context
def verify(
    context: click.Context, /, folder: Path, full: bool, repair: str | None, python: str | None, as_json: bool
) -> None:
    """Check whether FOLDER, which `ownlab data pack` made, is as it was packed.

    Sizes and indexes are checked at once; --full reads everything. --repair replaces what is damaged or missing, and only by
    bytes with the right checksums.

    \b
    ownlab data verify shards --full
    ownlab data verify shards --repair photos

    Exit code: 0 as it was packed, or repaired; 1 damaged; 3 cannot be checked.
    """
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.data.packing.pipeline import verify_data
    from ownlab.instruments.data.progress_terminal import show_progress

    target = resolve_machine_options(python=python)
    with show_progress() as on_progress:
        verified = verify_data(str(folder), repair, target.python, on_progress, full=full)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(verified)
    else:
        from ownlab.instruments.data.packing.terminal import show_verified
        from ownlab.render.console import console

        show_verified(verified, console())
    context.exit(0 if verified.ok else 1)
