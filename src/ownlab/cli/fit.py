"""`ownlab fit`: will it fit, and how fast at best, before a GPU is rented."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ownlab.cli.options import json_option
from ownlab.errors import UsageError

if TYPE_CHECKING:
    from ownlab.instruments.fit.batch import Range
    from ownlab.instruments.fit.catalogue import Card
    from ownlab.instruments.fit.records import Fit, Request, Trace

__all__ = ["command"]

_OPTIMIZERS = "adamw, adam, sgd, adafactor, rmsprop …"
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")
_count = click.IntRange(min=1)
# Where the search for the biggest batch begins.
_START = 8


class Wishes(NamedTuple):
    """The options, by their names."""

    target: str | None
    train: bool
    optimizer: str
    fused: bool
    foreach: bool | None
    precision: str
    batch: str | None
    seq: int | None
    checkpointing: bool
    channels_last: bool
    accumulate: int
    steps: int
    cards: str | None
    remedies: bool
    allocator: str
    python: str | None
    deadline: float
    save: Path | None
    explain_oom: str | None
    as_json: bool


@click.command("fit")
@click.argument("target", required=False, metavar="FILE.py:build")
@click.option("--train/--infer", "train", default=True, help="A training step (the default), or inference.")
@click.option("--optimizer", default="adamw", metavar="NAME", help=f"Of training: {_OPTIMIZERS} Default: adamw.")
@click.option("--fused", is_flag=True, help="The optimizer's fused kernels.")
@click.option(
    "--foreach/--no-foreach", default=None, help="The optimizer's many-at-once form; torch's own choice else."
)
@click.option("--precision", type=click.Choice(_PRECISIONS), default="fp32", help="amp-…: under torch.autocast.")
@click.option(
    "--batch", metavar="N|A..B|max", help="Given to build(batch=N); max or a range: find the biggest that fits."
)
@click.option("--seq", type=_count, metavar="N", help="Given to build(seq=N).")
@click.option("--checkpointing", is_flag=True, help="The model's own gradient checkpointing.")
@click.option("--channels-last", is_flag=True, help="Images and weights of convolutions as NHWC.")
@click.option(
    "--accumulate", type=_count, default=1, metavar="N", help="So many batches for one step of the optimizer."
)
@click.option("--steps", type=click.IntRange(2, 20), default=3, metavar="N", help="How many steps are followed; 3.")
@click.option("--cards", metavar="LIST", help="Names and sizes: h200,4090,24GiB; `all` are all that are known.")
@click.option("--remedies", is_flag=True, help="Try on the model what makes it need less, and say what each saves.")
@click.option(
    "--allocator",
    default="",
    envvar=["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"],
    metavar="OPTIONS",
    help="Of torch's allocator, as in PYTORCH_ALLOC_CONF (which is heeded): expandable_segments:True.",
)
@click.option("--python", metavar="PATH", help="The Python that has torch. Default: the active environment.")
@click.option("--deadline", type=click.FloatRange(min=1), default=300.0, metavar="SECONDS", help="For one trace; 300.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw memory over the step into FILE.png, .svg or .html.",
)
@click.option(
    "--explain-oom", metavar="FILE", help="Explain a message that memory ran out: its text, a file, or - for stdin."
)
@json_option
def command(**given: Any) -> None:
    """Say how much GPU memory a model's step takes, which cards hold it, and how fast they could be at best.

    No GPU is needed, and no weights are made: build() is called in the Python that has torch, and its tensors have
    shapes but no numbers. build() returns (model, inputs) or (model, inputs, loss); it may take batch and seq. Also
    package.module:build, and hf:CONFIG.json for a transformers configuration.

    Exit code: 0 it fits at least one of the cards; 1 none; 2 wrong use; 3 the model could not be followed; 4 no torch.
    """
    wishes = Wishes(**given)
    if wishes.explain_oom is not None:
        _explain_oom(wishes)
        return
    if wishes.target is None:
        raise UsageError("what is to fit? Name a model", hint="ownlab fit FILE.py:build, or ownlab fit hf:config.json")
    fit = _fit(wishes)
    if wishes.save is not None:
        from ownlab.show.charts import save_chart
        from ownlab.show.memory_chart import memory_chart

        save_chart(memory_chart(fit), wishes.save)
    _show(fit, wishes)
    held = any(card.fits != "no" for card in fit.cards)
    click.get_current_context().exit(0 if held or not fit.cards else 1)


def _fit(wishes: Wishes) -> Fit:
    from msgspec.structs import replace

    from ownlab.instruments.fit.asking import ask_trace
    from ownlab.instruments.fit.cards import with_cards
    from ownlab.instruments.fit.catalogue import DEFAULT_CARDS, choose_cards, load_cards
    from ownlab.instruments.fit.policy import parse_policy
    from ownlab.instruments.fit.predict import predict
    from ownlab.options import resolve_machine_options
    from ownlab.show.terminal.console import working

    cards = load_cards() if wishes.cards == "all" else choose_cards(wishes.cards or DEFAULT_CARDS)
    number, within = _batch(wishes.batch)
    request = _request(wishes, number)
    parse_policy(wishes.allocator)  # what is wrong in it is said before anything starts
    python = resolve_machine_options(python=wishes.python).python

    def traced(asked: Request) -> Trace:
        return ask_trace(asked, python, deadline=wishes.deadline)

    def predicted(asked: Request) -> Fit:
        return predict(traced(asked), asked, wishes.allocator)

    with working("Following a few steps without a GPU"):
        trace = traced(request)
        fit = with_cards(predict(trace, request, wishes.allocator), trace, cards)
    if within is not None:
        with working("Looking for the biggest batch"):
            fit = _with_batches(fit, cards, within, predicted)
    if wishes.remedies:
        from ownlab.instruments.fit.pricing import price_remedies

        with working("Trying what makes it need less"):
            fit = replace(fit, remedies=price_remedies(fit, predicted))
    return fit


def _with_batches(fit: Fit, cards: tuple[Card, ...], within: Range, predicted: Callable[[Request], Fit]) -> Fit:
    from msgspec.structs import replace

    from ownlab.instruments.fit.batch import Batches, biggest_batch

    start = fit.request.batch
    assert start is not None

    def at(batch: int) -> Fit:
        return predicted(replace(fit.request, batch=batch))

    batches = Batches(at)
    batches.keep(start, fit)
    found = [biggest_batch(batches, card.memory_bytes, within, start) for card in cards]
    judged = [replace(card, biggest_batch=batch) for card, batch in zip(fit.cards, found, strict=True)]
    return replace(fit, cards=tuple(judged))


def _request(wishes: Wishes, batch: int | None) -> Request:
    from ownlab.instruments.fit.records import Request

    assert wishes.target is not None
    return Request(
        target=_absolute(wishes.target),
        batch=batch,
        **{
            name: getattr(wishes, name)
            for name in Request.__struct_fields__
            if name in Wishes._fields and name not in ("target", "batch")
        },
    )


def _absolute(target: str) -> str:
    """The guest runs elsewhere: files are named in full. A module's name stays as it is."""
    scheme = "hf:" if target.startswith("hf:") else ""
    path, colon, function = target.removeprefix(scheme).rpartition(":") if not scheme else (target[3:], "", "")
    if not scheme and (not colon or not path or not function):
        raise UsageError(
            f"{target!r} names no function", hint="Write FILE.py:build, package.module:build, or hf:CONFIG.json."
        )
    is_file = bool(scheme) or path.endswith(".py") or os.sep in path
    if is_file and not os.path.isfile(os.path.expanduser(path)):
        from ownlab.errors import InputError

        raise InputError(f"there is no file {path}")
    full = os.path.abspath(os.path.expanduser(path)) if is_file else path
    return f"{scheme}{full}{colon}{function}"


def _batch(asked: str | None) -> tuple[int | None, Range | None]:
    """A number, or what lies between two."""
    from ownlab.instruments.fit.batch import Range

    if asked is None:
        return None, None
    if asked == "max":
        return _START, Range()
    match = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", asked)
    if match is None or int(match[1]) < 1 or (match[2] and int(match[2]) < int(match[1])):
        raise UsageError(f"--batch {asked} is neither a number nor a range", hint="Write 8, 8..512 or max.")
    if match[2] is None:
        return int(match[1]), None
    return int(match[1]), Range(int(match[1]), int(match[2]))


def _show(fit: Fit, wishes: Wishes) -> None:
    if wishes.as_json:
        from ownlab.show.document import echo_record

        echo_record(fit)
        return
    from ownlab.show.terminal.console import console
    from ownlab.show.terminal.fit import show_fit

    show_fit(fit, console())
    if wishes.save is not None:
        click.echo(f"Drawn into {wishes.save}.")


def _explain_oom(wishes: Wishes) -> None:
    from ownlab.instruments.fit.oom import explain_argument

    assert wishes.explain_oom is not None
    answer = explain_argument(wishes.explain_oom)
    if wishes.as_json:
        from ownlab.show.document import echo_record

        echo_record(answer)
        return
    from ownlab.show.terminal.console import console
    from ownlab.show.terminal.oom import show_oom

    show_oom(answer, console())
