"""`ownlab gpus advise`: which card, for this job and this money; and the options that `ownlab clouds cost` shares with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ownlab.cli.options import json_option
from ownlab.errors import UsageError

if TYPE_CHECKING:
    from ownlab.instruments.advise.records import Question

__all__ = ["command", "cost_command"]

F = TypeVar("F", bound=Callable[..., Any])
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16", "fp8")
_WORKLOADS = ("vision", "transformer", "recurrent", "decoding")
_QUESTION = (
    click.option(
        "--fit", metavar="FILE", help="A report of `ownlab fit --json`: its memory, its least time. - is stdin."
    ),
    click.option(
        "--model-memory", metavar="SIZE", help="What the job takes of a card, where there is no report: 18GiB."
    ),
    click.option("--workload", type=click.Choice(_WORKLOADS), help="The kind of work; decoding: tokens one by one."),
    click.option("--precision", type=click.Choice(_PRECISIONS), help="Cards without units for it are left out."),
    click.option("--steps", type=click.IntRange(min=1), metavar="N", help="How many steps the job has (with --fit)."),
    click.option("--hours", type=float, metavar="H", help="How long the job takes on the card of --on."),
    click.option(
        "--step-seconds", type=float, metavar="S", help="How long a step takes on the card of --on, measured."
    ),
    click.option("--on", metavar="CARD", help="The card on which that is so."),
    click.option(
        "--bench", metavar="NAME", help="A result of `ownlab bench`, for the share of the peak that is reached."
    ),
    click.option("--budget", type=float, metavar="USD", help="At most so much money."),
    click.option("--hours-per-day", type=float, metavar="H", help="So long it can run each day; else day and night."),
    click.option("--cards", metavar="LIST", help="Only these: h200,4090."),
    click.option("--platforms", metavar="LIST", help="Only these: kaggle,colab."),
    click.option("--all", "everything", is_flag=True, help="Show every row."),
)


def question_options(function: F) -> F:
    """The job, as both commands ask for it."""
    for option in reversed(_QUESTION):
        function = option(function)
    return function


def asked_question(given: dict[str, Any]) -> Question:
    """The question that the options mean."""
    from ownlab.instruments.advise.question import Wishes, question_of

    return question_of(Wishes(**{name: given[name] for name in Wishes._fields}))


@click.command("advise")
@question_options
@json_option
def command(**given: Any) -> None:
    """Say which cards hold a job, how long each takes, what it costs to buy or to rent, and why.

    The job: --fit REPORT.json (from `ownlab fit … --json`), or --model-memory 18GiB. How long it takes: --steps with the
    report, or --hours 20 --on T4. Every figure comes with what it rests on.

    Exit code: 0 there is a card for it; 1 there is none.
    """
    from ownlab.catalog.cards import choose_cards
    from ownlab.catalog.platforms import choose_platforms
    from ownlab.instruments.advise.pipeline import advise

    advice = advise(
        asked_question(given),
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
    """Say what a job costs on each platform, in how many sessions, and over how many days.

    How long it takes: --fit REPORT.json --steps N, or --hours 20 --on T4, or --step-seconds 0.12 --steps N --on T4.

    Exit code: 0 there is an offer for it; 1 there is none.
    """
    from ownlab.catalog.cards import choose_cards
    from ownlab.catalog.platforms import choose_platforms
    from ownlab.instruments.advise.pipeline import advise

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
        from ownlab.render.documents import echo_record

        echo_record(advice)
    else:
        from ownlab.instruments.advise.terminal import show_cost
        from ownlab.render.console import console

        show_cost(advice, console(), everything=given["everything"])
    click.get_current_context().exit(0 if advice.stays else 1)
