"""`ownlab data`: the table of its commands. Each is imported when it is called, since their libraries differ."""

from __future__ import annotations

import importlib
from typing import NamedTuple

import click

from ownlab.cli.options import json_option

__all__ = ["command"]


class Entry(NamedTuple):
    """A command as the help lists it; `module` has it under the name `attribute`."""

    module: str
    attribute: str
    summary: str


# In the order of the help: the way that data takes.
COMMANDS: dict[str, Entry] = {
    "get": Entry(
        "ownlab.instruments.data.download.cli", "command", "Download data; continue where a download was interrupted."
    ),
    "unpack": Entry(
        "ownlab.instruments.data.archives.cli", "command", "Unpack an archive safely; finished files are skipped."
    ),
    "inspect": Entry(
        "ownlab.instruments.data.inspection.cli", "inspect", "Show kinds, classes, sizes, broken images, duplicates."
    ),
    "pack": Entry(
        "ownlab.instruments.data.packing.cli", "pack", "Pack files into shards that are read without seeking."
    ),
    "bench": Entry(
        "ownlab.instruments.data.rates.cli", "bench", "Measure what limits reading: disk, files or decoder."
    ),
    "verify": Entry(
        "ownlab.instruments.data.packing.verify_cli", "verify", "Check packed data against its checksums; repair it."
    ),
    "stage": Entry(
        "ownlab.instruments.data.staging.cli", "stage", "Copy data from a slow place to the local scratch disk."
    ),
    "sets": Entry("ownlab.instruments.data.staging.cli", "sets", "List data sets with size, place and last use."),
}


class LazyGroup(click.Group):
    """Commands by name, imported on use; the help shows their summaries without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        found: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry.summary) for name, entry in COMMANDS.items()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


@click.group("data", cls=LazyGroup)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Get data, check it, pack it, feed it."""
    context.default_map = {name: {"as_json": as_json} for name in COMMANDS}
