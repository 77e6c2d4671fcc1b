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
        left, right = getattr(first, field.name), getattr(second, field.name)
        if isinstance(left, (Known, Unknown)):
            changes[field.name] = _merge_facts(field.name, left, right)
        elif isinstance(left, msgspec.Struct):
            changes[field.name] = _merge(left, right)
        elif left in (None, ""):
            changes[field.name] = right
    return msgspec.structs.replace(first, **changes)


def _merge_facts(name: str, first: Known[Any] | Unknown, second: Known[Any] | Unknown) -> Known[Any] | Unknown:
    if isinstance(first, Unknown) or isinstance(second, Unknown):
        if isinstance(second, Unknown) and first != NOT_READ:
            return first
        return second if isinstance(first, Unknown) else first
    if not isinstance(first.value, tuple):
        return first
    if name in _JOINED:
        merged: tuple[Any, ...] = tuple(dict.fromkeys(first.value + second.value))
    elif any(isinstance(entry, Card) for entry in first.value):
        merged = _merge_cards(first.value, second.value)
    elif first.value and type(first.value[0]) in _KEYS:
        merged = _merge_keyed(first.value, second.value, _KEYS[type(first.value[0])])
    else:
        return first
    source = first.source if second.source in first.source else f"{first.source}, {second.source}"
    return Known(merged, source, first.unit)


def _merge_keyed(first: tuple[Any, ...], second: tuple[Any, ...], key_of: Callable[[Any], str]) -> tuple[Any, ...]:
    merged = {key_of(entry): entry for entry in first}
    for entry in second:
        key = key_of(entry)
        merged[key] = _merge(merged[key], entry) if key in merged else entry
    return tuple(merged.values())


def _merge_cards(first: tuple[Card, ...], second: tuple[Card, ...]) -> tuple[Card, ...]:
    merged = list(first)
    for card in second:
        position = next((position for same in _SAME for position, seen in enumerate(merged) if same(seen, card)), None)
        if position is None:
            merged.append(card)
        else:
            merged[position] = _merge_card(merged[position], card)
    return tuple(sorted(merged, key=lambda card: (card.vendor, card.index)))


def _merge_card(first: Card, second: Card) -> Card:
    merged = _merge(first, second)
    if isinstance(first.name, Known) and first.name.value.endswith("...") and isinstance(second.name, Known):
        # nvidia-smi's table truncates long names; another report may have the whole name.
        return msgspec.structs.replace(merged, name=second.name)
    return merged


def _same_uuid(first: Card, second: Card) -> bool:
    if not (isinstance(first.uuid, Known) and isinstance(second.uuid, Known)):
        return False
    # Users blank out their UUIDs before they paste them: GPU-00000000-0000-… does not identify a card.
    return first.uuid.value == second.uuid.value and bool(first.uuid.value.strip("GPUMI0-xX"))


def _same_bus_id(first: Card, second: Card) -> bool:
    if not (isinstance(first.bus_id, Known) and isinstance(second.bus_id, Known)):
        return False
    # 00000000:01:00.0 and 0000:01:00.0 are the same address.
    return first.bus_id.value.lower().lstrip("0") == second.bus_id.value.lower().lstrip("0")


def _same_index(first: Card, second: Card) -> bool:
    return first.vendor == second.vendor and first.index == second.index


_SAME = (_same_uuid, _same_bus_id, _same_index)
