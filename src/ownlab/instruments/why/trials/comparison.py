"""Compares runs of a trial: how long a step takes, and whether the losses stay what they were."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from ownlab.instruments.why.formatting import format_share
from ownlab.instruments.why.records import Evidence
from ownlab.instruments.why.step_model import StepModel, main_process
from ownlab.text import text

__all__ = ["MeasuredRun", "MeasuredSteps", "combine", "compare_losses", "compare_speed", "measure_run"]

FEWEST_STEPS = 5
_BLOCKS = 6
# Losses that differ by less, in the mean of all steps, are the same but for rounding.
_CLOSE = 0.05
# The first steps of a run, in which rounding has not grown yet: training multiplies it from step to step.
_FIRST = 3
_CLOSE_AT_FIRST = 0.01
# How many standard errors a band has on each side.
_ERRORS = 2.0


class MeasuredRun(NamedTuple):
    """The steady steps of a run."""

    step_ms: float
    error_ms: float  # standard error, from the means of blocks of steps
    losses: tuple[float | None, ...]
    order: tuple[int, ...]  # of the samples of the training data


class MeasuredSteps(NamedTuple):
    """A step, of all runs with the same changes."""

    step_ms: float
    band_ms: tuple[float, float]


def measure_run(evidence: Evidence) -> MeasuredRun | None:
    """Return what a run has shown, or None if it had too few steps."""
    process = main_process(evidence)
    if process is None:
        return None
    model = StepModel(process, evidence.workers)
    if model.count < FEWEST_STEPS:
        return None
    durations = model.durations_ms
    facts = process.trial
    loader = model.loader
    number = str(process.loaders.index(loader)) if loader is not None else ""
    return MeasuredRun(
        step_ms=statistics.fmean(durations),
        error_ms=_standard_error(durations),
        losses=facts.losses if facts is not None else (),
        order=facts.orders.get(number, ()) if facts is not None else (),
    )


def _standard_error(durations: Sequence[float]) -> float:
    """Of blocks rather than of steps: neighbours share an epoch, a checkpoint, or the load of the machine."""
    count = min(_BLOCKS, len(durations))
    edges = [round(number * len(durations) / count) for number in range(count + 1)]
    means = [statistics.fmean(durations[edges[number] : edges[number + 1]]) for number in range(count)]
    return statistics.stdev(means) / math.sqrt(count)


def combine(runs: Sequence[MeasuredRun]) -> MeasuredSteps:
    """The mean of several runs, with a band that contains each of them."""
    means = [run.step_ms for run in runs]
    middle = statistics.fmean(means)
    error = _ERRORS * statistics.fmean([run.error_ms for run in runs]) / math.sqrt(len(runs))
    return MeasuredSteps(middle, (max(0.0, min(min(means), middle - error)), max(max(means), middle + error)))


def compare_speed(before: MeasuredSteps, after: MeasuredSteps) -> tuple[float, tuple[float, float]]:
    """The speed-up, and its band."""
    low = before.band_ms[0] / after.band_ms[1]
    high = before.band_ms[1] / max(1e-9, after.band_ms[0])
    return before.step_ms / after.step_ms, (low, high)


def compare_losses(baseline: Sequence[MeasuredRun], run: MeasuredRun, *, moves_random: bool) -> tuple[bool, str]:
    """Return whether a change is safe, and what was seen. With `moves_random` the script draws its random numbers in another order."""
    before = baseline[0].losses
    if not before or not run.losses:
        return True, text("backward() was called on no scalar: the losses are not compared")
    bad = next((number for number, loss in enumerate(run.losses) if loss is None), None)
    if None in before:
        return True, text("the loss is not finite without the change either")
    if bad is not None:
        return False, text("the loss is not finite from step {step} on", step=bad + 1)
    count = min(len(baseline[0].order), len(run.order))
    if baseline[0].order[:count] != run.order[:count]:
        return True, text("finite; not compared, because the order of the samples differs")
    difference = _difference(before, run.losses)
    if difference <= _CLOSE:
        return True, text("the same within {share}", share=format_share(max(0.01, difference)))
    repeats = any(_difference(before, other.losses) > _CLOSE / 5 for other in baseline[1:])
    if (moves_random or repeats) and _same_mean(before, run.losses):
        return True, text("the same in the mean; random numbers differ")
    if _only_rounding_grew(before, run.losses):
        return True, text("the same within 1 % at first, and in the mean; rounding differs, and grows")
    return False, text("the losses differ by {share}", share=format_share(difference))


def _difference(before: Sequence[float | None], after: Sequence[float | None]) -> float:
    """The mean difference of each step, relative to the mean size."""
    pairs = [(old, new) for old, new in zip(before, after, strict=False) if old is not None and new is not None]
    size = statistics.fmean([abs(old) for old, _ in pairs]) if pairs else 0.0
    if not size:
        return 0.0 if all(old == new for old, new in pairs) else math.inf
    return statistics.fmean([abs(old - new) for old, new in pairs]) / size


def _only_rounding_grew(before: Sequence[float | None], after: Sequence[float | None]) -> bool:
    """Whether the losses begin the same, and later differ from step to step but not in the mean of either half."""
    middle = min(len(before), len(after)) // 2
    return (
        middle > _FIRST
        and _difference(before[:_FIRST], after[:_FIRST]) <= _CLOSE_AT_FIRST
        and _same_mean(before[:middle], after[:middle])
        and _same_mean(before[middle:], after[middle:])
    )


def _same_mean(before: Sequence[float | None], after: Sequence[float | None]) -> bool:
    """Whether the means agree as well as chance allows, with as many steps."""
    count = min(len(before), len(after))
    old = [loss for loss in before[:count] if loss is not None]
    new = [loss for loss in after[:count] if loss is not None]
    if len(old) < 2 or len(new) < 2:
        return False
    chance = 3 * statistics.stdev(old) * math.sqrt(2 / count)
    middle = statistics.fmean(old)
    return abs(statistics.fmean(new) - middle) <= _CLOSE * abs(middle) + chance
