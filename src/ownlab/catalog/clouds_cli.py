"""The command `ownlab clouds`: platforms with their offers, prices and limits. `ownlab clouds cost` is in instruments/advise."""

from __future__ import annotations

import importlib

import click

from ownlab.cli.lazy_group import prepare
from ownlab.cli.options import json_option

__all__ = ["command"]


class _Clouds(click.Group):
    """A word that is not a command is the name of a platform. `cost` is loaded from instruments/advise when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "cost"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "cost":
            cost: click.Command = importlib.import_module("ownlab.instruments.advise.cli").cost_command
            return prepare(cost)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] != "cost" and args[0] not in self.commands:
            return "show", _show, args
        return super().resolve_command(ctx, args)


@click.group("clouds", cls=_Clouds, invoke_without_command=True, subcommand_metavar="[NAME… | cost]")
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show cloud platforms with GPUs: their cards, prices and limits, each with its date.

    With a name it shows one platform in full, with its sources.

    \b
    ownlab clouds
    ownlab clouds kaggle                     one platform in full
    ownlab clouds cost --hours 20 --on T4    what a job costs on each
    """
    if context.invoked_subcommand is None:
        _print((), as_json)
    else:
        context.default_map = {name: {"as_json": as_json} for name in ("show", "cost")}


@click.command("show", hidden=True)
@click.argument("names", nargs=-1)
@json_option
def _show(names: tuple[str, ...], as_json: bool) -> None:
    """Show these platforms in full."""
    _print(names, as_json)


def _print(names: tuple[str, ...], as_json: bool) -> None:
    from datetime import date

    from ownlab.catalog.platforms import choose_platforms, list_platforms

    platforms = choose_platforms(",".join(names)) if names else None
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(list_platforms(platforms))
        return
    from ownlab.catalog.clouds_terminal import show_platform, show_platforms
    from ownlab.render.console import console

    out = console()
    if platforms is None:
        show_platforms(out, date.today())
        return
    for number, platform in enumerate(platforms):
        if number:
            out.print()
        show_platform(platform, out, date.today())
