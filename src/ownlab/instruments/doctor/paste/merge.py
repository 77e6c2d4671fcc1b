"""Merges several reports of one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ownlab.machine.facts import NOT_READ, Known, Unknown
from ownlab.machine.records import (
    Card,
    CudaInstall,
    Framework,
    Library,
    LibraryInstall,
    Machine,
    Package,
    PciDevice,
    Variable,
)

__all__ = ["knows_something", "merge"]

S = TypeVar("S", bound=msgspec.Struct)

# The key of an entry in a list. Any other list is taken as a whole from the first report that has it.
_KEYS: dict[type, Callable[[Any], str]] = {
    CudaInstall: lambda install: install.path,
    Framework: lambda framework: framework.name,
    Library: lambda library: library.name,
    LibraryInstall: lambda install: install.path,
    Package: lambda package: package.name,
    PciDevice: lambda device: device.bus_id,
    Variable: lambda variable: variable.name,
}
_JOINED = ("kernel_log", "modules")  # lists of strings that are joined


def merge(first: Machine, second: Machine) -> Machine:
    """Merge two reports: a known fact wins over an unknown one; if both know it, the first wins."""
    return _merge(first, second)


def knows_something(record: msgspec.Struct) -> bool:
    """Return whether any fact in the record is known."""
    values = (getattr(record, field.name) for field in msgspec.structs.fields(record))
    return any(
        isinstance(value, Known) or (isinstance(value, msgspec.Struct) and knows_something(value)) for value in values
    )


def _merge(first: S, second: S) -> S:
    changes: dict[str, Any] = {}
    for field in msgspec.structs.fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        if isinstance(one, (Known, Unknown)):
            changes[field.name] = _merge_facts(field.name, one, other)
        elif isinstance(one, msgspec.Struct):
            changes[field.name] = _merge(one, other)
        elif one in (None, ""):
            changes[field.name] = other
    return msgspec.structs.replace(first, **changes)


def _merge_facts(name: str, one: Known[Any] | Unknown, other: Known[Any] | Unknown) -> Known[Any] | Unknown:
    if isinstance(one, Unknown) or isinstance(other, Unknown):
        if isinstance(other, Unknown) and one != NOT_READ:
            return one
        return other if isinstance(one, Unknown) else one
    if not isinstance(one.value, tuple):
        return one
    if name in _JOINED:
        merged: tuple[Any, ...] = tuple(dict.fromkeys(one.value + other.value))
    elif any(isinstance(entry, Card) for entry in one.value):
        merged = _merge_cards(one.value, other.value)
    elif one.value and type(one.value[0]) in _KEYS:
        merged = _merge_keyed(one.value, other.value, _KEYS[type(one.value[0])])
    else:
        return one
    source = one.source if other.source in one.source else f"{one.source}, {other.source}"
    return Known(merged, source, one.unit)


def _merge_keyed(one: tuple[Any, ...], other: tuple[Any, ...], key_of: Callable[[Any], str]) -> tuple[Any, ...]:
    merged = {key_of(entry): entry for entry in one}
    for entry in other:
        key = key_of(entry)
        merged[key] = _merge(merged[key], entry) if key in merged else entry
    return tuple(merged.values())


def _merge_cards(one: tuple[Card, ...], other: tuple[Card, ...]) -> tuple[Card, ...]:
    merged = list(one)
    for card in other:
        position = next((position for same in _SAME for position, seen in enumerate(merged) if same(seen, card)), None)
        if position is None:
            merged.append(card)
        else:
            merged[position] = _merge_card(merged[position], card)
    return tuple(sorted(merged, key=lambda card: (card.vendor, card.index)))


def _merge_card(one: Card, other: Card) -> Card:
    merged = _merge(one, other)
    if isinstance(one.name, Known) and one.name.value.endswith("...") and isinstance(other.name, Known):
        # nvidia-smi's table truncates long names; another report may have the whole name.
        return msgspec.structs.replace(merged, name=other.name)
    return merged


def _same_uuid(one: Card, other: Card) -> bool:
    if not (isinstance(one.uuid, Known) and isinstance(other.uuid, Known)):
        return False
    # Users blank out their UUIDs before they paste them: GPU-00000000-0000-… does not identify a card.
    return one.uuid.value == other.uuid.value and bool(one.uuid.value.strip("GPUMI0-xX"))


def _same_bus_id(one: Card, other: Card) -> bool:
    if not (isinstance(one.bus_id, Known) and isinstance(other.bus_id, Known)):
        return False
    # 00000000:01:00.0 and 0000:01:00.0 are the same address.
    return one.bus_id.value.lower().lstrip("0") == other.bus_id.value.lower().lstrip("0")


def _same_index(one: Card, other: Card) -> bool:
    return one.vendor == other.vendor and one.index == other.index


_SAME = (_same_uuid, _same_bus_id, _same_index)
