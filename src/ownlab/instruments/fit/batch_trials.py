"""The biggest batch that runs, found on the card itself: from the prediction on, with few trials."""

from __future__ import annotations

from collections.abc import Callable

from ownlab.instruments.fit.batch import Range
from ownlab.instruments.fit.records import Biggest, Trial

__all__ = ["biggest_running"]

# A trial takes as long as a program needs to start: no more than so many.
_MOST = 10
# So near to the first batch that fails it is good enough; as in predictions.
_NEAR = 64
# The first step away from the prediction: about as far as predictions were off. Each one after it is four times as long.
_FIRST = 50


def biggest_running(run: Callable[[int], Trial], predicted: int | None, within: Range, start: int) -> Biggest:
    """Try batches: `run` tries one of them, in a process of its own."""
    trials: list[Trial] = []
    runs, fails = within.least - 1, within.most + 1
    batch = min(max(within.least, predicted or start), within.most)
    stride = max(1, batch // _FIRST)
    while len(trials) < _MOST and fails - runs > max(1, runs // _NEAR):
        trial = run(batch)
        trials.append(trial)
        if trial.ran:
            runs = max(runs, batch)
        else:
            fails = min(fails, batch)
        batch, stride = _next(runs, fails, within, stride)
    return Biggest(
        batch=runs if runs >= within.least else None,
        predicted=predicted,
        fails=fails if fails <= within.most else None,
        trials=tuple(trials),
    )


def _next(runs: int, fails: int, within: Range, stride: int) -> tuple[int, int]:
    """Between both where both are known, else one stride further."""
    if fails > within.most:
        return min(runs + stride, within.most), stride * 4
    if runs < within.least:
        return max(fails - stride, within.least), stride * 4
    return (runs + fails) // 2, stride
