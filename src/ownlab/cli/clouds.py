"""`ownlab clouds`: platforms with their offers, prices and limits; `ownlab clouds cost`: what a job costs there."""

from __future__ import annotations

from typing import Any

import click

from ownlab.cli.advise import asked_question, question_options
from ownlab.cli.options import json_option
from ownlab.errors import UsageError

__all__ = ["command"]


class _Clouds(click.Group):
    """What is no command is the name of a platform."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands:
            return "show", _show, args
        return super().resolve_command(ctx, args)


@click.group("clouds", cls=_Clouds, invoke_without_command=True, subcommand_metavar="[NAME… | cost]")
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Show platforms that rent or lend GPUs: cards, prices, limits, and the day that each is of.

    `ownlab clouds kaggle` shows one in full, with its sources; `ownlab clouds cost` computes what a job costs on each.
    """
    if context.invoked_subcommand is None:
        _print((), as_json)
    else:
        context.default_map = {name: {"as_json": as_json} for name in ("show", "cost")}


@click.command("show", hidden=True)
@click.argument("names", nargs=-1)
@json_option
def _show(names: tuple[str, ...], as_json: bool) -> None:
    """Show the platforms that are named."""
    _print(names, as_json)


def _print(names: tuple[str, ...], as_json: bool) -> None:
    from datetime import date

    from ownlab.catalog.platforms import choose_platforms, list_platforms

    platforms = choose_platforms(",".join(names)) if names else None
    if as_json:
        from ownlab.show.document import echo_record

        echo_record(list_platforms(platforms))
        return
    from ownlab.show.terminal.clouds import show_platform, show_platforms
    from ownlab.show.terminal.console import console

    out = console()
    if platforms is None:
        show_platforms(out, date.today())
        return
    for number, platform in enumerate(platforms):
        if number:
            out.print()
        show_platform(platform, out, date.today())


@command.command("cost")
@question_options
@json_option
def _cost(**given: Any) -> None:
    """Say what a job costs on each platform, in how many sessions, and over how many days.

    How long it takes: --fit REPORT.json --steps N, or --hours 20 --on T4, or --step-seconds 0.12 --steps N --on T4.

    Exit code: 0 there is an offer for it; 1 there is none.
    """
    from ownlab.catalog.cards import choose_cards
    from ownlab.catalog.platforms import choose_platforms
    from ownlab.instruments.advise.advising import advise

    question = asked_question(given)
    if question.basis is None:
        raise UsageError(
            "how long does the job take?",
            hint="--fit REPORT.json --steps N, or --hours 20 --on T4: ownlab clouds cost --help",
        )
    advice = advise(
        question,
        cards=None if given["cards"] is None else choose_cards(given["cards"]),
        platforms=None if given["platforms"] is None else choose_platforms(given["platforms"]),
    )
    if given["as_json"]:
        from ownlab.show.document import echo_record

        echo_record(advice)
    else:
        from ownlab.show.terminal.advice import show_cost
        from ownlab.show.terminal.console import console

        show_cost(advice, console(), everything=given["everything"])
    click.get_current_context().exit(0 if advice.stays else 1)
