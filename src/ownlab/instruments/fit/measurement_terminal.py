"""`ownlab fit --measure`, `--decode` and `--calibrate` in the terminal: predicted beside measured, times, trials, the cache."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text as RichText

from ownlab.instruments.fit.calibration import Calibration
from ownlab.instruments.fit.memory_chart import PHASES
from ownlab.instruments.fit.records import BiggestBatch, Decoding, Fit, Measured, MeasuredAlone, MeasuredMemory, Spread
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right
from ownlab.text import facts, plural, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["show_alone", "show_calibration", "show_measured"]

_LABEL = 22
_SAME = 0.001  # relative differences below this are not shown
# The allocator's history does not separate what libraries take inside an operation from other temporary memory.
_PARTS = {
    text("weights"): ("weights",),
    text("optimizer"): ("optimizer",),
    text("inputs"): ("inputs",),
    text("gradients"): ("gradients",),
    text("activations"): ("activations",),
    text("temporary, libraries"): ("temporary", "workspace"),
}


def show_measured(fit: Fit, out: Console) -> None:
    """Print what `--measure` and `--decode` add to a prediction, if they were asked for."""
    if fit.decoding is not None:
        _show_decoding(fit.decoding, out)
    if fit.biggest is not None:
        _show_biggest(fit.biggest, out)
    if fit.measured is not None:
        _show_run(fit, fit.measured, out)


def show_alone(alone: MeasuredAlone, out: Console) -> None:
    """Print the measurement of a step that could not be predicted."""
    heading = text("The step cannot be predicted: {reason}", reason=alone.why)
    labelled(out, "", RichText(heading, style="bold"), indent=0, width=0)
    measured = alone.measured
    _show_device(measured, out)
    memory = measured.memory
    if memory is not None:
        _line(out, text("memory"), _memory(memory))
        _show_phases(memory, out)
    _show_times(measured, out)


def _memory(memory: MeasuredMemory) -> str:
    allocated, reserved = format_bytes(memory.allocated_bytes), format_bytes(memory.reserved_bytes)
    if memory.device_bytes is None:
        return text("{allocated} allocated, {reserved} reserved", allocated=allocated, reserved=reserved)
    return text(
        "{allocated} allocated, {reserved} reserved, {device} on the card",
        allocated=allocated,
        reserved=reserved,
        device=format_bytes(memory.device_bytes),
    )


def _show_run(fit: Fit, measured: Measured, out: Console) -> None:
    _show_device(measured, out)
    if measured.memory is not None:
        _show_memory(fit, measured.memory, out)
    _show_times(measured, out)


def _show_device(measured: Measured, out: Console) -> None:
    device, torch = measured.device.name, measured.torch
    if measured.cuda:
        _heading(
            out,
            text("Measured on {device}, torch {torch}, CUDA {cuda}", device=device, torch=torch, cuda=measured.cuda),
        )
    else:
        _heading(out, text("Measured on {device}, torch {torch}", device=device, torch=torch))
    if measured.out_of_memory is not None:
        report = measured.out_of_memory
        _line(
            out,
            text("memory"),
            text(
                "out of memory in the {phase} phase of step {step}: {message}",
                phase=PHASES.get(report.phase, report.phase),
                step=report.step,
                message=report.message.splitlines()[0],
            ),
        )
        _line(out, "", text("ownlab fit --explain-oom explains such messages"))
    elif measured.memory is None:
        _line(
            out,
            text("memory"),
            text("not measured: the memory of a step on a CPU does not show what it takes on a card"),
        )


def _show_memory(fit: Fit, memory: MeasuredMemory, out: Console) -> None:
    head = f"  {' ' * _LABEL}{align_right(text('predicted'), 10)}{align_right(text('measured'), 12)}"
    out.print(RichText(head, style="dim"))
    _row(out, text("allocated"), fit.peak.allocated_bytes, memory.allocated_bytes)
    _row(out, text("reserved"), fit.peak.reserved_bytes, memory.reserved_bytes)
    if memory.device_bytes is not None:
        _row(out, text("on the card"), fit.peak.device_bytes, memory.device_bytes)
    else:
        _line(out, text("on the card"), text("not measured: {reason}", reason=memory.device_source))
    if memory.context_bytes is not None:
        _row(out, text("CUDA itself"), fit.parts.context, memory.context_bytes)
    if memory.parts is not None:
        for name, kinds in _PARTS.items():
            predicted = sum(getattr(fit.parts, kind) for kind in kinds)
            measured = sum(memory.parts.get(kind, 0) for kind in kinds)
            if predicted or measured:
                _row(out, f"  {name}", predicted, measured)
    else:
        _line(out, text("parts"), text("not measured: {reason}", reason=memory.parts_reason))
    _show_anomalies(fit, memory, out)


def _show_anomalies(fit: Fit, memory: MeasuredMemory, out: Console) -> None:
    _show_phases(memory, out)
    band = fit.band
    if not band.reserved_low_bytes <= memory.reserved_bytes <= band.reserved_high_bytes:
        _line(out, "", text("The reserved memory is outside the predicted band."))
    if memory.later_bytes is not None and memory.later_bytes > memory.reserved_bytes:
        _line(out, text("later"), text("{size} reserved, after more steps", size=format_bytes(memory.later_bytes)))
    if memory.retries:
        _line(
            out,
            "",
            plural(
                memory.retries,
                "The card was full: the allocator released its cache once.",
                "The card was full: the allocator released its cache {n} times.",
            ),
        )


def _show_phases(memory: MeasuredMemory, out: Console) -> None:
    peaks = facts(
        *(
            text("{size} {phase}", size=format_bytes(size), phase=PHASES.get(name, name))
            for name, size in memory.phases.items()
        )
    )
    _line(out, text("peaks by phase"), peaks)


def _row(out: Console, label: str, predicted: int, measured: int) -> None:
    error = predicted / measured - 1 if measured else 0.0
    shown = text("same") if abs(error) < _SAME else f"{error:+.1%}".replace("%", " %")
    line = f"  {align_left(label, _LABEL)}{align_right(format_bytes(predicted), 10)}{align_right(format_bytes(measured), 12)}  {shown}"
    out.print(RichText(line), no_wrap=True, overflow="ignore", crop=False)


def _show_times(measured: Measured, out: Console) -> None:
    if measured.steady is not None:
        _line(out, text("step time"), _spread(measured.steady))
    if measured.alone is not None:
        _line(out, text("latency") if measured.steady else text("step time"), _spread(measured.alone))
    if measured.per_second is not None:
        _line(out, text("throughput"), text("{rate} samples/s", rate=f"{measured.per_second:,.4g}"))
    step = measured.step_seconds
    if step is not None and measured.floor_seconds is not None:
        least, share = format_seconds(measured.floor_seconds), 100 * measured.floor_seconds / step
        _line(
            out,
            text("at best"),
            text(
                "{seconds} on this card: the step reaches {share} % of that speed", seconds=least, share=f"{share:.0f}"
            ),
        )
    if measured.decoding is not None:
        decoding = measured.decoding
        _line(out, text("prompt"), format_seconds(decoding.prompt_seconds))
        _line(out, text("token time"), _spread(decoding.token))
        _line(out, text("throughput"), text("{rate} tokens/s in total", rate=f"{decoding.tokens_per_second:,.4g}"))
        _line(out, text("cache"), format_bytes(decoding.cache_bytes))


def _spread(spread: Spread) -> str:
    return text(
        "{median} (p90 {p90}, p99 {p99}; {count} repetitions)",
        median=format_seconds(spread.median),
        p90=format_seconds(spread.p90),
        p99=format_seconds(spread.p99),
        count=spread.count,
    )


def _show_decoding(decoding: Decoding, out: Console) -> None:
    _heading(out, text("Decoding"))
    _line(out, text("cache"), text("{size} per new token of a sequence", size=format_bytes(decoding.bytes_per_token)))
    tokens = f"{decoding.prompt_tokens} + {decoding.new_tokens}"
    if decoding.batch > 1:
        tokens = f"{decoding.batch} × ({tokens})"
    _line(out, "", text("{size} for {tokens} tokens", size=format_bytes(decoding.cache_bytes), tokens=tokens))
    size = format_bytes(decoding.device_bytes)
    _line(out, text("last token"), text("takes at most {size} of a card", size=size))


def _show_biggest(biggest: BiggestBatch, out: Console) -> None:
    _heading(out, text("The biggest batch that ran"))
    if biggest.batch is None:
        _line(out, text("batch"), text("none ran"))
    elif biggest.fails is None:
        _line(out, text("batch"), text("{batch}; no batch failed", batch=biggest.batch))
    else:
        _line(out, text("batch"), text("{batch}; {failed} did not run", batch=biggest.batch, failed=biggest.fails))
    predicted = text("none") if biggest.predicted is None else text("{batch} is sure to run", batch=biggest.predicted)
    _line(out, text("predicted"), predicted)
    for number, trial in enumerate(biggest.trials):
        if not trial.ran:
            outcome = text("{batch}: {reason}", batch=trial.batch, reason=trial.why)
        elif trial.device_bytes is None:
            outcome = text("{batch}: ran", batch=trial.batch)
        else:
            size = format_bytes(trial.device_bytes)
            outcome = text("{batch}: ran, {size} on the card", batch=trial.batch, size=size)
        _line(out, text("tried") if number == 0 else "", outcome)


def show_calibration(calibration: Calibration, out: Console) -> None:
    """Print a calibration: what CUDA and its libraries take on a card, and how well small models are predicted."""
    heading = f"{calibration.device.name}, torch {calibration.torch}"
    labelled(out, "", RichText(heading, style="bold"), indent=0, width=0)
    context = calibration.context
    _line(out, text("CUDA itself"), format_bytes(context.start))
    _line(
        out,
        text("cuBLAS"),
        text(
            "{forward} more, and another {backward} with a backward pass",
            forward=format_bytes(context.matmul),
            backward=format_bytes(context.matmul_backward),
        ),
    )
    _line(out, text("16-bit kernels"), text("{size} more", size=format_bytes(context.more_kernels)))
    workspace = format_bytes(calibration.workspace_bytes)
    _line(out, text("workspaces"), text("{size} of torch's memory per thread, kept by cuBLAS", size=workspace))
    if calibration.checks:
        _heading(out, text("Small models, predicted for this card and measured"))
        for check in calibration.checks:
            _row(out, f"{check.name} {check.precision}", check.predicted_bytes, check.measured_bytes)


def _heading(out: Console, heading: str) -> None:
    out.print()
    out.print(RichText(heading, style="bold"))


def _line(out: Console, label: str, body: str) -> None:
    labelled(out, label, body, indent=2, width=_LABEL)
