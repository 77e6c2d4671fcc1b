"""Which cards CUDA_VISIBLE_DEVICES (and its like) leaves to a process, and in what order.

The grammar was measured on driver 580.159.04 (2026-11-15), and agrees with torch's own reading of the variable
(`torch.cuda._parse_visible_devices`): numbers are read as C's strtoul reads them, so that whatever follows the digits
is ignored; the first entry that names no card ends the list; a card named twice before that is an error: none is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card

__all__ = ["VisibleDevices", "visible_devices"]

# Slurm writes NoDevFiles where a job was given no card; void is the container runtime's word.
_HIDES_ALL = frozenset(("", "-1", "none", "nodevfiles", "void"))
_NUMBER = re.compile(r"\s*\+?([0-9]+)\s*")


class VisibleDevices(Struct, frozen=True):
    """What a process is left with: cuda:0 is the first of `order`.

    Hiding every card on purpose ("", "-1") is an empty order without a problem.
    """

    order: tuple[int, ...]  # Card.index
    problem: str | None = None  # what in the value does not do what it seems to
    known: bool = True  # False: the cards, or their UUIDs, were not read, so that the order cannot be told


def visible_devices(value: str | None, cards: Iterable[Card], vendor: str = "nvidia") -> VisibleDevices:
    """What `value` leaves of the vendor's cards. Numbers are taken as nvidia-smi's (CUDA_DEVICE_ORDER=PCI_BUS_ID)."""
    own = sorted((card for card in cards if card.vendor == vendor), key=lambda card: card.index)
    if value is None:
        return VisibleDevices(tuple(card.index for card in own))
    if value.strip().lower() in _HIDES_ALL:
        return VisibleDevices(())
    if not own:
        return VisibleDevices((), known=False)
    if value.startswith("MIG-"):
        return _by_instance(value.split(","), own)
    if value.startswith("GPU-"):
        if not all(isinstance(card.uuid, Known) for card in own):
            return VisibleDevices((), "the cards' UUIDs are not known here", known=False)
        return _by_uuid(value.split(","), own)
    return _by_number(value.split(","), own)


def _by_number(entries: list[str], cards: list[Card]) -> VisibleDevices:
    indices = {card.index for card in cards}
    order: list[int] = []
    problem: str | None = None
    for entry in entries:
        match = _NUMBER.match(entry)
        number = int(match.group(1)) if match else None
        if match is None or number not in indices:
            return VisibleDevices(tuple(order), problem or _ended(entry, order))
        if number in order:
            return _twice(f"card {number}")
        order.append(number)
        rest = entry[match.end() :]
        if rest and problem is None:
            problem = _ignored(entry, rest, number)
    return VisibleDevices(tuple(order), problem)


def _by_uuid(entries: list[str], cards: list[Card]) -> VisibleDevices:
    order: list[int] = []
    for entry in entries:
        # The prefix must be in capitals and may not stand alone; the digits may be of either case.
        digits = entry.strip().removeprefix("GPU-").lower()
        found = [card.index for card in cards if (value_of(card.uuid) or "").lower().startswith(f"gpu-{digits}")]
        if not entry.startswith("GPU-") or not digits or not found:
            return VisibleDevices(tuple(order), _ended(entry, order))
        if len(found) > 1:
            return VisibleDevices(tuple(order), f"{entry!r} is the beginning of several cards' UUIDs: it names none")
        if found[0] in order:
            return _twice(f"card {found[0]}")
        order.append(found[0])
    return VisibleDevices(tuple(order))


def _by_instance(entries: list[str], cards: list[Card]) -> VisibleDevices:
    instances = {instance.uuid.lower(): card.index for card in cards for instance in value_of(card.mig_instances) or ()}
    if not instances:
        return VisibleDevices((), "the cards' MIG instances are not known here", known=False)
    found = {card for uuid, card in instances.items() if uuid.startswith(entries[0].strip().lower())}
    if len(found) != 1:
        return VisibleDevices((), _ended(entries[0], []))
    # NVIDIA's MIG User Guide: a process can enumerate a single MIG instance.
    problem = "CUDA gives a process one MIG instance: the first of the list" if len(entries) > 1 else None
    return VisibleDevices(tuple(found), problem)


def _ended(entry: str, order: list[int]) -> str | None:
    if entry.strip()[:1] in ("'", '"'):
        return f"the quotation marks of {entry!r} are part of the value, so that it names no card"
    if not entry.strip():
        return None if order else "it begins with an empty entry, which ends the list"  # a comma at the end is harmless
    what = "it and what follows is left out" if order else "every card is hidden"
    return f"{entry.strip()!r} names no card here: {what}"


def _ignored(entry: str, rest: str, number: int) -> str:
    if rest[0] in "，、；":
        return f"the full-width {rest[0]!r} in {entry!r} is no separator: of this entry only card {number} is seen"
    return f"{entry!r} is read as {number}: what follows the number is ignored; write a comma between cards"


def _twice(what: str) -> VisibleDevices:
    return VisibleDevices((), f"{what} is named twice: CUDA refuses the whole list (error 101, invalid device)")
