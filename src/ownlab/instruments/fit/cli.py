"""`ownlab fit`: will it fit, and how fast at best, before a GPU is rented."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ownlab.cli.options import json_option
from ownlab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ownlab.instruments.fit.pipeline import Wanted
    from ownlab.instruments.fit.records import Fit, MeasuredAlone, Request, Trace

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
    measure: bool
    decode: int | None
    calibrate: bool
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
    "--decode", type=_count, metavar="N", help="With --infer: N new tokens after the prompt, and their cache."
)
@click.option(
    "--measure", is_flag=True, help="Run the real step here as well; --batch max: find the biggest that runs."
)
@click.option("--calibrate", is_flag=True, help="Measure what CUDA takes on this card; predictions for it use that.")
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
    if wishes.calibrate:
        _calibrate(wishes)
        return
    if wishes.target is None:
        raise UsageError("what is to fit? Name a model", hint="ownlab fit FILE.py:build, or ownlab fit hf:config.json")
    from ownlab.instruments.fit.records import MeasuredAlone

    found = _fit(wishes)
    if isinstance(found, MeasuredAlone):
        _show_alone(found, wishes)
        click.get_current_context().exit(0 if found.measured.out_of_memory is None else 1)
    if wishes.save is not None:
        from ownlab.instruments.fit.memory_chart import memory_chart
        from ownlab.render.charts import save_chart

        save_chart(memory_chart(found), wishes.save)
    _show(found, wishes)
    click.get_current_context().exit(0 if _holds(found) else 1)


def _holds(fit: Fit) -> bool:
    """What was measured counts, where something was; else whether a card is predicted to hold it."""
    if fit.biggest is not None and fit.biggest.batch is None:
        return False
    if fit.measured is not None and fit.measured.memory is not None:
        return fit.measured.out_of_memory is None
    ran_out = fit.measured is not None and fit.measured.out_of_memory is not None
    return not ran_out and (not fit.cards or any(card.fits != "no" for card in fit.cards))


def _fit(wishes: Wishes) -> Fit | MeasuredAlone:
    from ownlab.config.target import resolve_machine_options
    from ownlab.instruments.fit.guest_client import ask_trace
    from ownlab.instruments.fit.pipeline import answer, parse_batch, wanted
    from ownlab.render.console import working

    if wishes.decode is not None and wishes.train:
        raise UsageError("--decode is for inference", hint="Add --infer.")
    number, within = parse_batch(wishes.batch, _START)
    wants = wanted(wishes.cards, within, remedies=wishes.remedies, allocator=wishes.allocator)
    request = _request(wishes, number)
    python = resolve_machine_options(python=wishes.python).python

    def traced(asked: Request) -> Trace:
        return ask_trace(asked, python, deadline=wishes.deadline)

    if not wishes.measure:
        return _completed(answer(request, traced, wants, working), wants, traced, wishes, python)
    from ownlab.instruments.fit.measurement import Experiment
    from ownlab.instruments.fit.records import MeasuredAlone

    found = Experiment(python, wishes.deadline, working, wishes.decode or 0).run(request, wants)
    return found if isinstance(found, MeasuredAlone) else _completed(found, wants, traced, wishes, python)


def _completed(fit: Fit, wants: Wanted, traced: Callable[[Request], Trace], wishes: Wishes, python: str) -> Fit:
    """With the cache of decoding, and by what was measured on cards of this person."""
    from ownlab.instruments.fit.calibration import load_calibrations
    from ownlab.instruments.fit.pipeline import with_calibrations
    from ownlab.render.console import working

    if wishes.decode is not None:
        from ownlab.instruments.fit.pipeline import with_decoding

        with working("Following the last token"):
            fit = with_decoding(fit, wishes.decode, wants, python, deadline=wishes.deadline)
    known = load_calibrations()
    return with_calibrations(fit, wants.cards, traced, known) if known and not (fit.biggest or fit.decoding) else fit


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


def _show(fit: Fit, wishes: Wishes) -> None:
    if wishes.as_json:
        from ownlab.render.documents import echo_record

        echo_record(fit)
        return
    from ownlab.instruments.fit.measurement_terminal import show_measured
    from ownlab.instruments.fit.terminal import show_fit
    from ownlab.render.console import console

    show_fit(fit, console())
    show_measured(fit, console())
    if wishes.save is not None:
        click.echo(f"Drawn into {wishes.save}.")


def _show_alone(alone: MeasuredAlone, wishes: Wishes) -> None:
    if wishes.as_json:
        from ownlab.render.documents import echo_record

        echo_record(alone)
        return
    from ownlab.instruments.fit.measurement_terminal import show_alone
    from ownlab.render.console import console

    show_alone(alone, console())


def _calibrate(wishes: Wishes) -> None:
    from ownlab.config.target import resolve_machine_options
    from ownlab.instruments.fit.calibration import save
    from ownlab.instruments.fit.calibration_run import calibrate
    from ownlab.render.console import console, working

    python = resolve_machine_options(python=wishes.python).python
    with working("Measuring what CUDA takes on this card"):
        found = calibrate(python, deadline=wishes.deadline)
    path = save(found)
    if wishes.as_json:
        from ownlab.render.documents import echo_record

        echo_record(found)
        return
    from ownlab.instruments.fit.measurement_terminal import show_calibration

    show_calibration(found, console())
    click.echo(f"Kept in {path}; predictions for this card use it.")


def _explain_oom(wishes: Wishes) -> None:
    from ownlab.instruments.fit.oom import explain_argument

    assert wishes.explain_oom is not None
    answer = explain_argument(wishes.explain_oom)
    if wishes.as_json:
        from ownlab.render.documents import echo_record

        echo_record(answer)
        return
    from ownlab.instruments.fit.oom_terminal import show_oom
    from ownlab.render.console import console

    show_oom(answer, console())
