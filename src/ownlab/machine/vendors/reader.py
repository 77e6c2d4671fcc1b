"""Reads the accelerators of every vendor other than NVIDIA."""

from __future__ import annotations

from typing import NamedTuple

from ownlab.machine.facts import Fact, Known, Unknown, unread
from ownlab.machine.records import Amd, Ascend, Card, Tpu
from ownlab.machine.vendors.amd import read_amd
from ownlab.machine.vendors.apple import read_apple
from ownlab.machine.vendors.ascend import read_ascend
from ownlab.machine.vendors.intel import read_intel
from ownlab.machine.vendors.tpu import read_tpu
from ownlab.text import text

__all__ = ["OtherVendors", "read_other_vendors", "unread_vendors"]


class OtherVendors(NamedTuple):
    """The drivers and cards of every vendor other than NVIDIA."""

    amd: Amd
    tpu: Tpu
    ascend: Ascend
    cards: Fact[tuple[Card, ...]]


def unread_vendors(reason: Unknown) -> OtherVendors:
    """Make the record for the case that none of them could be read."""
    return OtherVendors(unread(Amd, reason), unread(Tpu, reason), unread(Ascend, reason), reason)


def read_other_vendors() -> OtherVendors:
    """Read the files and run the tools of every vendor on this machine."""
    amd, amd_cards = read_amd()
    tpu, tpu_cards = read_tpu()
    ascend, ascend_cards = read_ascend()
    cards = (*amd_cards, *read_intel(), *read_apple(), *tpu_cards, *ascend_cards)
    return OtherVendors(amd, tpu, ascend, Known(cards, source=text("the vendors' files and tools")))
