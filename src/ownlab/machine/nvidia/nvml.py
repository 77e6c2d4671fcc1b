"""Asks NVML, in a child process: a driver that hangs or crashes takes the child, not us."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from msgspec import Struct

from ownlab import guest_client
from ownlab.machine.facts import NOT_READ, Fact
from ownlab.machine.records import Card

__all__ = ["NvmlAnswer", "ask_nvml"]


class NvmlAnswer(Struct, frozen=True):
    """What `ownlab_guest/probe/nvml.py` answers: facts, or the words with which NVML failed to start."""

    error: str | None = None
    code: int | None = None  # of NVML's return codes: 18 is a mismatch of driver and library
    library: str | None = None  # the file that NVML was loaded from
    driver: Fact[str] = NOT_READ
    cuda: Fact[str] = NOT_READ
    nvml: Fact[str] = NOT_READ
    cards: Fact[tuple[Card, ...]] = NOT_READ


def ask_nvml(*, deadline: float, env: Mapping[str, str] | None = None) -> NvmlAnswer:
    """Raises DeadlineError where the driver hangs, and GuestCrashed where it crashes its caller."""
    return guest_client.ask(sys.executable, "probe.nvml", answer=NvmlAnswer, deadline=deadline, env=env)
