"""What a step reserves if the libraries' workspaces are other ones than the most likely ones.

The workspace of a convolution is an estimate with votes for several sizes. One that is some MiB larger may need a segment of its
own, so what is reserved jumps between a few values. Each draw takes one size for each call by its votes; the band is where most
draws end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from ownlab.instruments.fit.records import Uncertain

__all__ = ["DRAWS", "Window", "densest_window", "draw_sizes"]

DRAWS = 32
# Even a size that all vote for is not always right: kernels round their partial sums up. How often and how far in a draw was chosen
# with practice steps on an H200 (tests_gpu/fit/practice.py).
_INEXACT, _LEAST, _MOST = 0.3, 0.97, 1.08
_MAIN_VOTES = 4  # the draw with the most likely sizes counts as much as this many others


def draw_sizes(uncertain: Uncertain) -> Iterator[dict[int, int]]:
    """Yield sizes by the name of a storage. Calls with the same votes are the same call: they have the same size in a draw."""
    calls = {likely: Counter(likely) for likely in uncertain.bytes}
    for number in range(DRAWS if calls else 0):
        random = Random(number)  # noqa: S311  # the same draws each time
        drawn = {likely: _drawn(votes, random) for likely, votes in calls.items()}
        yield {name: drawn[likely] for name, likely in zip(uncertain.name, uncertain.bytes, strict=True)}


def _drawn(votes: Counter[int], random: Random) -> int:
    size = random.choices(list(votes), list(votes.values()))[0]
    return round(size * random.uniform(_LEAST, _MOST)) if random.random() < _INEXACT else size


class Window(NamedTuple):
    """A part of what the draws reserve: its least and most, and which draw is in its middle."""

    low: int
    high: int
    middle: int


def densest_window(main: int, draws: Sequence[int], width: float, typical: Sequence[bool] = ()) -> Window:
    """Return the window, at most so wide as a share of its lower end, that has the most draws; `main` is the first of them.

    `typical`: which draws may be in its middle; all, if nothing is said. A window has at least one of them.
    """
    values = [main, *draws]
    weights = [_MAIN_VOTES, *[1] * len(draws)]
    may = [True, *(typical or [True] * len(draws))]

    def inside(low: int) -> list[int]:
        return [place for place, value in enumerate(values) if low <= value <= low * (1 + width)]

    windows = [places for places in map(inside, sorted(set(values))) if any(may[place] for place in places)]
    best = max(windows, key=lambda places: sum(weights[place] for place in places))
    low, high = min(values[place] for place in best), max(values[place] for place in best)
    middle = (
        0 if 0 in best else min(filter(may.__getitem__, best), key=lambda place: abs(2 * values[place] - low - high))
    )
    return Window(low, high, middle)
