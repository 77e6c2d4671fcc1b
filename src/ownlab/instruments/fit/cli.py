"""`ownlab fit`: predict whether a model fits a GPU, and how fast it could be at best, before a GPU is rented."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from ownlab.cli.options import json_option
from ownlab.errors import InputError, UsageError
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.instruments.fit.records import Fit, MeasuredAlone, Request, Strategy, Trace

__all__ = ["command"]

_STRATEGIES = ("ddp", "zero1", "zero2", "zero3", "fsdp")
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")
_count = click.IntRange(min=1)
# Where the search for the biggest batch begins.
_FIRST_BATCH = 8


class FitOptions(NamedTuple):
    """The options of the command, by their names."""

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
    weights: str
    lora: str
    cards: str | None
    remedies: bool
    strategy: str | None
    world: int
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
@click.option("--train/--infer", "train", default=True, help="Predict a training step (the default), or inference.")
@click.option(
    "--optimizer",
    default="adamw",
    metavar="NAME",
    help="Optimizer of the training: adamw, adam, sgd, adafactor, rmsprop … Arguments as torch names them: "
    "sgd:momentum=0.9. Default: adamw.",
)
@click.option("--fused", is_flag=True, help="Use the fused kernels of the optimizer.")
@click.option(
    "--foreach/--no-foreach", default=None, help="Use the foreach kernels of the optimizer. Default: torch decides."
)
@click.option(
    "--precision", type=click.Choice(_PRECISIONS), default="fp32", help="Precision; amp-… runs under torch.autocast."
)
@click.option(
    "--batch", metavar="N|A..B|max", help="Passed as build(batch=N). max or a range: find the biggest batch that fits."
)
@click.option("--seq", type=_count, metavar="N", help="Passed as build(seq=N).")
@click.option("--checkpointing", is_flag=True, help="Turn on the gradient checkpointing of the model.")
@click.option("--channels-last", is_flag=True, help="Use the NHWC layout for images and convolution weights.")
@click.option("--accumulate", type=_count, default=1, metavar="N", help="Batches for each step of the optimizer.")
@click.option(
    "--steps", type=click.IntRange(2, 20), default=3, metavar="N", help="Number of steps to trace. Default: 3."
)
@click.option(
    "--weights",
    default="",
    metavar="FORMAT",
    help="Compute the weights in 4 or 8 bits: nf4, fp4, int8, fp8, gptq, awq. Arguments: nf4:double=true, "
    "gptq:bits=8,group=32.",
)
@click.option(
    "--lora",
    default="",
    metavar="ARGUMENTS",
    help="Train LoRA adapters only, as peft makes them: r=16,targets=q_proj,v_proj. Default targets: all-linear.",
)
@click.option("--cards", metavar="LIST", help="Cards by name or size: h200,4090,24GiB; `all` for every known card.")
@click.option("--remedies", is_flag=True, help="Try what reduces memory on this model, and report what each saves.")
@click.option(
    "--strategy", type=click.Choice(_STRATEGIES), help="Compute what each of --world cards holds: DDP, ZeRO or FSDP."
)
@click.option("--world", type=click.IntRange(min=2), default=2, metavar="N", help="Number of cards of --strategy; 2.")
@click.option(
    "--allocator",
    default="",
    envvar=["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"],
    metavar="OPTIONS",
    help="Settings of torch's allocator, such as expandable_segments:True. Default: PYTORCH_ALLOC_CONF.",
)
@click.option("--python", metavar="PATH", help="The Python that has torch. Default: the active environment.")
@click.option(
    "--deadline", type=click.FloatRange(min=1), default=300.0, metavar="SECONDS", help="Limit for one trace; 300."
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw memory over the step into FILE.png, .svg or .html.",
)
@click.option(
    "--decode", type=_count, metavar="N", help="With --infer: generate N tokens after the prompt, with their KV cache."
)
@click.option(
    "--measure", is_flag=True, help="Also run the real step here. With --batch max: find the biggest batch that runs."
)
@click.option(
    "--calibrate", is_flag=True, help="Measure what CUDA takes on this card. Later predictions for this card use it."
)
@click.option(
    "--explain-oom", metavar="FILE", help="Explain an out-of-memory message: its text, a file, or - for stdin."
)
@json_option
def command(**given: Any) -> None:
    """Predict how much GPU memory a step of a model takes, which cards hold it, and how fast it could be at best.

    This needs no GPU and allocates no weights: build() runs in the Python that has torch, with tensors that have
    shapes but no data. build() returns (model, inputs) or (model, inputs, loss), and may take batch and seq. The
    target can also be package.module:build, or hf:CONFIG.json for a transformers configuration.

    \b
    ownlab fit net.py:build --cards T4,4090
    ownlab fit net.py:build --cards T4 --batch max
    ownlab fit hf:config.json --precision bf16 --optimizer adamw

    Exit code: 0 it fits at least one of the cards; 1 it fits none; 2 wrong usage; 3 the model cannot be traced; 4 no torch.
    """
    options = FitOptions(**given)
    if options.explain_oom is not None:
        _explain_oom(options, options.explain_oom)
        return
    if options.calibrate:
        _calibrate(options)
        return
    if options.target is None:
        raise UsageError(
            text("Missing argument: the model to fit."),
            hint=text("For example: ownlab fit FILE.py:build, or ownlab fit hf:config.json"),
        )
    if options.save is not None:
        from ownlab.render.charts import check_chart_file

        check_chart_file(options.save)  # before a trace of minutes
    from ownlab.instruments.fit.records import MeasuredAlone

    fit = _fit(options, options.target)
    if isinstance(fit, MeasuredAlone):
        _show_alone(fit, options)
        click.get_current_context().exit(0 if fit.measured.out_of_memory is None else 1)
    if options.save is not None:
        from ownlab.instruments.fit.memory_chart import memory_chart
        from ownlab.render.charts import save_chart

        save_chart(memory_chart(fit), options.save)
    _show(fit, options)
    click.get_current_context().exit(0 if _fits(fit) else 1)


def _fits(fit: Fit) -> bool:
    """Whether the step fits: by the measurement where there is one, else by the prediction for the cards."""
    if fit.biggest is not None and fit.biggest.batch is None:
        return False
    if fit.measured is not None and fit.measured.memory is not None:
        return fit.measured.out_of_memory is None
    ran_out = fit.measured is not None and fit.measured.out_of_memory is not None
    if fit.sharing is not None and fit.cards:
        return bool(fit.sharing.fits)
    return not ran_out and (not fit.cards or any(card.fits != "no" for card in fit.cards))


def _fit(options: FitOptions, target: str) -> Fit | MeasuredAlone:
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.fit.guest_client import ask_trace
    from ownlab.instruments.fit.pipeline import parse_batch, parse_goals, predict_fit, with_decoding
    from ownlab.instruments.fit.records import MeasuredAlone
    from ownlab.render.console import working

    if options.decode is not None and options.train:
        raise UsageError(text("--decode requires inference."), hint=text("Add --infer."))
    if options.measure and options.weights:
        raise UsageError(text("--weights is computed: it cannot be combined with --measure."))
    batch, batches = parse_batch(options.batch, _FIRST_BATCH)
    goals = parse_goals(options.cards, batches, remedies=options.remedies, allocator=options.allocator)
    if options.decode is not None:
        goals = goals._replace(calibrations=())  # cards are then judged by the last token as well
    if options.strategy is not None:
        if options.measure or options.decode is not None:
            raise UsageError(text("--strategy is computed: it cannot be combined with --measure or --decode."))
        goals = goals._replace(strategy=cast("Strategy", options.strategy), world=options.world)
    request = _request(options, target, batch)
    python = resolve_machine_options(python=options.python).python

    def trace_step(step: Request) -> Trace:
        return ask_trace(step, python, deadline=options.deadline)

    fit: Fit | MeasuredAlone
    if options.measure:
        from ownlab.instruments.fit.measurement import Experiment

        fit = Experiment(python, options.deadline, working, options.decode or 0).run(request, goals)
    else:
        fit = predict_fit(request, trace_step, goals, working)
    if options.decode is None or isinstance(fit, MeasuredAlone):
        return fit
    with working(text("Tracing the last token")):
        return with_decoding(fit, options.decode, goals, python, deadline=options.deadline)


def _request(options: FitOptions, target: str, batch: int | None) -> Request:
    from ownlab.instruments.fit.records import Request

    return Request(
        target=_absolute(target),
        batch=batch,
        **{
            name: getattr(options, name)
            for name in Request.__struct_fields__
            if name in FitOptions._fields and name not in ("target", "batch")
        },
    )


def _absolute(target: str) -> str:
    """Return the target with an absolute path: the guest runs in another folder. Module names stay as they are."""
    scheme = "hf:" if target.startswith("hf:") else ""
    path, colon, function = target.removeprefix(scheme).rpartition(":") if not scheme else (target[3:], "", "")
    if not scheme and (not colon or not path or not function):
        raise UsageError(
            text("{target} does not name a function.", target=repr(target)),
            hint=text("Write FILE.py:build, package.module:build, or hf:CONFIG.json."),
        )
    is_file = bool(scheme) or path.endswith(".py") or os.sep in path
    if is_file and not os.path.isfile(os.path.expanduser(path)):
        raise InputError(text("There is no file {path}.", path=path))
    full = os.path.abspath(os.path.expanduser(path)) if is_file else path
    return f"{scheme}{full}{colon}{function}"


def _show(fit: Fit, options: FitOptions) -> None:
    if options.as_json:
        from ownlab.render.documents import echo_record

        echo_record(fit)
        return
    from ownlab.instruments.fit.measurement_terminal import show_measured
    from ownlab.instruments.fit.terminal import show_fit
    from ownlab.render.console import console

    show_fit(fit, console())
    show_measured(fit, console())
    if options.save is not None:
        click.echo(text("Chart saved to {path}.", path=options.save))


def _show_alone(alone: MeasuredAlone, options: FitOptions) -> None:
    if options.as_json:
        from ownlab.render.documents import echo_record

        echo_record(alone)
        return
    from ownlab.instruments.fit.measurement_terminal import show_alone
    from ownlab.render.console import console

    show_alone(alone, console())


def _calibrate(options: FitOptions) -> None:
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.fit.calibration import save_calibration
    from ownlab.instruments.fit.calibration_run import calibrate
    from ownlab.render.console import console, working

    python = resolve_machine_options(python=options.python).python
    with working(text("Measuring what CUDA takes on this card")):
        calibration = calibrate(python, deadline=options.deadline)
    path = save_calibration(calibration)
    if options.as_json:
        from ownlab.render.documents import echo_record

        echo_record(calibration)
        return
    from ownlab.instruments.fit.measurement_terminal import show_calibration

    show_calibration(calibration, console())
    click.echo(text("Saved to {path}. Predictions for this card use it.", path=path))


def _explain_oom(options: FitOptions, argument: str) -> None:
    from ownlab.instruments.fit.oom import explain_argument

    explanation = explain_argument(argument)
    if options.as_json:
        from ownlab.render.documents import echo_record

        echo_record(explanation)
        return
    from ownlab.instruments.fit.oom_terminal import show_oom
    from ownlab.render.console import console

    show_oom(explanation, console())
