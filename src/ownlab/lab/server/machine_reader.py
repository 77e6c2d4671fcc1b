"""What a look at the machine needs and keeps: the store, the cards, the runtime types, the figures. Blocks."""

from __future__ import annotations

import os
import socket
import time

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import LabError
from ownlab.lab.environments.registry import list_environments
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import read_specs, write_specs
from ownlab.lab.runtimes.live_usage import UsageSampler
from ownlab.lab.runtimes.records import CardPoint, Point, RuntimePoint, RuntimeType, Snapshot
from ownlab.lab.runtimes.runtime_types import runtime_types
from ownlab.lab.runtimes.snapshot import take_snapshot
from ownlab.lab.service.labs import labs
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.rows import Device
from ownlab.lab.store.store import Store

__all__ = ["Sight", "ensure_specs", "open_store", "point_of"]

# Cards come and go seldom, and asking for them and for who uses them costs a child: looked at anew after so many seconds.
_CARDS_EVERY = 20.0


def open_store(options: LabOptions | None = None) -> Store:
    """The one that this person uses."""
    return Store.open(choose_store(options or resolve_lab_options(), os.environ).folder)


class Sight:
    """For one thread."""

    def __init__(self) -> None:
        self._options = resolve_lab_options()
        self._notice = choose_store(self._options, os.environ).notice
        self._store = open_store(self._options)
        self._meter = UsageSampler()
        self._devices: tuple[Device, ...] = ()
        self._types: tuple[RuntimeType, ...] = ()
        self._trouble = ""
        self._cards_at = float("-inf")
        self.seen: tuple[int, ...] = ()  # the store's stamp after the last look

    def look(self) -> Snapshot:
        """How things stand now."""
        self._look_for_cards()
        figures = self._meter.sample(self._store.runtimes(), self._devices)
        found = take_snapshot(
            self._store,
            self._devices,
            self._options,
            self._types,
            figures,
            labs={lab.id: lab.folder for lab in labs()},
            notices=[notice for notice in (self._notice, self._trouble) if notice],
        )
        self.seen = self.stamp()
        return found

    def metrics(self) -> bytes:
        """The last look, as Prometheus reads it; nothing before the first."""
        from ownlab.instruments.top.prometheus import exposition  # for those who ask for it alone

        sample = self._meter.latest
        return b"" if sample is None else exposition(sample, self._meter.verdicts, hostname=socket.gethostname())

    def is_fresh(self, found: Snapshot, seconds: float) -> bool:
        """Whether a snapshot is no older than this; it is not where the clock was set back."""
        return 0 <= time.time() - found.at < seconds

    def stamp(self) -> tuple[int, ...]:
        """Differs when anybody has written to the store. Costs next to nothing."""
        return tuple(_changed_at(f"{self._store.folder}/db/ownlab.db{suffix}") for suffix in ("", "-wal"))

    def close(self) -> None:
        """End what it has opened."""
        self._meter.close()
        self._store.close()

    def _look_for_cards(self) -> None:
        if time.monotonic() - self._cards_at < _CARDS_EVERY:
            return
        self._devices = read_devices()
        self._cards_at = time.monotonic()
        types = runtime_types(self._devices, list_environments(), self._options)
        if types == self._types:
            return
        self._types, self._trouble = types, ""
        try:
            write_specs(types, kernels_folder())
        except LabError as exc:
            # An environment that is the administrator's: what is listed there can be started, and no more.
            self._types, self._trouble = read_specs(kernels_folder()), f"{exc.message}. {exc.hint}"


def ensure_specs() -> None:
    """On the very first start there are no runtime types: the page gets the CPU, until the cards have been read."""
    folder = kernels_folder()
    if not read_specs(folder):
        write_specs(runtime_types((), list_environments(), resolve_lab_options()), folder)


def point_of(found: Snapshot) -> Point:
    """A snapshot as a point of the graph."""
    used = [card.memory_used for card in found.cards if card.memory_used is not None]
    busy = [card.utilisation for card in found.cards if card.utilisation is not None]
    return Point(
        at=found.at,
        cpu=found.host.cpu,
        memory_used=found.host.memory_used,
        vram_used=sum(used) if used else None,
        utilisation=sum(busy) / len(busy) if busy else None,
        cards=tuple(
            CardPoint(card.uuid, card.utilisation, _short(card.saturation.sm if card.saturation else None))
            for card in found.cards
        ),
        runtimes=tuple(
            RuntimePoint(one.id, _short(one.cpu), _short(one.utilisation))
            for one in found.runtimes
            if one.state == "running"
        ),
    )


def _short(percentage: float | None) -> float | None:
    """A history is sent whole to each page that opens: a curve needs no more than this."""
    return None if percentage is None else round(percentage, 1)


def _changed_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:  # the log of a database that nobody writes to
        return 0
