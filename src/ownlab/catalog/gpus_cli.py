"""`ownlab gpus`: what each card can do, with sources; the ladder; newer figures."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ownlab.cli.options import json_option
from ownlab.errors import InputError, UsageError

if TYPE_CHECKING:
    from ownlab.catalog.card_speeds import Workload
    from ownlab.catalog.cards import Card
    from ownlab.catalog.ladder import Order

__all__ = ["command"]

_WORKLOADS = ("vision", "transformer", "recurrent", "decoding")
_SHOW = "show"


class _Gpus(click.Group):
    """What is no command is a card: `ownlab gpus h200`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((word for word in args if not word.startswith("-")), None)
        if first in self.list_commands(ctx):
            rest = list(args)
            rest.remove(first)
            args = [first, *rest]  # `ownlab gpus --json ladder` is as good as `ownlab gpus ladder --json`
        elif not {"-h", "--help"} & set(args):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "advise"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "advise":
            found: click.Command = importlib.import_module("ownlab.instruments.advise.cli").command
            return found
        return super().get_command(ctx, cmd_name)


@click.group("gpus", cls=_Gpus, subcommand_metavar="[NAME]... | COMMAND [ARGS]...")
@json_option
def command(as_json: bool) -> None:  # every command below has --json itself, and is given it
    """Show what cards there are and what each can do; of a NAME everything, with the source of each figure.

    Figures are of one device as programs see it; rates are dense, and tensor rates add up in fp32.

    \b
    ownlab gpus                     all of them
    ownlab gpus a100 4090           these, in full
    ownlab gpus ladder              how fast they are beside each other
    """


@command.command(_SHOW, hidden=True)
@click.argument("names", nargs=-1)
@json_option
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Show the cards, or some in full."""
    from ownlab.catalog.ladder import list_cards

    cards = _chosen(",".join(names) if names else None)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(list_cards(cards))
        return
    from ownlab.catalog.gpus_terminal import show_card, show_cards
    from ownlab.render.console import console

    if not names:
        show_cards(cards, console())
        return
    for number, card in enumerate(cards):
        if number:
            click.echo()
        show_card(card, console())


@command.command("ladder")
@click.option("--workload", type=click.Choice(_WORKLOADS), default="transformer", help="Default: transformer.")
@click.option(
    "--by",
    "order",
    type=click.Choice(("speed", "price", "watt")),
    default="speed",
    help="Speed, or speed for the money, or for the power.",
)
@click.option("--cards", "asked", metavar="LIST", help="Only these: a100,4090,t4.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw it into FILE.png, .svg or .html.",
)
@click.option("--machine", metavar="FILE", help="A saved machine whose card is marked instead of this one's.")
@json_option
def ladder(
    workload: Workload, order: Order, asked: str | None, plot: Path | None, machine: str | None, as_json: bool
) -> None:
    """Show how fast cards are beside a V100, by kind of work; this machine's own are marked.

    Measured speeds where somebody measured them, else computed from the rates, with the span in which they may lie.
    """
    from ownlab.catalog.ladder import rank
    from ownlab.config.target import resolve_machine_options
    from ownlab.machine.installed_cards import own_cards

    cards = _chosen(asked)
    own = own_cards(resolve_machine_options(machine=machine))
    found = rank(cards, workload, order, own.known, own.unknown)
    if not found.rungs:
        raise UsageError(f"of none of these cards it can be said: {found.left_out[0].card}: {found.left_out[0].reason}")
    if plot is not None:
        from ownlab.catalog.ladder_chart import ladder_chart
        from ownlab.render.charts import save_chart

        save_chart(ladder_chart(found), plot)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(found)
        return
    from ownlab.catalog.gpus_terminal import show_ladder
    from ownlab.render.console import console

    show_ladder(found, console())
    if plot is not None:
        click.echo(f"Drawn into {plot}.")


@command.command("update")
@click.argument("source", required=False, metavar="FILE|URL")
@click.option("--reset", is_flag=True, help="Go back to the figures that came with ownlab.")
@json_option
def update(source: str | None, reset: bool, as_json: bool) -> None:
    """Take newer figures from a file, or from an https address, once they have been checked.

    The file is written as ownlab's own catalog/data/cards.toml: cards of the same name are replaced, others are added.
    """
    from ownlab.catalog.card_update import accept, forget

    if reset == (source is not None):
        raise UsageError("name a file or an address, or --reset", hint="ownlab gpus update cards.toml")
    done = forget() if source is None else accept(_read(source))
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(done)
    elif done.as_of is None:
        click.echo("The figures are those that came with ownlab.")
    else:
        cards = "one card" if done.cards == 1 else f"{done.cards} cards"
        click.echo(f"Taken: {cards} of {done.as_of}, {len(done.new)} new, {len(done.changed)} changed.")


def _chosen(asked: str | None) -> tuple[Card, ...]:
    from ownlab.catalog.cards import choose_cards, load_cards

    if asked is None:
        return load_cards()
    return choose_cards(asked, sizes=False)


def _read(source: str) -> str:
    from ownlab.catalog.card_update import LARGEST

    try:
        if "://" in source:
            if not source.lower().startswith("https://"):
                raise UsageError("figures are taken by https alone", hint="Or download the file, and name that.")
            from ownlab.download import download

            return download(source, max_bytes=LARGEST).data.decode()
        with open(source, "rb") as file:
            data = file.read(LARGEST + 1)  # a pipe, or a device, has no size to look at
        if len(data) > LARGEST:
            raise InputError(f"{source} is larger than {LARGEST / 2**20:g} MB, which no catalogue should be")
        return data.decode("utf-8-sig")
    except OSError as exc:
        raise InputError(f"cannot read {source}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InputError(f"{source} is no text") from exc
