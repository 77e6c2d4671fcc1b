"""The commands `ownlab gpus advise` (which card for a job) and `ownlab clouds cost` (what a job costs on each platform)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ownlab.cli.options import json_option
from ownlab.errors import UsageError
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.instruments.advise.records import Question

__all__ = ["command", "cost_command"]

F = TypeVar("F", bound=Callable[..., Any])
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16", "fp8")
_WORKLOADS = ("vision", "transformer", "recurrent", "decoding")
_OPTIONS = (
    click.option(
        "--fit",
        metavar="FILE",
        help="A report of `ownlab fit --json`: memory, and the least time of a step. - reads stdin.",
    ),
    click.option("--model-memory", metavar="SIZE", help="GPU memory that the job takes, if there is no report: 18GiB."),
    click.option("--workload", type=click.Choice(_WORKLOADS), help="Kind of work; decoding: one token at a time."),
    click.option("--precision", type=click.Choice(_PRECISIONS), help="Leave out cards without units for it."),
    click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Number of steps of the job (with --fit)."),
    click.option("--hours", type=float, metavar="H", help="Duration of the job on the card given with --on."),
    click.option("--step-seconds", type=float, metavar="S", help="Measured duration of a step on the card of --on."),
    click.option("--on", metavar="CARD", help="The card to which --hours or --step-seconds refers."),
    click.option(
        "--bench", metavar="NAME", help="A result of `ownlab bench`: the share of the peak that your machine reaches."
    ),
    click.option("--budget", type=float, metavar="USD", help="Maximum cost."),
    click.option("--hours-per-day", type=float, metavar="H", help="How long the job can run each day.  [default: 24]"),
    click.option(
        "--count",
        "card_count",
        type=click.Choice(("1", "2", "4", "8")),
        default="1",
        help="Cards of one machine that the job uses, data-parallel.",
    ),
    click.option("--cards", metavar="LIST", help="Only these cards: h200,4090."),
    click.option("--platforms", metavar="LIST", help="Only these platforms: kaggle,colab."),
    click.option("--all", "everything", is_flag=True, help="Show every row."),
)


def question_options(function: F) -> F:
    """Add the options that describe the job, which both commands share."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _question(given: dict[str, Any]) -> Question:
    from ownlab.instruments.advise.question import AdviseOptions, build_question

    given = given | {"card_count": int(given["card_count"])}
    return build_question(AdviseOptions(**{name: given[name] for name in AdviseOptions._fields}))


@click.command("advise")
@question_options
@json_option
def command(**given: Any) -> None:
    """Show which cards fit a job, how long each takes, and what it costs to buy or to rent.

    Describe the job with --fit REPORT.json (from `ownlab fit … --json`) or --model-memory 18GiB. Give its duration with
    --steps and a report, or with --hours 20 --on T4. The answer lists the assumptions behind its numbers.

    \b
    ownlab gpus advise --model-memory 18GiB --hours 20 --on T4
    ownlab gpus advise --fit fit.json --steps 20000 --budget 100

    Exit code: 0 at least one card fits; 1 none does.
    """
    from ownlab.catalog.cards import choose_cards
    from ownlab.catalog.platforms import choose_platforms
    from ownlab.instruments.advise.pipeline import advise

    advice = advise(
        _question(given),
        cards=None if given["cards"] is None else choose_cards(given["cards"]),
        platforms=None if given["platforms"] is None else choose_platforms(given["platforms"]),
        buying=True,
    )
    if given["as_json"]:
        from ownlab.render.documents import echo_record

        echo_record(advice)
    else:
        from ownlab.instruments.advise.terminal import show_advice
        from ownlab.render.console import console

        show_advice(advice, console(), everything=given["everything"])
    click.get_current_context().exit(0 if any(card.usable for card in advice.cards) else 1)


@click.command("cost")
@question_options
@json_option
def cost_command(**given: Any) -> None:
    """Compare what a job costs on each platform, in how many sessions, and over how many days.

    Give its duration with --fit REPORT.json --steps N, with --hours 20 --on T4, or with --step-seconds 0.12 --steps N
    --on T4.

    \b
    ownlab clouds cost --hours 20 --on T4
    ownlab fit net.py:build --cards T4,A100 --json > fit.json
    ownlab clouds cost --fit fit.json --steps 20000

    Exit code: 0 at least one offer fits; 1 none does.
    """
    from ownlab.catalog.cards import choose_cards
    from ownlab.catalog.platforms import choose_platforms
    from ownlab.instruments.advise.pipeline import advise

    question = _question(given)
    if question.basis is None:
        raise UsageError(
            text("Missing option: the duration of the job."),
            hint=text("Add --fit REPORT.json --steps N, or --hours 20 --on T4. See: ownlab clouds cost --help"),
        )
    advice = advise(
        question,
        cards=None if given["cards"] is None else choose_cards(given["cards"]),
        platforms=None if given["platforms"] is None else choose_platforms(given["platforms"]),
    )
    if given["as_json"]:
        from ownlab.render.documents import echo_record

        echo_record(advice)
    else:
        from ownlab.instruments.advise.terminal import show_cost
        from ownlab.render.console import console

        show_cost(advice, console(), everything=given["everything"])
    click.get_current_context().exit(0 if advice.rentals else 1)
