"""Accelerators that are not NVIDIA's: AMD, Apple, Intel, Google's TPU, Huawei's Ascend; one file per vendor."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.machine.facts import Fact, Known, Unknown, unread
from ownlab.machine.records import Amd, Ascend, Card, Tpu
from ownlab.machine.vendors.amd import read_amd
from ownlab.machine.vendors.apple import read_apple
from ownlab.machine.vendors.ascend import read_ascend
from ownlab.machine.vendors.intel import read_intel
from ownlab.machine.vendors.tpu import read_tpu

__all__ = ["Others", "no_others", "read_others"]


class Others(NamedTuple):
    """What is here of every vendor but NVIDIA."""

    amd: Amd
    tpu: Tpu
    ascend: Ascend
    cards: Fact[tuple[Card, ...]]


def no_others(why: Unknown) -> Others:
    """Where none of them could be read."""
    return Others(unread(Amd, why), unread(Tpu, why), unread(Ascend, why), why)


def read_others() -> Others:
    """Ask every vendor's files and tools on this machine."""
    amd, amd_cards = read_amd()
    tpu, tpu_cards = read_tpu()
    ascend, ascend_cards = read_ascend()
    cards = (*amd_cards, *read_intel(), *read_apple(), *tpu_cards, *ascend_cards)
    return Others(amd, tpu, ascend, Known(cards, source="the vendors' files and tools"))
