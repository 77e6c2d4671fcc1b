"""The scheduler of leases: which devices a request gets, whose turn it is, and why a request has to wait.

Pure functions over rows and devices. `Store.acquire` calls them inside its transaction.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from ownlab.errors import DeviceUnusable
from ownlab.lab.store.rows import CardRequest, Device, RuntimeRow
from ownlab.text import Text, listing, plural, template, text
from ownlab.units import PARTS

__all__ = ["Holding", "allocate", "check_possible", "choose_devices", "explain_wait", "share_label"]

_FRACTIONS = {12: "", 9: "¾", 8: "⅔", 6: "½", 4: "⅓", 3: "¼", 2: "⅙"}


class Holding(NamedTuple):
    """A device, or a part of it, that a runtime leases."""

    device: str
    parts: int
    since: float
    row: RuntimeRow
    left: str = ""  # a clause about processes that outlived the runtime


def check_possible(want: CardRequest, devices: Sequence[Device]) -> None:
    """Raise DeviceUnusable if waiting would not help: the machine has no such cards, or too few."""
    if len(_candidates(want, devices)) >= want.cards:
        return
    same_kind = [device for device in devices if device.name == want.kind]
    if len(same_kind) >= want.cards:
        raise DeviceUnusable(
            text(
                "{kind} can only be leased as a whole, but {share} of it was requested.",
                kind=want.kind,
                share=share_label(want.parts),
            )
        )
    hint = text("Choose another runtime type; `ownlab machine` shows what is available.")
    if same_kind:
        raise DeviceUnusable(
            text(
                "This machine has {count} × {kind}, but {cards} were requested.",
                count=len(same_kind),
                kind=want.kind,
                cards=want.cards,
            ),
            hint=hint,
        )
    if not devices:
        raise DeviceUnusable(text("This machine has no {kind}; it has no cards.", kind=want.kind), hint=hint)
    others = listing(_count_by_name(devices))
    raise DeviceUnusable(text("This machine has no {kind}; it has {others}.", kind=want.kind, others=others), hint=hint)


def choose_devices(
    want: CardRequest, devices: Sequence[Device], booked: Mapping[str, int]
) -> tuple[Device, ...] | None:
    """Return the devices for a request, or None if they are not free now.

    Parts of cards go where the least room is left, so that whole cards stay whole for requests that need one.
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
    """Return the devices that `runtime` gets now, or None if it has to wait.

    The queue is walked from its head. A request that can be served reserves its devices, even if its runtime has not
    asked yet. A request that cannot be served blocks later requests for the same kind, so that large requests are not
    overtaken for ever.
    """
    taken = dict(booked)
    blocked: set[str | None] = set()
    for name, want in queue:
        if len(_candidates(want, devices)) < want.cards:
            continue  # it will be refused when it asks: it must not block others
        chosen = None if want.kind in blocked else choose_devices(want, devices, taken)
        if name == runtime:
            return chosen
        if chosen is None:
            blocked.add(want.kind)
        for device in chosen or ():
            taken[device.uuid] = taken.get(device.uuid, 0) + want.parts
    return None


def explain_wait(want: CardRequest, devices: Sequence[Device], holdings: Sequence[Holding], before: int) -> str:
    """Describe who uses the cards of the requested kind since when, and how many requests are ahead."""
    clauses: list[Text] = []
    for device in sorted(devices, key=lambda device: (device.number, device.uuid)):
        if device.name != want.kind:
            continue
        users = [_describe_holder(holding) for holding in holdings if holding.device == device.uuid]
        users += [text("used without a lease by {process}", process=stranger) for stranger in device.strangers]
        if users:
            card = template("card {number}: {users}") if clauses else template("card {number} ({name}): {users}")
            joined = listing(users, "{items}, and {last}")
            clauses.append(card.fill(number=device.number, name=device.name, users=joined))
    if before:
        clauses.append(plural(before, "1 request is ahead of this one", "{n} requests are ahead of this one"))
    return reduce(lambda left, right: text("{left}; {right}", left=left, right=right), clauses) if clauses else ""


def share_label(parts: int) -> str:
    """Return a share of a card as a fraction: 6 -> "½"; "" for a whole card."""
    return _FRACTIONS.get(parts, f"{parts}/{PARTS}")


def _describe_holder(holding: Holding) -> Text:
    row = holding.row
    values = {
        "user": row.person,
        "notebook": os.path.basename(row.notebook) or row.label,
        "share": share_label(holding.parts),
        "since": _format_time(holding.since),
        "left": holding.left,
    }
    if holding.left and values["share"]:
        return text("{user}, {notebook}, {share}, has ended, but {left}", **values)
    if holding.left:
        return text("{user}, {notebook}, has ended, but {left}", **values)
    if values["share"]:
        return text("{user}, {notebook}, {share}, since {since}", **values)
    return text("{user}, {notebook}, since {since}", **values)


def _format_time(at: float) -> str:
    then, now = time.localtime(at), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def _candidates(want: CardRequest, devices: Sequence[Device]) -> list[Device]:
    return [device for device in devices if device.name == want.kind and (want.parts == PARTS or not device.whole_only)]


def _count_by_name(devices: Sequence[Device]) -> list[str]:
    names = [device.name for device in devices]
    return [f"{names.count(name)} × {name}" for name in dict.fromkeys(names)]
