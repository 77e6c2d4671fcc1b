"""An event loop whose time passes only when nobody has anything to do: minutes of waiting take milliseconds.

What runs in threads runs in the loop instead, a random moment later. So one seed always gives the same run.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any
from unittest import mock

from jupyter_server.services.contents import filecheckpoints, fileio, filemanager, largefilemanager

__all__ = ["Process", "VirtualLoop", "current_process", "virtual_clock"]

_EPOCH = 1_800_000_000.0


class Process:
    """Whose threads run: those of a killed process do not go on."""

    alive = True


current_process: ContextVar[Process | None] = ContextVar("current_process", default=None)


class _Selector(selectors.SelectSelector):
    """Lets time pass instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("Everybody waits for somebody else.")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop of one simulated run."""

    def __init__(self, chance: random.Random) -> None:
        self._virtual = _Selector()
        self._chance = chance
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Like a thread: whoever waits for it may be cancelled, and it goes on."""
        future: asyncio.Future[Any] = self.create_future()
        process, context = current_process.get(), copy_context()

        def finish(result: Any, error: BaseException | None) -> None:
            if future.done() or (process is not None and not process.alive):
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        def run() -> None:
            if process is not None and not process.alive:
                return
            result, error = None, None
            try:
                result = context.run(func, *args)
            except Exception as failed:  # noqa: BLE001 - it belongs to whoever waits
                error = failed
            self.call_later(self._delay(), finish, result, error)

        self.call_later(self._delay(), run)
        return future

    def _delay(self) -> float:
        return self._chance.choice((0.0, 0.001, 0.01, 0.05)) * self._chance.random()


@contextmanager
def virtual_clock(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """The time of the loop is the time of everything, files included; ids follow from the seed."""
    chance = random.Random(f"ids {seed}")
    real_utime = os.utime
    written = iter(range(1, 1 << 62))

    def now() -> float:
        return _EPOCH + loop.time()

    def uuid4() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128), version=4)

    def utime(path: Any, times: Any = None, **more: Any) -> None:
        """Files that are written in the same instant get different times."""
        if times is None and not more:
            moment = int(now() * 1e9) + next(written)
            more = {"ns": (moment, moment)}
        real_utime(path, times, **more)

    with (
        ExitStack() as stack,
        mock.patch.object(time, "time", now),
        mock.patch.object(time, "monotonic", loop.time),
        mock.patch.object(os, "utime", utime),
        mock.patch.object(uuid, "uuid4", uuid4),
    ):
        for module in (fileio, filemanager, filecheckpoints, largefilemanager):
            if hasattr(module, "run_sync"):  # Jupyter's own threads
                stack.enter_context(mock.patch.object(module, "run_sync", asyncio.to_thread))
        yield
