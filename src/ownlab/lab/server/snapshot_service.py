"""Snapshots of runtimes and cards: taken once for all pages, and only while a page is visible.

`SnapshotService` takes them; `StreamHandler` is the websocket on which a page receives them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct
from tornado.websocket import WebSocketClosedError

from ownlab.errors import OwnlabError
from ownlab.json_encoding import encode_json
from ownlab.lab.runtimes.records import Point, Snapshot
from ownlab.lab.server.page_socket import PageSocket

if TYPE_CHECKING:
    from logging import Logger

    from ownlab.lab.server.machine_reader import MachineReader

__all__ = ["Listener", "SnapshotService", "StreamHandler", "Visibility", "encode_document"]

T = TypeVar("T")

# Receives a snapshot, or the error if there is none.
Listener = Callable[["Snapshot | OwnlabError"], None]

INTERVAL = 2.0  # seconds between two snapshots
STORE_INTERVAL = 0.5  # seconds between two checks whether the store changed; a check only reads a file's timestamp
HISTORY_SECONDS = 300.0
POINT_INTERVAL = 0.9 * INTERVAL  # least distance of two points in the history, however often snapshots are taken
CLOSE_SECONDS = 2.0  # to wait for a hanging read when the server stops
FIRST_DELAY = (
    3.0  # seconds after the server started: until then the first page and its kernel have the machine to themselves
)
FRESH_SECONDS = 1.0  # a request within this time gets the same snapshot again
_UNSUPPORTED_DATA = 1003  # RFC 6455, 7.4.1: data that cannot be accepted


class SnapshotService:
    """The snapshots of one server.

    Blocking calls (the store, /proc, the child process that reads NVML) run in its own thread.
    """

    def __init__(self, log: Logger, rename_types: Callable[[Snapshot], Snapshot], folder: str = "") -> None:
        """`folder`: the lab's."""
        self._log, self._folder = log, folder
        self._rename_types = rename_types  # replaces the names of runtime types by those that the page knows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ownlab-snapshots")
        self._reader: MachineReader | None = None
        self._listeners: dict[Listener, bool] = {}  # listener -> whether it is visible
        self._latest: Snapshot | None = None
        self._history: list[Point] = []
        self._publisher: asyncio.Task[None] | None = None
        self._wakeup = asyncio.Event()  # a listener became visible
        self._first: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Called once the server listens. Takes a first snapshot, which is slow and writes the kernelspecs."""
        self._first = asyncio.create_task(self._take_first())

    async def close(self) -> None:
        """Called when the server stops."""
        for task in (self._publisher, self._first):
            if task is not None:
                task.cancel()
        self._listeners.clear()
        if self._reader is not None:
            with contextlib.suppress(asyncio.TimeoutError):  # the process ends anyway and closes what is open
                await asyncio.wait_for(self._in_thread(self._reader.close), CLOSE_SECONDS)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- listeners

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every snapshot while it is visible. It is invisible until `set_visible`."""
        self._listeners[listener] = False

    def set_visible(self, listener: Listener, visible: bool) -> None:
        """Set whether anybody can see what `listener` shows."""
        if listener not in self._listeners:
            return
        self._listeners[listener] = visible
        if visible:
            self._wakeup.set()
        if visible and (self._publisher is None or self._publisher.done()):
            self._publisher = asyncio.create_task(self._publish())

    def unsubscribe(self, listener: Listener) -> None:
        """Remove a listener."""
        self._listeners.pop(listener, None)

    # -- reading

    async def snapshot(self) -> Snapshot:
        """Return the current state of runtimes and cards."""
        return await self._in_thread(self._take_snapshot)

    async def metrics(self) -> bytes:
        """Return the current metrics in the Prometheus format. Takes a snapshot like any other request."""
        return await self._in_thread(self._read_metrics)

    async def _publish(self) -> None:
        while any(self._listeners.values()):
            try:
                snapshot: Snapshot | OwnlabError = await self.snapshot()
            except OwnlabError as exc:
                snapshot = exc
            for listener in [listener for listener, visible in self._listeners.items() if visible]:
                listener(snapshot)
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Wait until the store changed, a listener became visible, or the interval is over."""
        before = await self._in_thread(self._stamp)
        self._wakeup.clear()
        for _ in range(round(INTERVAL / STORE_INTERVAL)):
            with contextlib.suppress(asyncio.TimeoutError):  # the usual case: no listener became visible
                await asyncio.wait_for(self._wakeup.wait(), STORE_INTERVAL)
            if self._wakeup.is_set() or not any(self._listeners.values()):
                return
            if await self._in_thread(self._stamp) != before:
                return

    async def _take_first(self) -> None:
        await asyncio.sleep(FIRST_DELAY)
        try:
            await self.snapshot()
        except OwnlabError as exc:
            self._log.warning("ownlab: %s %s", exc.message, exc.hint)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # -- in the thread

    def _take_snapshot(self) -> Snapshot:
        if self._reader is None:
            # Imports most of ownlab, therefore only after the server listens.
            from ownlab.lab.server.machine_reader import MachineReader

            self._reader = MachineReader(self._folder)
        reader, latest = self._reader, self._latest
        if latest is not None and reader.is_fresh(latest, FRESH_SECONDS) and reader.stamp() == reader.last_stamp:
            return latest
        try:
            latest = self._rename_types(reader.read())
        except OwnlabError:
            # Its open store may be stale (the store was moved): the next snapshot opens it again.
            self._reader = None
            reader.close()
            raise
        self._append_history(latest)
        self._latest = msgspec.structs.replace(latest, history=tuple(self._history))
        return self._latest

    def _read_metrics(self) -> bytes:
        self._take_snapshot()
        assert self._reader is not None  # set by _take_snapshot
        return self._reader.metrics()

    def _stamp(self) -> tuple[int, ...]:
        return self._reader.stamp() if self._reader is not None else ()

    def _append_history(self, snapshot: Snapshot) -> None:
        from ownlab.lab.server.machine_reader import history_point

        # Drop points in the future, too: the clock may have been set back.
        oldest = snapshot.at - HISTORY_SECONDS
        self._history = [point for point in self._history if oldest < point.at <= snapshot.at]
        if not self._history or snapshot.at - self._history[-1].at >= POINT_INTERVAL:
            self._history.append(history_point(snapshot))


class Visibility(Struct, frozen=True, forbid_unknown_fields=True):
    """What a page sends: whether it is in the foreground."""

    visible: bool


def encode_document(result: Snapshot | Struct | OwnlabError, translate: Callable[[str], str] | None = None) -> bytes:
    """Return a result as JSON, or an error as `ownlab … --json` prints it; `translate`: to another language than English."""
    if isinstance(result, OwnlabError):
        from ownlab.render.documents import Failure  # imports much and is rarely needed

        return encode_json(Failure.of(result), translate=translate)
    return encode_json(result, translate=translate)


class StreamHandler(PageSocket):
    """GET /ownlab/api/stream: a websocket on which a page receives snapshots while it is visible."""

    auth_resource = "kernels"
    _sent_until = 0.0  # the page has the history up to this time

    @property
    def snapshots(self) -> SnapshotService:
        """The snapshot service of this server."""
        service: SnapshotService = self.settings["ownlab_snapshots"]
        return service

    async def open(self, *args: str, **kwargs: str) -> None:
        """Called by tornado when the websocket is open. Sends a snapshot at once."""
        super().open(*args, **kwargs)
        self.snapshots.subscribe(self.send_snapshot)
        try:
            self.send_snapshot(await self.snapshots.snapshot())
        except OwnlabError as exc:
            self.send_snapshot(exc)

    def on_message(self, message: str | bytes) -> None:
        """Called by tornado."""
        try:
            visibility = msgspec.json.decode(message, type=Visibility)
        except (msgspec.DecodeError, RecursionError) as exc:
            self.close(_UNSUPPORTED_DATA, str(exc)[:100])
            return
        self.snapshots.set_visible(self.send_snapshot, visibility.visible)

    def on_close(self) -> None:
        """Called by tornado."""
        self.snapshots.unsubscribe(self.send_snapshot)

    def send_snapshot(self, snapshot: Snapshot | OwnlabError) -> None:
        """Called by the snapshot service."""
        if isinstance(snapshot, Snapshot):
            snapshot = self._with_new_history(snapshot)
        try:
            sent = self.write_message(encode_document(snapshot, self.translate).decode())
        except WebSocketClosedError:
            self.snapshots.unsubscribe(self.send_snapshot)
        else:
            sent.add_done_callback(_ignore_closed)

    def _with_new_history(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with only the points that the page lacks; with all points if the clock was set back."""
        after = self._sent_until if self._sent_until <= snapshot.at else 0.0
        self._sent_until = snapshot.at
        new_points = tuple(point for point in snapshot.history if point.at > after)
        return msgspec.structs.replace(snapshot, history=new_points)


def _ignore_closed(sent: asyncio.Future[None]) -> None:
    """A page that closes during a send is not an error; `on_close` follows."""
    failure = None if sent.cancelled() else sent.exception()
    if failure is not None and not isinstance(failure, WebSocketClosedError):
        raise failure
