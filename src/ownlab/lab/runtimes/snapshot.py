"""The snapshot that the panel and `ownlab runtimes` show: runtimes, cards and their holders, and what is free."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ownlab.config.limits import Limits, limits_of, stricter
from ownlab.config.settings import LabOptions
from ownlab.errors import DeviceUnusable, StoreError
from ownlab.instruments.top.records import CardSample
from ownlab.lab.journal.storage import journal_folder, read_trouble
from ownlab.lab.runtimes.end_reasons import read_reason
from ownlab.lab.runtimes.inventory import is_living, person, runtimes_with_a_folder
from ownlab.lab.runtimes.live_usage import LiveUsage
from ownlab.lab.runtimes.records import CardHolder, CardShare, CardState, Point, Runtime, RuntimeType, Snapshot
from ownlab.lab.runtimes.runtimes_on_nodes import OnNode
from ownlab.lab.store.lease_scheduler import Holding, allocate, check_possible, explain_wait
from ownlab.lab.store.locks_only import AnyStore
from ownlab.lab.store.rows import CardRequest, Device, Lease, RuntimeRow
from ownlab.text import text
from ownlab.units import PARTS, format_seconds

__all__ = ["take_snapshot", "with_availability"]

_NEW_REQUEST = ""  # stands in the queue for a new request


class _StoreView:
    """Runtimes, leases and devices at one moment."""

    def __init__(self, rows: Sequence[RuntimeRow], leases: Sequence[Lease], devices: Sequence[Device]) -> None:
        self.rows = {row.id: row for row in rows}
        self.leases = [lease for lease in leases if lease.runtime in self.rows]
        self.devices = {device.uuid: device for device in devices}
        self.booked: dict[str, int] = {device.uuid: 0 for device in devices}
        for lease in self.leases:
            self.booked[lease.device] = self.booked.get(lease.device, 0) + lease.parts
        served = {lease.runtime for lease in self.leases}
        self.queue = [
            row for row in rows if row.state == "waiting" and row.want.kind is not None and row.id not in served
        ]

    def place(self, row: RuntimeRow) -> int | None:
        """The position in the queue of its kind; 1 is next."""
        same_kind = [other.id for other in self.queue if other.want.kind == row.want.kind]
        return same_kind.index(row.id) + 1 if row.id in same_kind else None

    def why_taken(self, want: CardRequest, before: int) -> str:
        holdings = [
            Holding(lease.device, lease.parts, _since(self.rows[lease.runtime]), self.rows[lease.runtime])
            for lease in self.leases
        ]
        return explain_wait(want, tuple(self.devices.values()), holdings, before)

    def why_not(self, want: CardRequest) -> str:
        """Why a new request would have to wait; "" if it would not."""
        devices = tuple(self.devices.values())
        try:
            check_possible(want, devices)
        except DeviceUnusable as exc:
            return exc.message
        queue = [*((row.id, row.want) for row in self.queue), (_NEW_REQUEST, want)]
        if allocate(_NEW_REQUEST, queue, devices, self.booked) is not None:
            return ""
        return self.why_taken(want, sum(row.want.kind == want.kind for row in self.queue))


def take_snapshot(
    store: AnyStore,
    devices: Sequence[Device],
    options: LabOptions,
    types: Sequence[RuntimeType],
    usage: LiveUsage,
    *,
    labs: Mapping[str, str] | None = None,
    notices: Sequence[str] = (),
    history: Sequence[Point] = (),
) -> Snapshot:
    """Take a snapshot. `labs` maps the id of each lab to its folder. Dead runtimes are reaped first."""
    warnings = [*notices, *usage.notices, *([store.trouble] if store.trouble else ())]
    limits = limits_of(options)
    try:
        store.reap()
        limits = stricter(limits, store.limits())
    except StoreError as exc:  # the rest can still be shown
        warnings.append(exc.message)
    view = _view(store, devices)
    warnings += [notice for row in view.rows.values() if (notice := _journal_warning(row))]
    warnings += list(dict.fromkeys(notice for each in usage.nodes.values() for notice in _node_notices(each)))
    quota_reason = _why_no_card(store, limits)
    return Snapshot(
        at=usage.at,
        person=person(),
        store=str(store.folder),
        shared=store.shared,
        runtimes=tuple(_runtime(row, view, store, limits, usage, labs or {}) for row in view.rows.values()),
        cards=tuple(_card(device, view, usage) for device in devices),
        types=tuple(_type(each, view, quota_reason) for each in types),
        host=usage.host,
        notices=tuple(warnings),
        history=tuple(history),
    )


def with_availability(
    types: Sequence[RuntimeType], store: AnyStore, devices: Sequence[Device], options: LabOptions
) -> tuple[RuntimeType, ...]:
    """Return the types, each with whether it can start now."""
    store.reap()
    view = _view(store, devices)
    quota_reason = _why_no_card(store, stricter(limits_of(options), store.limits()))
    return tuple(_type(each, view, quota_reason) for each in types)


def _view(store: AnyStore, devices: Sequence[Device]) -> _StoreView:
    rows = store.runtimes()
    return _StoreView([*rows, *runtimes_with_a_folder({row.id for row in rows})], store.leases(), devices)


def _journal_warning(row: RuntimeRow) -> str:
    """A warning that a runtime of this user cannot write its journal; "" if it can."""
    if row.uid != os.geteuid() or row.lab is None:
        return ""
    trouble = read_trouble(journal_folder(row.id))
    if not trouble:
        return ""
    name = os.path.basename(row.notebook) or row.id
    return text("{name}: {problem}. Open pages still show all output.", name=name, problem=trouble)


def _node_notices(on_node: OnNode) -> list[str]:
    notices = on_node.usage.notices if on_node.usage is not None else ()
    return [text("{node}: {notice}", node=on_node.node, notice=notice) for notice in notices]


def _runtime(
    row: RuntimeRow, view: _StoreView, store: AnyStore, limits: Limits, usage: LiveUsage, labs: Mapping[str, str]
) -> Runtime:
    now = time.time()
    place = view.place(row)
    shares = tuple(_share(lease, row, view, usage) for lease in view.leases if lease.runtime == row.id)
    vram = [share.vram for share in shares if share.vram is not None]
    busy = [share.utilisation for share in shares if share.utilisation is not None]
    alive = is_living(store, row)
    why = view.why_taken(row.want, place - 1) if place is not None else ""
    if row.state == "waiting" and row.want.kind is None:
        why = read_reason(row.ends_why)  # in the queue of a cluster
    runtime = Runtime(
        id=row.id,
        person=row.person,
        mine=os.geteuid() in (0, row.uid),
        notebook=row.notebook,
        lab=labs.get(row.lab) if row.lab is not None else None,
        type=row.type,
        label=row.label,
        state=row.state if alive else "ending",
        place=place,
        why=why if alive else text("It has ended, but some of its processes are still running."),
        queued_at=row.queued_at,
        started_at=row.started_at,
        busy=row.busy,
        changed_at=row.changed_at,
        cards=shares,
        ram=usage.ram.get(row.id),
        vram=sum(vram) if shares and len(vram) == len(shares) else None,
        ends_at=row.ends_at,
        ends_why=read_reason(row.ends_why),
        warned=row.ends_at is not None and row.ends_at - now <= limits.warn,
        may_extend=row.may_extend,
        units_per_hour=row.units_per_hour,
        units=max(0.0, now - row.started_at) / 3600 * row.units_per_hour if row.started_at is not None else 0.0,
        kernel_pid=row.kernel.pid if row.kernel is not None else None,
        cpu=usage.cpu.get(row.id),
        utilisation=sum(busy) / len(busy) if busy else None,
    )
    on_node = usage.nodes.get(row.id)
    return runtime if on_node is None else _on_node(runtime, on_node)


def _on_node(runtime: Runtime, on_node: OnNode) -> Runtime:
    """A runtime on a node of a cluster: what its relay uses here is not its own."""
    cards, usage = on_node.cards, on_node.usage
    vram = [card.vram for card in cards if card.vram is not None]
    busy = [card.utilisation for card in cards if card.utilisation is not None]
    return replace(
        runtime,
        node=on_node.node,
        host=usage.host if usage is not None else None,
        cards=cards,
        ram=usage.ram if usage is not None else None,
        cpu=usage.cpu if usage is not None else None,
        vram=sum(vram) if cards and len(vram) == len(cards) else None,
        utilisation=sum(busy) / len(busy) if busy else None,
    )


def _share(lease: Lease, row: RuntimeRow, view: _StoreView, usage: LiveUsage) -> CardShare:
    device = view.devices.get(lease.device)
    return CardShare(
        uuid=lease.device,
        index=device.number if device is not None else None,
        name=device.name if device is not None else row.want.kind or "",
        parts=lease.parts,
        vram=usage.vram.get((row.id, lease.device)),
        booked=device.memory * lease.parts // PARTS if device is not None and device.memory is not None else None,
        utilisation=_utilisation(lease, device, usage),
    )


def _utilisation(lease: Lease, device: Device | None, usage: LiveUsage) -> float | None:
    """Return what the driver reports for this runtime's processes, else the card's utilisation if no one else uses it."""
    share = usage.shares.get((lease.runtime, lease.device))
    card = usage.cards.get(lease.device)
    if share is not None or card is None:
        return share
    alone = device is not None and not device.strangers and lease.parts == PARTS
    return card.utilisation if alone or not card.utilisation else None


def _card(device: Device, view: _StoreView, usage: LiveUsage) -> CardState:
    reading = usage.cards.get(device.uuid, CardSample(device.uuid, device.number))
    return CardState(
        uuid=device.uuid,
        vendor=device.vendor,
        index=device.number,
        name=device.name,
        memory=device.memory,
        memory_used=reading.memory_used,
        utilisation=None if reading.utilisation is None else round(reading.utilisation),
        free_parts=0 if device.strangers else max(0, PARTS - view.booked[device.uuid]),
        holders=tuple(_holder(lease, view) for lease in view.leases if lease.device == device.uuid),
        strangers=device.strangers,
        saturation=reading.saturation,
        no_saturation=reading.no_saturation,
        power=reading.power,
        power_limit=reading.power_limit,
        temperature=reading.temperature,
        verdict=usage.verdicts.get(reading.uuid),
    )


def _holder(lease: Lease, view: _StoreView) -> CardHolder:
    row = view.rows[lease.runtime]
    return CardHolder(row.id, row.person, row.notebook, lease.parts, _since(row))


def _type(kind: RuntimeType, view: _StoreView, quota_reason: str) -> RuntimeType:
    if kind.engine:  # whoever listed it has asked the cluster
        return kind
    if kind.kind is None:
        return replace(kind, free=True, why_not="")
    why_not = quota_reason or view.why_not(CardRequest(kind.kind, kind.cards, kind.parts))
    return replace(kind, free=not why_not, why_not=why_not)


def _why_no_card(store: AnyStore, limits: Limits) -> str:
    """Why this user gets no card at all; "" if that is not so."""
    if store.trouble:
        return text("the store cannot be used")
    quota = limits.card_seconds_per_week
    if quota is None or store.card_seconds_this_week(os.geteuid()) < quota:
        return ""
    return text("this week's {time} of card time are used up", time=format_seconds(quota))


def _since(row: RuntimeRow) -> float:
    return row.started_at if row.started_at is not None else row.queued_at
