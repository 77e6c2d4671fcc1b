"""Which devices for which request, and whose turn it is: pure decisions, and their reasons in words."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ownlab.errors import DeviceUnusable
from ownlab.lab.store.rows import CardRequest, Device, RuntimeRow
from ownlab.units import PARTS

__all__ = ["Holding", "allocate", "check_possible", "choose_devices", "explain_wait", "share_label"]

_FRACTIONS = {12: "", 9: "¾", 8: "⅔", 6: "½", 4: "⅓", 3: "¼", 2: "⅙"}


class Holding(NamedTuple):
    """A device in the hands of a runtime, for those who are told about it."""

    device: str
    parts: int
    since: float
    row: RuntimeRow
    left: str = ""  # processes that outlived the runtime, in words


def check_possible(want: CardRequest, devices: Sequence[Device]) -> None:
    """Raise where no waiting would help: the machine has no such cards, or not so many."""
    if len(_candidates(want, devices)) >= want.cards:
        return
    there = [device for device in devices if device.name == want.kind]
    if len(there) >= want.cards:
        raise DeviceUnusable(f"{want.kind} is given as a whole only; {share_label(want.parts)} of it was asked for.")
    hint = "Choose another runtime type; `ownlab machine` shows what is there."
    if there:
        raise DeviceUnusable(f"This machine has {len(there)} × {want.kind}; {want.cards} were asked for.", hint=hint)
    others = _count_by_name(devices)
    raise DeviceUnusable(f"This machine has no {want.kind}; it has {others or 'no card at all'}.", hint=hint)


def choose_devices(
    want: CardRequest, devices: Sequence[Device], booked: Mapping[str, int]
) -> tuple[Device, ...] | None:
    """The devices that a request gets, where it could have them now.

    A part of a card is taken where the room is tightest, so that whole cards stay whole for those who need one.
    """
    fitting = [
        device
        for device in _candidates(want, devices)
        if not device.strangers and booked.get(device.uuid, 0) + want.parts <= PARTS
    ]
    fitting.sort(key=lambda device: (-booked.get(device.uuid, 0), device.number, device.uuid))
    chosen = sorted(fitting[: want.cards], key=lambda device: (device.number, device.uuid))
    return tuple(chosen) if len(chosen) == want.cards else None


def allocate(
    runtime: str, queue: Iterable[tuple[str, CardRequest]], devices: Sequence[Device], booked: Mapping[str, int]
) -> tuple[Device, ...] | None:
    """What `runtime` gets if it asks now; None: it has to wait.

    The queue is walked from its head. Who could be served takes its devices in thought, also where it has not asked
    yet; who cannot be served closes its kind to all behind, so that a big request is not overtaken for ever.
    """
    taken = dict(booked)
    closed: set[str | None] = set()
    for name, want in queue:
        if len(_candidates(want, devices)) < want.cards:
            continue  # it will be refused when it asks: it must not keep the others waiting
        chosen = None if want.kind in closed else choose_devices(want, devices, taken)
        if name == runtime:
            return chosen
        if chosen is None:
            closed.add(want.kind)
        for device in chosen or ():
            taken[device.uuid] = taken.get(device.uuid, 0) + want.parts
    return None


def explain_wait(want: CardRequest, devices: Sequence[Device], holdings: Sequence[Holding], before: int) -> str:
    """Who has the cards of that kind since when, and how many wait before."""
    told: list[str] = []
    for device in sorted(devices, key=lambda device: (device.number, device.uuid)):
        if device.name != want.kind:
            continue
        users = [_holder(holding) for holding in holdings if holding.device == device.uuid]
        users += [f"used without a lease by {stranger}" for stranger in device.strangers]
        if users:
            name = "" if told else f" ({device.name})"
            told.append(f"card {device.number}{name}: {', and '.join(users)}")
    if before:
        told.append(f"{before} {'request waits' if before == 1 else 'requests wait'} before this one")
    return "; ".join(told)


def share_label(parts: int) -> str:
    """6 -> "½"; "" for a whole card."""
    return _FRACTIONS.get(parts, f"{parts}/{PARTS}")


def _holder(holding: Holding) -> str:
    row = holding.row
    words = [row.person, os.path.basename(row.notebook) or row.label, share_label(holding.parts)]
    words.append(f"has ended, but {holding.left}" if holding.left else f"since {_clock(holding.since)}")
    return ", ".join(word for word in words if word)


def _clock(at: float) -> str:
    then, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def _candidates(want: CardRequest, devices: Sequence[Device]) -> list[Device]:
    return [device for device in devices if device.name == want.kind and (want.parts == PARTS or not device.whole_only)]


def _count_by_name(devices: Sequence[Device]) -> str:
    names = [device.name for device in devices]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))
