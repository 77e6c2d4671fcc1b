"""`ownlab data`: the table of its commands. Each is imported when it is called, since their libraries differ."""

from __future__ import annotations

import click

from ownlab.cli.lazy_group import Entry, LazyGroup
from ownlab.cli.options import json_option

__all__ = ["command"]


# In the order of the help: the way that data takes.
COMMANDS: dict[str, Entry] = {
    "get": Entry("ownlab.instruments.data.download.cli", "Download data; continue where a download was interrupted."),
    "unpack": Entry("ownlab.instruments.data.archives.cli", "Unpack an archive safely; finished files are skipped."),
    "inspect": Entry(
        "ownlab.instruments.data.inspection.cli",
        "Show kinds, classes, sizes, broken images, duplicates.",
        attribute="inspect",
    ),
    "pack": Entry(
        "ownlab.instruments.data.packing.cli", "Pack files into shards that are read without seeking.", attribute="pack"
    ),
    "bench": Entry(
        "ownlab.instruments.data.rates.cli", "Measure what limits reading: disk, files or decoder.", attribute="bench"
    ),
    "verify": Entry(
        "ownlab.instruments.data.packing.verify_cli",
        "Check packed data against its checksums; repair it.",
        attribute="verify",
    ),
    "stage": Entry(
        "ownlab.instruments.data.staging.cli",
        "Copy data from a slow place to the local scratch disk.",
        attribute="stage",
    ),
    "sets": Entry(
        "ownlab.instruments.data.staging.cli", "List data sets with size, place and last use.", attribute="sets"
    ),
}


@click.group("data", cls=LazyGroup, table=COMMANDS)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Get data, check it, pack it, feed it.

    \b
    ownlab data get hf://datasets/OWNER/NAME
    ownlab data inspect photos
    ownlab data pack photos -o shards
    """
    context.default_map = {name: {"as_json": as_json} for name in COMMANDS}
