"""Which cards CUDA_VISIBLE_DEVICES (and its relatives) shows to a process, and in what order.

The grammar was measured on driver 580.159.04 (2026-11-15), and agrees with torch's own parser of the variable
(`torch.cuda._parse_visible_devices`): numbers are parsed like C's strtoul, which ignores what follows the digits; the
first entry that names no card ends the list; if a card is named twice before that, no card is visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Card
from ownlab.text import text

__all__ = ["VisibleDevices", "visible_devices"]

# Slurm writes NoDevFiles for a job without a card; void comes from the container runtime.
_HIDES_ALL = frozenset(("", "-1", "none", "nodevfiles", "void"))
_NUMBER = re.compile(r"\s*\+?([0-9]+)\s*")


class VisibleDevices(Struct, frozen=True):
    """The cards that a process sees: cuda:0 is the first of `order`.

    A value that hides every card on purpose ("", "-1") gives an empty order without a problem.
    """

    order: tuple[int, ...]  # Card.index
    problem: str | None = None  # the part of the value that does not do what it seems to
    known: bool = True  # False: the cards or their UUIDs were not read, so the order cannot be determined


def visible_devices(value: str | None, cards: Iterable[Card], vendor: str = "nvidia") -> VisibleDevices:
    """Parse `value` for the vendor's cards. Numbers mean nvidia-smi's (CUDA_DEVICE_ORDER=PCI_BUS_ID)."""
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
            return VisibleDevices((), text("the UUIDs of the cards are not known"), known=False)
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
            return VisibleDevices(tuple(order), problem or _invalid_entry(entry, order))
        if number in order:
            return _duplicate(number)
        order.append(number)
        rest = entry[match.end() :]
        if rest and problem is None:
            problem = _ignored_rest(entry, rest, number)
    return VisibleDevices(tuple(order), problem)


def _by_uuid(entries: list[str], cards: list[Card]) -> VisibleDevices:
    order: list[int] = []
    for entry in entries:
        # The prefix must be upper case and needs digits after it; the digits may be upper or lower case.
        digits = entry.strip().removeprefix("GPU-").lower()
        matches = [card.index for card in cards if (value_of(card.uuid) or "").lower().startswith(f"gpu-{digits}")]
        if not entry.startswith("GPU-") or not digits or not matches:
            return VisibleDevices(tuple(order), _invalid_entry(entry, order))
        if len(matches) > 1:
            problem = text("{entry!r} matches the UUIDs of several cards, so it selects none", entry=entry)
            return VisibleDevices(tuple(order), problem)
        if matches[0] in order:
            return _duplicate(matches[0])
        order.append(matches[0])
    return VisibleDevices(tuple(order))


def _by_instance(entries: list[str], cards: list[Card]) -> VisibleDevices:
    instances = {instance.uuid.lower(): card.index for card in cards for instance in value_of(card.mig_instances) or ()}
    if not instances:
        return VisibleDevices((), text("the MIG instances of the cards are not known"), known=False)
    matches = {card for uuid, card in instances.items() if uuid.startswith(entries[0].strip().lower())}
    if len(matches) != 1:
        return VisibleDevices((), _invalid_entry(entries[0], []))
    # NVIDIA's MIG User Guide: a process can enumerate a single MIG instance.
    problem = text("CUDA gives a process only one MIG instance, the first in the list") if len(entries) > 1 else None
    return VisibleDevices(tuple(matches), problem)


def _invalid_entry(entry: str, order: list[int]) -> str | None:
    name = entry.strip()
    if name[:1] in ("'", '"'):
        return text("the quotation marks in {entry!r} are part of the value, so it names no card", entry=entry)
    if not name and order:
        return None  # a comma at the end is harmless
    if not name:
        return text("the value begins with an empty entry, which ends the list")
    if order:
        return text("{entry!r} names no card of this machine; it and all later entries are ignored", entry=name)
    return text("{entry!r} names no card of this machine; every card is hidden", entry=name)


def _ignored_rest(entry: str, rest: str, number: int) -> str:
    if rest[0] in "，、；":
        return text(
            "the full-width {separator!r} in {entry!r} does not separate entries; only card {number} of this entry is visible",
            separator=rest[0],
            entry=entry,
            number=number,
        )
    return text(
        "{entry!r} is read as {number}, and the rest is ignored; separate cards with commas", entry=entry, number=number
    )


def _duplicate(number: int) -> VisibleDevices:
    return VisibleDevices(
        (),
        text("card {number} is named twice; CUDA rejects the whole list (error 101, invalid device)", number=number),
    )
