"""Everything that the panel and `ownlab runtimes` show, put together: who runs what, on which card, and what is free."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ownlab.config.limits import Limits, limits_of, stricter
from ownlab.config.settings import LabOptions
from ownlab.errors import DeviceUnusable, StoreError
from ownlab.instruments.top.records import CardSample
from ownlab.lab.journal.storage import journal_folder, read_trouble
from ownlab.lab.runtimes.live_usage import Figures
from ownlab.lab.runtimes.records import CardHolder, CardShare, CardState, Point, Runtime, RuntimeType, Snapshot
from ownlab.lab.store.rows import Device, Lease, RuntimeRow, Want
from ownlab.lab.store.scheduler import Holding, allot, explain, refuse_the_impossible
from ownlab.lab.store.store import Store
from ownlab.units import PARTS, format_seconds

__all__ = ["take_snapshot", "with_freedom"]

_ASKER = ""  # the name, in the queue, of one who only asks whether a type is free


class _Scene:
    """The store at one moment, joined."""

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
        """In the queue of its kind; 1 is next."""
        same_kind = [other.id for other in self.queue if other.want.kind == row.want.kind]
        return same_kind.index(row.id) + 1 if row.id in same_kind else None

    def why_taken(self, want: Want, before: int) -> str:
        holdings = [
            Holding(lease.device, lease.parts, _since(self.rows[lease.runtime]), self.rows[lease.runtime])
            for lease in self.leases
        ]
        return explain(want, tuple(self.devices.values()), holdings, before)

    def why_not(self, want: Want) -> str:
        """Why a new request would not be served at once; "" where it would."""
        devices = tuple(self.devices.values())
        try:
            refuse_the_impossible(want, devices)
        except DeviceUnusable as exc:
            return exc.message
        queue = [*((row.id, row.want) for row in self.queue), (_ASKER, want)]
        if allot(_ASKER, queue, devices, self.booked) is not None:
            return ""
        return self.why_taken(want, sum(row.want.kind == want.kind for row in self.queue))


def take_snapshot(
    store: Store,
    devices: Sequence[Device],
    options: LabOptions,
    types: Sequence[RuntimeType],
    figures: Figures,
    *,
    labs: Mapping[str, str] | None = None,
    notices: Sequence[str] = (),
    history: Sequence[Point] = (),
) -> Snapshot:
    """How things stand now. `labs` tells the folder of each lab by its id. Frees, on the way, what the dead have left."""
    told = [*notices, *figures.notices]
    try:
        store.reap()
    except StoreError as exc:  # what is there can still be shown
        told.append(exc.message)
    limits = stricter(limits_of(options), store.limits())
    scene = _Scene(store.runtimes(), store.leases(), devices)
    told += [notice for row in scene.rows.values() if (notice := _unkept(row))]
    spent = _why_spent(store, limits)
    return Snapshot(
        at=figures.at,
        person=_person(),
        store=str(store.folder),
        shared=store.shared,
        runtimes=tuple(_runtime(row, scene, store, limits, figures, labs or {}) for row in scene.rows.values()),
        cards=tuple(_card(device, scene, figures) for device in devices),
        types=tuple(_type(each, scene, spent) for each in types),
        host=figures.host,
        notices=tuple(told),
        history=tuple(history),
    )


def with_freedom(
    types: Sequence[RuntimeType], store: Store, devices: Sequence[Device], options: LabOptions
) -> tuple[RuntimeType, ...]:
    """The same types, each with whether it could start now."""
    store.reap()
    scene = _Scene(store.runtimes(), store.leases(), devices)
    spent = _why_spent(store, stricter(limits_of(options), store.limits()))
    return tuple(_type(each, scene, spent) for each in types)


def _unkept(row: RuntimeRow) -> str:
    """That a runtime of this person cannot write down what it says; "" where it can."""
    if row.uid != os.geteuid() or row.lab is None:
        return ""
    trouble = read_trouble(journal_folder(row.id))
    return (
        f"{os.path.basename(row.notebook) or row.id}: {trouble}. A page that is open shows it all the same."
        if trouble
        else ""
    )


def _runtime(
    row: RuntimeRow, scene: _Scene, store: Store, limits: Limits, figures: Figures, labs: Mapping[str, str]
) -> Runtime:
    now = time.time()
    place = scene.place(row)
    shares = tuple(_share(lease, row, scene, figures) for lease in scene.leases if lease.runtime == row.id)
    vram = [share.vram for share in shares if share.vram is not None]
    busy = [share.utilisation for share in shares if share.utilisation is not None]
    alive = store.alive(row.id)
    why = scene.why_taken(row.want, place - 1) if place is not None else ""
    return Runtime(
        id=row.id,
        person=row.person,
        mine=os.geteuid() in (0, row.uid),
        notebook=row.notebook,
        lab=labs.get(row.lab) if row.lab is not None else None,
        type=row.type,
        label=row.label,
        state=row.state if alive else "ending",
        place=place,
        why=why if alive else "It has ended, but processes of it are left.",
        queued_at=row.queued_at,
        started_at=row.started_at,
        busy=row.busy,
        changed_at=row.changed_at,
        cards=shares,
        ram=figures.ram.get(row.id),
        vram=sum(vram) if shares and len(vram) == len(shares) else None,
        ends_at=row.ends_at,
        ends_why=row.ends_why,
        warned=row.ends_at is not None and row.ends_at - now <= limits.warn,
        may_extend=row.may_extend,
        units_per_hour=row.units_per_hour,
        units=max(0.0, now - row.started_at) / 3600 * row.units_per_hour if row.started_at is not None else 0.0,
        kernel_pid=row.kernel.pid if row.kernel is not None else None,
        cpu=figures.cpu.get(row.id),
        utilisation=sum(busy) / len(busy) if busy else None,
    )


def _share(lease: Lease, row: RuntimeRow, scene: _Scene, figures: Figures) -> CardShare:
    device = scene.devices.get(lease.device)
    return CardShare(
        uuid=lease.device,
        index=device.number if device is not None else None,
        name=device.name if device is not None else row.want.kind or "",
        parts=lease.parts,
        vram=figures.vram.get((row.id, lease.device)),
        booked=device.memory * lease.parts // PARTS if device is not None and device.memory is not None else None,
        utilisation=_utilisation(lease, device, figures),
    )


def _utilisation(lease: Lease, device: Device | None, figures: Figures) -> float | None:
    """What the driver tells of this runtime's processes; else what follows from all that the card does."""
    told = figures.shares.get((lease.runtime, lease.device))
    card = figures.cards.get(lease.device)
    if told is not None or card is None:
        return told
    alone = device is not None and not device.strangers and lease.parts == PARTS
    return card.utilisation if alone or not card.utilisation else None


def _card(device: Device, scene: _Scene, figures: Figures) -> CardState:
    reading = figures.cards.get(device.uuid, CardSample(device.uuid, device.number))
    return CardState(
        uuid=device.uuid,
        vendor=device.vendor,
        index=device.number,
        name=device.name,
        memory=device.memory,
        memory_used=reading.memory_used,
        utilisation=None if reading.utilisation is None else round(reading.utilisation),
        free_parts=0 if device.strangers else PARTS - scene.booked[device.uuid],
        holders=tuple(_holder(lease, scene) for lease in scene.leases if lease.device == device.uuid),
        strangers=device.strangers,
        saturation=reading.saturation,
        no_saturation=reading.no_saturation,
        power=reading.power,
        power_limit=reading.power_limit,
        temperature=reading.temperature,
        verdict=figures.verdicts.get(reading.uuid),
    )


def _holder(lease: Lease, scene: _Scene) -> CardHolder:
    row = scene.rows[lease.runtime]
    return CardHolder(row.id, row.person, row.notebook, lease.parts, _since(row))


def _type(kind: RuntimeType, scene: _Scene, spent: str) -> RuntimeType:
    if kind.kind is None:
        return replace(kind, free=True, why_not="")
    why_not = spent or scene.why_not(Want(kind.kind, kind.cards, kind.parts))
    return replace(kind, free=not why_not, why_not=why_not)


def _why_spent(store: Store, limits: Limits) -> str:
    quota = limits.card_seconds_per_week
    if quota is None or store.card_seconds_this_week(os.geteuid()) < quota:
        return ""
    return f"this week's {format_seconds(quota)} of card time are spent"


def _since(row: RuntimeRow) -> float:
    return row.started_at if row.started_at is not None else row.queued_at


def _person() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user of the host without a name in this container
        return f"uid {os.geteuid()}"
