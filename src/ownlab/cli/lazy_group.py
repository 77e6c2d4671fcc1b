"""A group of commands that are imported when they are called, so that help is fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from ownlab.text import is_translated, text, translated

__all__ = ["Entry", "LazyGroup", "prepare"]


class Entry(NamedTuple):
    """A command as the help lists it; `module` has it under the name `attribute`."""

    module: str
    summary: str
    section: str = ""  # a heading in the help
    attribute: str = "command"


def prepare(command: click.Command) -> click.Command:
    """Translate the help of a command, and of all commands below it that are loaded, unless the language is English."""
    if is_translated():
        from ownlab.cli.translated_help import translate_help  # not needed for English

        below = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *below):
            translate_help(each)
    return command


class LazyGroup(click.Group):
    """Commands by name, from a table; the help lists them in its order and imports none of them."""

    def __init__(self, *args: Any, table: Mapping[str, Entry], **options: Any) -> None:
        super().__init__(*args, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
        return prepare(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.table and not args[0].startswith("-"):
            import difflib

            path = ctx.command_path
            close = [*self._commands_below(ctx, args[0]), *difflib.get_close_matches(args[0], self.table, n=1)]
            if close:
                near = f"{path} {close[0]}"
                ctx.fail(text("Unknown command {name!r}. Did you mean: {near}?", name=args[0], near=near))
            ctx.fail(text("Unknown command {name!r}. See: {group} --help", name=args[0], group=path))
        return super().resolve_command(ctx, args)

    def _commands_below(self, ctx: click.Context, name: str) -> list[str]:
        """Return the commands of groups with this name: "runtimes stop" for "stop"."""
        groups = [(group, self.get_command(ctx, group)) for group in self.table]
        return [
            f"{group} {name}"
            for group, command in groups
            if isinstance(command, click.Group) and name in command.list_commands(ctx)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = dict.fromkeys(entry.section for entry in self.table.values())
        width = max(map(len, self.table))
        for section in sections:
            rows = [
                (name.ljust(width), translated(entry.summary))
                for name, entry in self.table.items()
                if entry.section == section
            ]
            if not section:
                with formatter.section(text("Commands")):
                    formatter.write_dl(rows)
                continue
            formatter.write_paragraph()
            formatter.write_text(translated(section))
            with formatter.indentation():
                formatter.write_dl(rows)
