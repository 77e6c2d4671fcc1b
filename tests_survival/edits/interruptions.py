"""Interruptions of people who edit one notebook, derived from a seed."""

from __future__ import annotations

import random
from typing import NamedTuple

__all__ = ["KINDS", "Interruption", "Plan", "make_plan"]

# Relative frequency.
KINDS = {
    "close": 5,  # the tab is killed, and opened later
    "cut": 5,  # the network goes; the page stays
    "away": 2,  # all tabs are killed; nobody is there for a while
    "kill": 2,  # SIGKILL of the server
    "term": 1,  # SIGTERM of the server
    "kernel": 1,  # SIGKILL of the kernel
    "supervisor": 1,  # SIGKILL of its supervisor
    "program": 4,  # another program changes the file
}
NEED_KERNEL = ("kernel", "supervisor")


class Interruption(NamedTuple):
    """One event."""

    moment: float  # a fraction of all that people do
    kind: str
    person: int  # whose page
    seconds: float


class Plan(NamedTuple):
    """One run."""

    people: int
    actions: int
    executes: bool
    interruptions: list[Interruption]


def make_plan(seed: int, most: int) -> Plan:
    """The plan of a seed."""
    chance = random.Random(f"edits {seed}")
    people, executes = chance.choice((1, 2, 2)), chance.random() < 0.6
    kinds = {kind: weight for kind, weight in KINDS.items() if executes or kind not in NEED_KERNEL}
    names = chance.choices(list(kinds), list(kinds.values()), k=chance.randint(1, most))
    interruptions = [
        Interruption(chance.random(), name, chance.randrange(people), chance.choice((0.0, 0.2, 1.5)) * chance.random())
        for name in names
    ]
    return Plan(people, chance.randint(8, 20), executes, sorted(interruptions))
