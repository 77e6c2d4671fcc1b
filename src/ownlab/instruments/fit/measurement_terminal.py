"""What was measured, in the terminal: predicted beside measured, times, trials of batches, decoding, a calibration."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.fit.calibration import Calibration
from ownlab.instruments.fit.records import BiggestBatch, Decoding, Fit, Measured, MeasuredAlone, MeasuredMemory, Spread
from ownlab.render.console import labelled
from ownlab.units import format_bytes, format_seconds

__all__ = ["show_alone", "show_calibration", "show_measured"]

_LABEL = 22
_PERCENT = 0.001  # less than this is nothing
# What the allocator's history tells apart: what libraries take inside an operation looks like any temporary there.
_PARTS = {
    "weights": ("weights",),
    "optimizer": ("optimizer",),
    "inputs": ("inputs",),
    "gradients": ("gradients",),
    "activations": ("activations",),
    "temporary, libraries": ("temporary", "workspace"),
}


def show_measured(fit: Fit, out: Console) -> None:
    """Print all that `--measure` and `--decode` add to a prediction; nothing where neither was asked for."""
    if fit.decoding is not None:
        _show_decoding(fit.decoding, out)
    if fit.biggest is not None:
        _show_biggest(fit.biggest, out)
    if fit.measured is not None:
        _show_run(fit, fit.measured, out)


def show_alone(alone: MeasuredAlone, out: Console) -> None:
    """Print what was measured of a step that could not be predicted."""
    labelled(out, "", Text(f"It could not be predicted: {alone.why}", style="bold"), indent=0, width=0)
    measured = alone.measured
    _show_where(measured, out)
    memory = measured.memory
    if memory is not None:
        held = "" if memory.device_bytes is None else f", {format_bytes(memory.device_bytes)} on the card"
        allocated, reserved = format_bytes(memory.allocated_bytes), format_bytes(memory.reserved_bytes)
        _line(out, "memory", f"{allocated} allocated, {reserved} reserved{held}")
        _show_phases(memory, out)
    _show_times(measured, out)


def _show_run(fit: Fit, measured: Measured, out: Console) -> None:
    _show_where(measured, out)
    if measured.memory is not None:
        _show_memory(fit, measured.memory, out)
    _show_times(measured, out)


def _show_where(measured: Measured, out: Console) -> None:
    cuda = f", CUDA {measured.cuda}" if measured.cuda else ""
    _heading(out, f"Measured on {measured.device.name}, torch {measured.torch}{cuda}")
    if measured.out_of_memory is not None:
        ran_out = measured.out_of_memory
        _line(
            out, "memory", f"ran out in the {ran_out.phase} of step {ran_out.step}: {ran_out.message.splitlines()[0]}"
        )
        _line(out, "", "ownlab fit --explain-oom says what such a message means")
    elif measured.memory is None:
        _line(out, "memory", "not measured: what a step takes on a processor says nothing of a card")


def _show_memory(fit: Fit, memory: MeasuredMemory, out: Console) -> None:
    out.print(Text(f"  {''.ljust(_LABEL)}{'predicted'.rjust(10)}{'measured'.rjust(12)}", style="dim"))
    _row(out, "allocated", fit.peak.allocated_bytes, memory.allocated_bytes)
    _row(out, "reserved", fit.peak.reserved_bytes, memory.reserved_bytes)
    if memory.device_bytes is not None:
        _row(out, "on the card", fit.peak.device_bytes, memory.device_bytes)
    else:
        _line(out, "on the card", f"not measured: {memory.device_source}")
    if memory.context_bytes is not None:
        _row(out, "CUDA itself", fit.parts.context, memory.context_bytes)
    if memory.parts is not None:
        for name, kinds in _PARTS.items():
            predicted = sum(getattr(fit.parts, kind) for kind in kinds)
            seen = sum(memory.parts.get(kind, 0) for kind in kinds)
            if predicted or seen:
                _row(out, f"  {name}", predicted, seen)
    else:
        _line(out, "parts", f"not measured: {memory.parts_reason}")
    _show_oddities(fit, memory, out)


def _show_oddities(fit: Fit, memory: MeasuredMemory, out: Console) -> None:
    _show_phases(memory, out)
    band = fit.band
    if not band.reserved_low_bytes <= memory.reserved_bytes <= band.reserved_high_bytes:
        _line(out, "", "What was reserved lies outside of the band that was predicted.")
    if memory.later_bytes is not None and memory.later_bytes > memory.reserved_bytes:
        _line(out, "later", f"{format_bytes(memory.later_bytes)} reserved, after more steps")
    if memory.retries:
        _line(out, "", f"The card was full: the allocator gave back what it had cached {memory.retries} times.")


def _show_phases(memory: MeasuredMemory, out: Console) -> None:
    peaks = ", ".join(f"{format_bytes(size)} {phase}" for phase, size in memory.phases.items())
    _line(out, "peaks by phase", peaks)


def _row(out: Console, label: str, predicted: int, measured: int) -> None:
    off = predicted / measured - 1 if measured else 0.0
    said = "same" if abs(off) < _PERCENT else f"{off:+.1%}".replace("%", " %")
    line = f"  {label.ljust(_LABEL)}{format_bytes(predicted).rjust(10)}{format_bytes(measured).rjust(12)}  {said}"
    out.print(Text(line), no_wrap=True, overflow="ignore", crop=False)


def _show_times(measured: Measured, out: Console) -> None:
    if measured.steady is not None:
        _line(out, "a step", _spread(measured.steady))
    if measured.alone is not None:
        _line(out, "each for itself" if measured.steady else "a step", _spread(measured.alone))
    if measured.per_second is not None:
        _line(out, "throughput", f"{measured.per_second:,.4g} samples/s")
    step = measured.step_seconds
    if step is not None and measured.floor_seconds is not None:
        least, share = format_seconds(measured.floor_seconds), 100 * measured.floor_seconds / step
        _line(out, "at best", f"{least} on this card: the step reaches {share:.0f} % of that speed")
    if measured.decoding is not None:
        decoding = measured.decoding
        _line(out, "prompt", format_seconds(decoding.prompt_seconds))
        _line(out, "a token", f"{_spread(decoding.token)}; {decoding.tokens_per_second:,.4g} tokens/s in all")
        _line(out, "cache", format_bytes(decoding.cache_bytes))


def _spread(spread: Spread) -> str:
    return (
        f"{format_seconds(spread.median)} (p90 {format_seconds(spread.p90)}, p99 {format_seconds(spread.p99)}; "
        f"{spread.count} repetitions)"
    )


def _show_decoding(decoding: Decoding, out: Console) -> None:
    _heading(out, "Decoding")
    _line(out, "cache", f"{format_bytes(decoding.bytes_per_token)} for each new token of a sequence")
    tokens = f"{decoding.prompt_tokens} + {decoding.new_tokens}"
    all_of_them = f"{decoding.batch} × ({tokens})" if decoding.batch > 1 else tokens
    _line(out, "", f"{format_bytes(decoding.cache_bytes)} for {all_of_them} tokens")
    _line(out, "the last token", f"takes {format_bytes(decoding.device_bytes)} of a card at most")


def _show_biggest(biggest: BiggestBatch, out: Console) -> None:
    _heading(out, "The biggest batch that ran")
    if biggest.batch is None:
        _line(out, "batch", "none did")
    else:
        fails = "none that was tried failed" if biggest.fails is None else f"{biggest.fails} did not run"
        _line(out, "batch", f"{biggest.batch}; {fails}")
    _line(out, "predicted", "none" if biggest.predicted is None else f"{biggest.predicted} is sure to run")
    for number, trial in enumerate(biggest.trials):
        held = f", {format_bytes(trial.device_bytes)} on the card" if trial.device_bytes is not None else ""
        _line(out, "tried" if number == 0 else "", f"{trial.batch}: {'ran' if trial.ran else trial.why}{held}")


def show_calibration(calibration: Calibration, out: Console) -> None:
    """Print what was measured of the card itself."""
    labelled(out, "", Text(f"{calibration.device.name}, torch {calibration.torch}", style="bold"), indent=0, width=0)
    context = calibration.context
    _line(out, "CUDA itself", format_bytes(context.start))
    _line(
        out,
        "cuBLAS",
        f"{format_bytes(context.matmul)} more, {format_bytes(context.matmul_backward)} with a backward pass",
    )
    _line(out, "16-bit kernels", f"{format_bytes(context.more_kernels)} more")
    _line(
        out,
        "workspaces",
        f"{format_bytes(calibration.workspace_bytes)} of torch's memory for each thread, kept by cuBLAS",
    )
    if calibration.checks:
        _heading(out, "Small models, predicted for this card and measured")
        for check in calibration.checks:
            _row(out, f"{check.name} {check.precision}", check.predicted_bytes, check.measured_bytes)


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _line(out: Console, label: str, text: str) -> None:
    labelled(out, label, text, indent=2, width=_LABEL)
