"""Interruptions of the pages of one notebook, derived from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["KINDS", "Interruption", "plan"]


class Interruption(NamedTuple):
    """One event. `moment` is a fraction of the duration of an uninterrupted run."""

    moment: float
    kind: str
    seconds: float  # how long the page or server is away
    closed: bool  # whether the page is closed meanwhile, if that is a choice


# Relative frequency. A server that dies affects every notebook at once, so a few are enough.
KINDS = {
    "close": 5,  # the tab is closed without notice, and opened later
    "reload": 5,
    "cut": 5,  # the network goes; the page stays
    "second": 3,  # another browser opens the notebook, and stays
    "swap": 2,  # another browser opens it, and the first one is closed
    "away": 2,  # no page is open until everything that was sent has ended
    "save": 5,
    "kill": 2,  # SIGKILL of the server, and a new one
    "term": 1,  # SIGTERM
}


def plan(
    seed: int, most: int = 5, without: tuple[str, ...] = (), kinds: Mapping[str, int] = KINDS
) -> list[Interruption]:
    """The interruptions of a run."""
    chance = random.Random(f"interruptions {seed}")
    kinds = {kind: weight for kind, weight in kinds.items() if kind not in without}
    names = chance.choices(list(kinds), list(kinds.values()), k=chance.randint(1, most))
    interruptions = [
        Interruption(chance.random(), name, chance.choice((0.0, 0.2, 1.5)) * chance.random(), chance.random() < 0.5)
        for name in names
    ]
    return sorted(interruptions)
