"""What happens to the pages of one notebook, and when: all of it from a seed."""

from __future__ import annotations

import random
from typing import NamedTuple

__all__ = ["KINDS", "Interruption", "plan"]


class Interruption(NamedTuple):
    """One thing that happens. `moment` is a share of the time that an uninterrupted run takes."""

    moment: float
    kind: str
    seconds: float  # how long somebody or something is away
    closed: bool  # whether the page is closed meanwhile, where that is a choice


# How often each is chosen. A server that dies hits every notebook at once, so that a few go a long way.
KINDS = {
    "close": 5,  # the tab is closed without a word, and opened later
    "reload": 5,
    "cut": 5,  # the network goes; the page stays
    "second": 3,  # another browser opens the notebook, and stays
    "swap": 2,  # another browser opens it, and the first one is closed
    "away": 2,  # nobody is there until all that was sent has ended
    "save": 5,
    "kill": 2,  # SIGKILL of the server, and a new one
    "term": 1,  # SIGTERM
}


def plan(seed: int, most: int = 5, without: tuple[str, ...] = ()) -> list[Interruption]:
    """The interruptions of a run."""
    chance = random.Random(f"interruptions {seed}")
    kinds = {kind: weight for kind, weight in KINDS.items() if kind not in without}
    names = chance.choices(list(kinds), list(kinds.values()), k=chance.randint(1, most))
    found = [
        Interruption(chance.random(), name, chance.choice((0.0, 0.2, 1.5)) * chance.random(), chance.random() < 0.5)
        for name in names
    ]
    return sorted(found)
