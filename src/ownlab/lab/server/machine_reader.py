"""Reads the store, the cards, the runtime types and their usage for a snapshot. Blocking."""

from __future__ import annotations

import os
import shutil
import socket
import time

from msgspec.structs import replace

from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import LabError, OwnlabError, StoreError
from ownlab.lab.engines.interface import Engine
from ownlab.lab.engines.registry import DEFAULT_ENGINE, find_engine
from ownlab.lab.environments.registry import environments_file, list_environments
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.kernelspecs import read_specs, write_specs, write_types
from ownlab.lab.runtimes.live_usage import UsageSampler
from ownlab.lab.runtimes.records import CardPoint, HostState, Point, RuntimePoint, RuntimeType, Snapshot
from ownlab.lab.runtimes.runtime_types import runtime_types
from ownlab.lab.runtimes.runtimes_on_nodes import NodeReader
from ownlab.lab.runtimes.snapshot import take_snapshot
from ownlab.lab.service.labs import labs
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.locks_only import AnyStore, LocksOnly, open_any
from ownlab.lab.store.rows import Device
from ownlab.text import sentence, sentences

__all__ = ["MachineReader", "ensure_specs", "history_point", "open_store"]

# Seconds between two reads of the list of cards and their users: it rarely changes, and each read starts a child
# process.
_CARDS_INTERVAL = 20.0
_BETWEEN_ASKING = 0.2


def open_store(options: LabOptions | None = None) -> AnyStore:
    """Open the store of this user; if it cannot be used, what the locks of runtimes say (`trouble` says why)."""
    return open_any(choose_store(options or resolve_lab_options(), os.environ).folder)


class MachineReader:
    """Reads snapshots, and keeps what they need open. For use by one thread."""

    def __init__(self, folder: str = "") -> None:
        """`folder`: the lab's, whose disk is measured; "": none is."""
        self._folder = folder
        self._options = resolve_lab_options()
        self._notice = choose_store(self._options, os.environ).notice
        self._store = open_store(self._options)
        self._sampler, self._nodes = UsageSampler(), NodeReader()
        self._devices: tuple[Device, ...] = ()
        self._types: tuple[RuntimeType, ...] = ()
        self._kernelspec_error = ""
        self._cards_at = float("-inf")
        self._cluster_types: tuple[RuntimeType, ...] = ()
        self._cluster_error = ""
        self._engine: Engine | None = None  # of the cluster
        self._environments = 0  # when the list of environments was changed
        self.last_stamp: tuple[int, ...] = ()  # the store's stamp after the last read

    def read(self) -> Snapshot:
        """Return the current state of runtimes and cards."""
        if self._store.trouble or not self._store.is_current():  # it may have been repaired, or replaced
            self._store.close()
            self._store = open_store(self._options)
        try:
            return self._read()
        except StoreError as exc:
            self._store.close()
            self._store = LocksOnly(self._store.folder, exc)
            return self._read()

    def read_with_nodes(self, seconds: float) -> Snapshot:
        """As `read`, and wait so long for the first figures of runtimes on nodes of a cluster: nodes measure when they are asked."""
        deadline = time.monotonic() + seconds
        while True:
            snapshot = self.read()
            missing = any(each.node and each.host is None and each.state == "running" for each in snapshot.runtimes)
            if not missing or time.monotonic() >= deadline:
                return snapshot
            time.sleep(_BETWEEN_ASKING)

    def _read(self) -> Snapshot:
        self._refresh_cards()
        rows = self._store.runtimes()
        usage = replace(self._sampler.sample(rows, self._devices), nodes=self._nodes.read(rows))
        if self._folder:
            usage = replace(usage, host=_with_disk(usage.host, self._folder))
        snapshot = take_snapshot(
            self._store,
            self._devices,
            self._options,
            self._types,
            usage,
            labs={lab.id: lab.folder for lab in labs()},
            notices=[notice for notice in (self._notice, self._kernelspec_error, self._cluster_error) if notice],
        )
        self.last_stamp = self.stamp()
        return snapshot

    def metrics(self) -> bytes:
        """Return the last read in the Prometheus format; empty before the first."""
        from ownlab.instruments.top.prometheus import exposition  # most servers never need it

        sample = self._sampler.latest
        return b"" if sample is None else exposition(sample, self._sampler.verdicts, hostname=socket.gethostname())

    def is_fresh(self, snapshot: Snapshot, seconds: float) -> bool:
        """Return whether a snapshot is younger than this. False if the clock was set back."""
        return 0 <= time.time() - snapshot.at < seconds

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes when the store is written to. Cheap."""
        return tuple(_modified_at(f"{self._store.folder}/db/ownlab.db{suffix}") for suffix in ("", "-wal"))

    def close(self) -> None:
        """Close the store and the sampler."""
        self._sampler.close()
        self._store.close()

    def _refresh_cards(self) -> None:
        environments = _modified_at(environments_file())
        recent = time.monotonic() - self._cards_at < _CARDS_INTERVAL
        if recent and environments == self._environments:
            return
        if not recent:
            self._devices = read_devices()
            self._cards_at = time.monotonic()
        self._environments = environments
        types = runtime_types(self._devices, list_environments(), self._options) + self._read_cluster()
        if types == self._types:
            return
        self._types, self._kernelspec_error = types, ""
        try:
            write_types(types)
        except LabError as exc:
            # The kernelspecs belong to an administrator: only the types listed there can be started.
            self._types = read_specs(kernels_folder()) + self._cluster_types
            self._kernelspec_error = sentences(sentence(exc.message), exc.hint)

    def _read_cluster(self) -> tuple[RuntimeType, ...]:
        """What the engine of the lab offers beside this machine; the last list while it does not answer."""
        if self._options.lab_engine != DEFAULT_ENGINE:
            try:
                self._engine = self._engine or find_engine(self._options.lab_engine, os.environ, self._options)
                self._cluster_types = self._engine.notebook_types()
                self._cluster_error = ""
            except OwnlabError as exc:
                self._cluster_error = sentences(sentence(exc.message), exc.hint)
        return self._cluster_types


def ensure_specs() -> None:
    """Write the CPU runtime type on the very first start, so that the page has one until the cards have been read."""
    folder = kernels_folder()
    if not read_specs(folder):
        write_specs(runtime_types((), list_environments(), resolve_lab_options()), folder)


def _with_disk(host: HostState, folder: str) -> HostState:
    try:
        disk = shutil.disk_usage(folder)
    except OSError:  # the folder was removed
        return host
    # As `df` counts: what only root may use counts as used.
    return replace(host, disk=disk.total, disk_used=disk.total - disk.free)


def history_point(snapshot: Snapshot) -> Point:
    """Return a snapshot as a point of the history graph."""
    used = [card.memory_used for card in snapshot.cards if card.memory_used is not None]
    busy = [card.utilisation for card in snapshot.cards if card.utilisation is not None]
    return Point(
        at=snapshot.at,
        cpu=snapshot.host.cpu,
        memory_used=snapshot.host.memory_used,
        vram_used=sum(used) if used else None,
        utilisation=sum(busy) / len(busy) if busy else None,
        cards=tuple(
            CardPoint(card.uuid, card.utilisation, _rounded(card.saturation.sm if card.saturation else None))
            for card in snapshot.cards
        ),
        runtimes=tuple(
            RuntimePoint(runtime.id, _rounded(runtime.cpu), _rounded(runtime.utilisation))
            for runtime in snapshot.runtimes
            if runtime.state == "running"
        ),
    )


def _rounded(percentage: float | None) -> float | None:
    """Round for the graph: the whole history is sent to each page that opens."""
    return None if percentage is None else round(percentage, 1)


def _modified_at(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:  # there is no write-ahead log while nobody writes; the folder may be damaged
        return 0
