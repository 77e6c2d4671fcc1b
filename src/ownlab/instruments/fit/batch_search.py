"""The biggest batch: predicted from a few traces, or found by running batches on the card.

Memory grows almost linearly with the batch: two traces give a line, and traces around the point where it meets the memory of
the card decide. On a card, the search starts at the prediction and needs few runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ownlab.instruments.fit.records import BiggestBatch, Fit, Trial

__all__ = ["BatchRange", "PredictedBatches", "predict_biggest_batch", "run_biggest_batch"]

# The search stops this close to the first batch that fails, as a share of the batch: a trace takes seconds.
_PRECISION = 64
_MAX_BATCH = 1 << 20
# After so many trials memory evidently does not grow linearly: continue by bisection.
_LINEAR_TRIALS = 8


class BatchRange(NamedTuple):
    """The batches to search, both ends included."""

    least: int = 1
    most: int = _MAX_BATCH


class PredictedBatches:
    """Predictions by batch, each made once for all cards."""

    def __init__(self, predict: Callable[[int], Fit]) -> None:
        self._predict = predict
        self._known: dict[int, Fit] = {}

    def required_bytes(self, batch: int) -> int:
        """Return the bytes of a card that are enough for certain."""
        if batch not in self._known:
            self._known[batch] = self._predict(batch)
        return self._known[batch].band.device_high_bytes

    def add(self, batch: int, fit: Fit) -> None:
        """Add a prediction that was already made."""
        self._known[batch] = fit

    def __contains__(self, batch: int) -> bool:
        return batch in self._known

    def guess(self, memory: int) -> int:
        """Extrapolate from the two batches that come closest to the memory of the card."""
        nearest = sorted(self._known, key=lambda batch: abs(self.required_bytes(batch) - memory))[:2]
        first, second = sorted(nearest)
        slope = (self.required_bytes(second) - self.required_bytes(first)) / (second - first)
        return first + int((memory - self.required_bytes(first)) / slope) if slope > 0 else _MAX_BATCH


def predict_biggest_batch(batches: PredictedBatches, memory: int, within: BatchRange, start: int) -> int | None:
    """Return the biggest batch that fits this memory; None: not even the smallest of the range."""
    start = min(max(within.least, start), within.most)
    fits, fails = within.least - 1, within.most + 1
    trials = iter((start, min(start * 2, within.most)))
    tries = 0
    while fails - fits > _tolerance(fits):
        trial = next(trials, None)
        if trial is None:
            trial = _next_trial(batches, memory, fits, fails, tries)
        if batches.required_bytes(trial) <= memory:
            fits = max(fits, trial)
        else:
            fails = min(fails, trial)
        tries += 1
    return fits if fits >= within.least else None


def _next_trial(batches: PredictedBatches, memory: int, fits: int, fails: int, tries: int) -> int:
    """Choose the next batch. With linear growth a trial just beyond a good guess ends the search."""
    if tries > _LINEAR_TRIALS:
        return (fits + fails) // 2
    guess = batches.guess(memory)
    trial = fits + _tolerance(fits) if guess <= fits + _tolerance(fits) and fits in batches else guess
    return min(max(trial, fits + 1), fails - 1)


def _tolerance(fits: int) -> int:
    return max(1, fits // _PRECISION)


# Limit of the trials: each takes as long as a program needs to start.
_MAX_TRIALS = 10
# The first step away from the prediction, as a share of the batch: about the error of predictions. Each further step is four
# times as long.
_FIRST_STEP = 50


def run_biggest_batch(
    run: Callable[[int], Trial], predicted: int | None, within: BatchRange, start: int
) -> BiggestBatch:
    """Search by running batches; `run` runs one batch in its own process."""
    trials: list[Trial] = []
    runs, fails = within.least - 1, within.most + 1
    batch = min(max(within.least, predicted or start), within.most)
    stride = max(1, batch // _FIRST_STEP)
    while len(trials) < _MAX_TRIALS and fails - runs > max(1, runs // _PRECISION):
        trial = run(batch)
        trials.append(trial)
        if trial.ran:
            runs = max(runs, batch)
        else:
            fails = min(fails, batch)
        batch, stride = _next(runs, fails, within, stride)
    return BiggestBatch(
        batch=runs if runs >= within.least else None,
        predicted=predicted,
        fails=fails if fails <= within.most else None,
        trials=tuple(trials),
    )


def _next(runs: int, fails: int, within: BatchRange, stride: int) -> tuple[int, int]:
    """Choose the middle if both bounds are known, else go one stride further."""
    if fails > within.most:
        return min(runs + stride, within.most), stride * 4
    if runs < within.least:
        return max(fails - stride, within.least), stride * 4
    return (runs + fails) // 2, stride
