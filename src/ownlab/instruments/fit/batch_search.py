"""The biggest batch that fits: two traces give a line, and traces around where it meets the card's memory decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ownlab.instruments.fit.records import BiggestBatch, Fit, Trial

__all__ = ["BatchRange", "PredictedBatches", "predict_biggest_batch", "run_biggest_batch"]

# So near to the first batch that fails it is good enough: a trace takes seconds.
_NEAR = 64
_MOST = 1 << 20
# After so many trials memory does not grow evenly: from then on the middle is tried.
_EVEN = 8


class BatchRange(NamedTuple):
    """PredictedBatches that come into question, both ends included."""

    least: int = 1
    most: int = _MOST


class PredictedBatches:
    """Predictions by batch, each made once: several cards ask for the same."""

    def __init__(self, predict: Callable[[int], Fit]) -> None:
        self._predict = predict
        self._known: dict[int, Fit] = {}

    def needs(self, batch: int) -> int:
        """Bytes of a card that suffice for certain."""
        if batch not in self._known:
            self._known[batch] = self._predict(batch)
        return self._known[batch].band.device_high_bytes

    def add(self, batch: int, fit: Fit) -> None:
        """One that was made already."""
        self._known[batch] = fit

    def __contains__(self, batch: int) -> bool:
        return batch in self._known

    def guess(self, memory: int) -> int:
        """Where the line through the two batches that are nearest to the memory meets it."""
        nearest = sorted(self._known, key=lambda batch: abs(self.needs(batch) - memory))[:2]
        first, second = sorted(nearest)
        slope = (self.needs(second) - self.needs(first)) / (second - first)
        return first + int((memory - self.needs(first)) / slope) if slope > 0 else _MOST


def predict_biggest_batch(batches: PredictedBatches, memory: int, within: BatchRange, start: int) -> int | None:
    """The biggest batch that a card with so much memory holds; None: not even the least."""
    start = min(max(within.least, start), within.most)
    fits, fails = within.least - 1, within.most + 1
    trials = iter((start, min(start * 2, within.most)))
    tries = 0
    while fails - fits > _near(fits):
        trial = next(trials, None)
        if trial is None:
            trial = _next_trial(batches, memory, fits, fails, tries)
        if batches.needs(trial) <= memory:
            fits = max(fits, trial)
        else:
            fails = min(fails, trial)
        tries += 1
    return fits if fits >= within.least else None


def _next_trial(batches: PredictedBatches, memory: int, fits: int, fails: int, tries: int) -> int:
    """Where memory grows evenly with the batch, a trial just beyond a good guess ends the search."""
    if tries > _EVEN:
        return (fits + fails) // 2
    guess = batches.guess(memory)
    trial = fits + _near(fits) if guess <= fits + _near(fits) and fits in batches else guess
    return min(max(trial, fits + 1), fails - 1)


def _near(fits: int) -> int:
    return max(1, fits // _NEAR)


# A trial takes as long as a program needs to start: no more than so many.
_MOST_TRIALS = 10
# The first step away from the prediction: about as far as predictions were off. Each one after it is four times as long.
_FIRST = 50


def run_biggest_batch(
    run: Callable[[int], Trial], predicted: int | None, within: BatchRange, start: int
) -> BiggestBatch:
    """Try batches: `run` tries one of them, in a process of its own."""
    trials: list[Trial] = []
    runs, fails = within.least - 1, within.most + 1
    batch = min(max(within.least, predicted or start), within.most)
    stride = max(1, batch // _FIRST)
    while len(trials) < _MOST_TRIALS and fails - runs > max(1, runs // _NEAR):
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
    """Between both where both are known, else one stride further."""
    if fails > within.most:
        return min(runs + stride, within.most), stride * 4
    if runs < within.least:
        return max(fails - stride, within.least), stride * 4
    return (runs + fails) // 2, stride
