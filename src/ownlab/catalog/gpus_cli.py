"""The command `ownlab gpus`: specifications of cards with their sources, the ladder, and updates of the figures."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ownlab.cli.lazy_group import prepare
from ownlab.cli.options import json_option
from ownlab.errors import UsageError
from ownlab.input_files import decode_utf8, read_text
from ownlab.text import plural, text

if TYPE_CHECKING:
    from ownlab.catalog.card_speeds import Workload
    from ownlab.catalog.cards import Card
    from ownlab.catalog.gpu_ladder import Order

__all__ = ["command"]

_WORKLOADS = ("vision", "transformer", "recurrent", "decoding")
_SHOW = "show"


class _Gpus(click.Group):
    """A word that is not a command is a card: `ownlab gpus h200`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((word for word in args if not word.startswith("-")), None)
        if first in self.list_commands(ctx):
            rest = list(args)
            rest.remove(first)
            args = [first, *rest]  # `ownlab gpus --json ladder` means `ownlab gpus ladder --json`
        elif not {"-h", "--help"} & set(args):
            args = [_SHOW, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "advise"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "advise":
            advise: click.Command = importlib.import_module("ownlab.instruments.advise.cli").command
            return prepare(advise)
        return super().get_command(ctx, cmd_name)


@click.group("gpus", cls=_Gpus, subcommand_metavar="[NAME]... | COMMAND [ARGS]...")
@json_option
def command(as_json: bool) -> None:  # each subcommand has its own --json
    """Show the specifications of cards; with a NAME in full, with the source of each figure.

    Figures describe one device as programs see it. Rates are dense, and tensor rates accumulate in fp32.

    \b
    ownlab gpus                     all cards
    ownlab gpus a100 4090           these cards in full
    ownlab gpus ladder              cards ranked by speed
    """


@command.command(_SHOW, hidden=True)
@click.argument("names", nargs=-1)
@json_option
def show(names: tuple[str, ...], as_json: bool) -> None:
    """Show all cards, or these in full.

    \b
    ownlab gpus show a100 4090
    """
    from ownlab.catalog.gpu_ladder import list_cards

    cards = _choose(",".join(names) if names else None)
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
@click.option(
    "--workload", type=click.Choice(_WORKLOADS), default="transformer", help="Kind of work.  [default: transformer]"
)
@click.option(
    "--by",
    "order",
    type=click.Choice(("speed", "price", "watt")),
    default="speed",
    help="Rank by speed, speed per price, or speed per watt.  [default: speed]",
)
@click.option("--cards", "names", metavar="LIST", help="Only these cards: a100,4090,t4.")
@click.option(
    "--count",
    type=click.Choice(("1", "2", "4", "8")),
    default="1",
    help="Cards in one machine: published results only.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Save a chart as FILE.png, .svg or .html.",
)
@click.option("--machine", metavar="FILE", help="Mark the cards of this saved machine instead of this computer's.")
@json_option
def ladder(
    workload: Workload,
    order: Order,
    names: str | None,
    count: str,
    plot: Path | None,
    machine: str | None,
    as_json: bool,
) -> None:
    """Show how fast cards are relative to a V100, by kind of work; the cards of this machine are marked.

    Speeds are measured where a measurement was published; otherwise they are computed from the rates, with their uncertainty.

    \b
    ownlab gpus ladder --cards a100,4090,t4
    ownlab gpus ladder --workload decoding --by price
    """
    from ownlab.catalog.gpu_ladder import rank
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.machine.installed_cards import own_cards

    cards = _choose(names)
    own = own_cards(resolve_machine_options(machine=machine))
    ranked = rank(cards, workload, order, own.known, own.unknown, int(count))
    if not ranked.rungs:
        first = ranked.left_out[0]
        raise UsageError(
            text("None of these cards can be ranked; {card}: {reason}.", card=first.card, reason=first.reason)
        )
    if plot is not None:
        from ownlab.catalog.ladder_chart import ladder_chart
        from ownlab.render.charts import save_chart

        save_chart(ladder_chart(ranked), plot)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(ranked)
        return
    from ownlab.catalog.gpus_terminal import show_ladder
    from ownlab.render.console import console

    show_ladder(ranked, console())
    if plot is not None:
        click.echo(text("Saved the chart as {path}.", path=plot))


@command.command("update")
@click.argument("source", required=False, metavar="FILE|URL")
@click.option("--reset", is_flag=True, help="Restore the figures that came with ownlab.")
@json_option
def update(source: str | None, reset: bool, as_json: bool) -> None:
    """Add newer figures from a file or an https address, after they have been checked.

    The file has the format of ownlab's own catalog/data/cards.toml. Cards of the same name are replaced, others are added.

    \b
    ownlab gpus update cards.toml
    ownlab gpus update --reset
    """
    from ownlab.catalog import card_update

    if reset == (source is not None):
        raise UsageError(
            text("Give a file, an address or --reset."), hint=text("For example: ownlab gpus update cards.toml")
        )
    done = card_update.reset() if source is None else card_update.update(_read(source))
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(done)
    elif done.as_of is None:
        click.echo(text("The figures are now those that came with ownlab."))
    else:
        click.echo(
            plural(
                done.cards,
                "Updated: one card ({date}), {new} new, {changed} changed.",
                "Updated: {n} cards ({date}), {new} new, {changed} changed.",
                date=done.as_of,
                new=len(done.new),
                changed=len(done.changed),
            )
        )


def _choose(names: str | None) -> tuple[Card, ...]:
    from ownlab.catalog.cards import choose_cards, load_cards

    if names is None:
        return load_cards()
    return choose_cards(names, sizes=False)


def _read(source: str) -> str:
    from ownlab.catalog.card_update import MAX_BYTES

    if "://" not in source:
        return read_text(source, max_bytes=MAX_BYTES)
    if not source.lower().startswith("https://"):
        raise UsageError(
            text("Only https addresses are accepted."), hint=text("Or download the file and pass its path.")
        )
    from ownlab.download import download

    return decode_utf8(download(source, max_bytes=MAX_BYTES).data, source)
