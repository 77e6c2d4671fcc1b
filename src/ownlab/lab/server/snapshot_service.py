"""Looks at runtimes and cards for all pages at once, and only while somebody looks at one of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ownlab.errors import OwnlabError

if TYPE_CHECKING:
    from logging import Logger

    from ownlab.lab.runtimes.records import Point, Snapshot
    from ownlab.lab.server.machine_reader import Sight

__all__ = ["Lookout", "Tell"]

T = TypeVar("T")

# Takes a snapshot, or why there is none.
Tell = Callable[["Snapshot | OwnlabError"], None]

EVERY = 2.0  # seconds between two looks
NOTICED_WITHIN = 0.5  # a change in the store is seen so soon: a file's time is looked at, no more
KEPT = 300.0  # seconds of history
BETWEEN_POINTS = 0.9 * EVERY  # however often things change
CLOSE_SECONDS = 2.0  # for a look that hangs when the server ends
FIRST = 3.0  # seconds after the server listens: the first page and its kernel have it for themselves until then
FRESH = 1.0  # who asks again within so many seconds gets the same answer


class Lookout:
    """One for a server. What blocks (the store, /proc, the child that asks NVML) is done in a thread of its own."""

    def __init__(self, log: Logger, listed: Callable[[Snapshot], Snapshot]) -> None:
        self._log = log
        self._listed = listed  # the same with names of types that the page knows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ownlab-lookout")
        self._sight: Sight | None = None
        self._watchers: dict[Tell, bool] = {}  # -> whether somebody sees it
        self._latest: Snapshot | None = None
        self._history: list[Point] = []
        self._looking: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()  # somebody began to look
        self._beginning: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Called once the server listens: the first look is slow, and makes the list of runtime types."""
        self._beginning = asyncio.create_task(self._begin())

    async def close(self) -> None:
        """Called when the server ends."""
        for task in (self._looking, self._beginning):
            if task is not None:
                task.cancel()
        self._watchers.clear()
        if self._sight is not None:
            with contextlib.suppress(asyncio.TimeoutError):  # all that it has open ends with us
                await asyncio.wait_for(self._in_thread(self._sight.close), CLOSE_SECONDS)
        self._thread.shutdown(wait=False, cancel_futures=True)

    # -- who looks

    def watch(self, tell: Tell) -> None:
        """From now on `tell` is called with every snapshot while it is visible. It is not until `show` says so."""
        self._watchers[tell] = False

    def show(self, tell: Tell, visible: bool) -> None:
        """Whether anybody sees what `tell` shows."""
        if tell not in self._watchers:
            return
        self._watchers[tell] = visible
        if visible:
            self._wanted.set()
        if visible and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    def forget(self, tell: Tell) -> None:
        """It is gone."""
        self._watchers.pop(tell, None)

    # -- looking

    async def snapshot(self) -> Snapshot:
        """How things stand now."""
        return await self._in_thread(self._take)

    async def metrics(self) -> bytes:
        """The same for Prometheus. Its questions are looks as any other."""
        return await self._in_thread(self._tell_metrics)

    async def _look(self) -> None:
        while any(self._watchers.values()):
            try:
                found: Snapshot | OwnlabError = await self.snapshot()
            except OwnlabError as exc:
                found = exc
            for tell in [tell for tell, visible in self._watchers.items() if visible]:
                tell(found)
            await self._change()

    async def _change(self) -> None:
        """Until something changed in the store, or it is time to look again."""
        before = await self._in_thread(self._stamp)
        self._wanted.clear()
        for _ in range(round(EVERY / NOTICED_WITHIN)):
            with contextlib.suppress(asyncio.TimeoutError):  # nobody began: the usual case
                await asyncio.wait_for(self._wanted.wait(), NOTICED_WITHIN)
            if self._wanted.is_set() or not any(self._watchers.values()):
                return
            if await self._in_thread(self._stamp) != before:
                return

    async def _begin(self) -> None:
        await asyncio.sleep(FIRST)
        try:
            await self.snapshot()
        except OwnlabError as exc:
            self._log.warning("ownlab: %s %s", exc.message, exc.hint)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    # -- in the thread

    def _take(self) -> Snapshot:
        if self._sight is None:
            # Imports most of ownlab: not before the server listens.
            from ownlab.lab.server.machine_reader import Sight

            self._sight = Sight()
        sight, latest = self._sight, self._latest
        if latest is not None and sight.is_fresh(latest, FRESH) and sight.stamp() == sight.seen:
            return latest
        try:
            latest = self._listed(sight.look())
        except OwnlabError:
            # What it has open may be of no use any more (a store that was moved): the next look opens it anew.
            self._sight = None
            sight.close()
            raise
        self._remember(latest)
        self._latest = msgspec.structs.replace(latest, history=tuple(self._history))
        return self._latest

    def _tell_metrics(self) -> bytes:
        self._take()
        assert self._sight is not None  # whoever takes a snapshot has one
        return self._sight.metrics()

    def _stamp(self) -> tuple[int, ...]:
        return self._sight.stamp() if self._sight is not None else ()

    def _remember(self, found: Snapshot) -> None:
        from ownlab.lab.server.machine_reader import point_of

        # No points of the future either: the clock may have been set back.
        self._history = [one for one in self._history if found.at - KEPT < one.at <= found.at]
        if not self._history or found.at - self._history[-1].at >= BETWEEN_POINTS:
            self._history.append(point_of(found))
